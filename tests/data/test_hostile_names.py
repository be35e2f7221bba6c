"""What a downloaded run, model or encoder names or asks for: devices, pipes, giants, nonsense. One sentence each, at once."""

from __future__ import annotations

import json
import os
import random
import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sala.classifier.fit import LabelModel, fit_pool
from sala.data import load_dataset
from sala.data.files import read_bounded
from sala.encoders import open_encoder, read_features
from sala.encoders.exported import image_input, read_settings
from sala.episodes.protocol import PROTOCOLS
from sala.errors import SalaError
from sala.labeling.predict import encoder_of, thresholds_of
from sala.training.config import RunConfig, read_config
from sala.training.run import start_run
from tests.helpers.flat import MeanColor

needs_pipes = pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """Whoever reads it waits for ever."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@needs_pipes
@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "."])
def test_a_split_list_that_is_no_file_is_refused(tmp_path: Path, pipe: Path, name: str) -> None:
    for label in "ab":
        (tmp_path / "data" / label).mkdir(parents=True)
    with pytest.raises(SalaError, match="not a file"):
        load_dataset("folder", tmp_path / "data", split_file=str(tmp_path / name))


@needs_pipes
@pytest.mark.parametrize("name", ["config.json", "manifest.json", "last.safetensors"])
def test_a_run_whose_files_are_pipes_is_refused(tmp_path: Path, pipe: Path, name: str) -> None:
    run = tmp_path / "run"
    start_run(run, RunConfig("protonet", PROTOCOLS["glyphs"], PROTOCOLS["glyphs"].budget("cpu", 1)))
    (run / name).unlink()
    (run / name).symlink_to(pipe)
    (run / "best.safetensors").unlink(missing_ok=True)
    from sala.training.loading import load
    from sala.training.run import resume_run

    with pytest.raises(SalaError):
        load(run) if name != "manifest.json" else resume_run(run)


def test_a_file_larger_than_its_kind_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "giant.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(SalaError, match="larger than"):
        read_bounded(tmp_path / "giant.json")
    with pytest.raises(SalaError):
        read_config(tmp_path)


@needs_pipes
@pytest.mark.parametrize("suffix", [".npy", ".onnx", ".pt"])
def test_an_encoder_that_is_a_pipe_is_refused(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(tmp_path / f"net{suffix}")
    with pytest.raises(SalaError):
        open_encoder(tmp_path / f"net{suffix}")


def header(text: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [
        header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000), }\n") + bytes(64),
        header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4), }\n") + bytes(64),
        header(b"{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }\n") + bytes(64),
        header(b"((((((((((" * 50 + b"\n") + bytes(64),
        header(b"{'descr': 'f4" + b"\n"),
        header(b"\xff\xfe\n"),
        b"",
        b"\x93NUMPY\x09\x00",
    ],
)
def test_features_with_a_wrong_header_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.npy").write_bytes(content)
    with pytest.raises(SalaError):
        read_features(tmp_path / "f.npy")


@pytest.mark.parametrize("lines", [b"a\0b\nc", b"\xff\xfe\n\n", b"a\n" * 9])
def test_a_list_beside_features_that_is_none_is_refused(tmp_path: Path, lines: bytes) -> None:
    np.save(tmp_path / "f.npy", np.ones((2, 3), np.float32))
    (tmp_path / "f.txt").write_bytes(lines)
    with pytest.raises(SalaError):
        open_encoder(tmp_path / "f.npy")


@pytest.mark.parametrize(
    "settings",
    ['{"image_size": 100000}', '{"image_size": true}', '{"std": [0, 0, 0]}', '{"mean": [NaN, 0, 0]}', '{"std": [1e400, 1, 1]}',
     '{"mean": 3}', "[]x", "[" * 100_000, "3", '{"std": [1, 1, ' + "9" * 5000 + "]}"],
)  # fmt: skip
def test_settings_beside_an_encoder_that_make_no_sense_are_refused(tmp_path: Path, settings: str) -> None:
    (tmp_path / "net.json").write_text(settings)
    with pytest.raises(SalaError, match=r"net\.json"):
        read_settings(tmp_path / "net.onnx")


class Taken:
    """An input as onnxruntime describes it."""

    def __init__(self, *shape: object):
        self.shape = list(shape)


@pytest.mark.parametrize("inputs", [[], [Taken(1, 3, 224, 224), Taken(1)], [Taken()], [Taken(None, "n", 3)]])
def test_a_network_without_an_input_of_images_is_refused(inputs: list[Taken]) -> None:
    with pytest.raises(SalaError, match="images are"):
        image_input(inputs, Path("net.onnx"))
    assert image_input([Taken("n", 3, 224, -1)], Path("net.onnx"))[1] == [None, 3, 224, None]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    x = torch.randn(30, 8, generator=torch.Generator().manual_seed(0)).numpy()
    fitted = fit_pool(x[:4], np.array([0, 0, 1, 1]), x[4:], classes=("cat", "dog")).model
    noted = {"encoder": {"which": "color", "identity": MeanColor.identity}}
    noted |= {"thresholds": {"precision": 0.9, "outlier": 0.8, "confident": 0.9}}
    replace(fitted, note=noted).save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_an_encoder_that_only_the_model_names_is_not_opened(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("sala.labeling.predict.open_encoder", lambda which: opened.append(which) or MeanColor())
    loaded = LabelModel.load(model)
    with pytest.raises(SalaError, match="--encoder"):
        encoder_of(loaded)
    assert not opened
    encoder_of(loaded, "color")
    assert opened == ["color"]


VALUES = (
    None,
    True,
    -1,
    0,
    1e308,
    10**400,
    "x",
    "9",
    [],
    [1],
    {},
    {"a": 1},
    float("nan"),
    float("inf"),
    [[["x"]]],
    2**63,
)


def edited(note: object, rng: random.Random) -> object:
    """The same JSON with one value anywhere replaced, dropped, or one more put in."""
    if isinstance(note, dict) and note and rng.random() < 0.85:
        key = rng.choice(sorted(note))
        what = rng.random()
        if what < 0.15:
            return {k: v for k, v in note.items() if k != key}
        return {**note, key: edited(note[key], rng)} | ({"more": 1} if what > 0.95 else {})
    if isinstance(note, list) and note and rng.random() < 0.5:
        i = rng.randrange(len(note))
        return [*note[:i], edited(note[i], rng), *note[i + 1 :]]
    return rng.choice(VALUES)


def with_note(content: bytes, edit: Callable[[object], object]) -> bytes:
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    head["__metadata__"]["note"] = json.dumps(edit(json.loads(head["__metadata__"]["note"])))
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def flipped(content: bytes, rng: random.Random) -> bytes:
    i = rng.randrange(len(content)) if rng.random() < 0.5 else rng.randrange(min(600, len(content)))
    changed = bytes([content[i] ^ (1 << rng.randrange(8))])
    return content[:i] + changed + content[i + 1 : None if rng.random() < 0.8 else rng.randrange(i, len(content))]


def test_an_altered_model_is_refused_or_answers(model: Path) -> None:
    """300 edits of its note and 300 of its bytes: nothing but a SalaError, and what is taken gives probabilities."""
    content, rng = model.read_bytes(), random.Random(0)
    features, n_refused = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32), 0
    for i in range(600):
        model.write_bytes(with_note(content, lambda note: edited(note, rng)) if i % 2 else flipped(content, rng))
        try:
            loaded = LabelModel.load(model)
            thresholds_of(loaded)
            said = loaded.predict(features)
            with pytest.raises(SalaError, match="encoder"):
                encoder_of(loaded)
        except SalaError:
            n_refused += 1
        else:
            assert np.allclose(said.probabilities.sum(1), 1, atol=1e-4)
    assert 100 < n_refused < 600

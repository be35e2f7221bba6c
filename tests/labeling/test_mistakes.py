"""`sala label` and `sala predict` given what they cannot use: one sentence, before the work, with what to do."""

from __future__ import annotations

import csv
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sala.classifier.model import FORMAT, LabelModel
from sala.errors import SalaError
from sala.labeling.folders import image_files
from sala.labeling.label import label_folder
from sala.labeling.predictions import Thresholds
from sala.text import counted
from sala.training.checkpoint import load_checkpoint, save_checkpoint
from tests.helpers.painted import RED, MeanColor, folders_painted, invoke, labels, paint, paint_outliers, refusal, sala  # noqa: F401

COLOR = ("--encoder", "color")


@pytest.fixture
def model(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    """A model to spoil."""
    path = tmp_path / "m.safetensors"
    label_folder(*folders, MeanColor(), which="color").model.save(path)  # type: ignore[arg-type]
    return path


def with_format(path: Path, version: object) -> None:
    tensors, note = load_checkpoint(path)
    save_checkpoint(path, tensors, note | {"format": version})


def without_class(path: Path) -> None:
    tensors, note = load_checkpoint(path)
    save_checkpoint(path, tensors, {key: value for key, value in note.items() if key != "classes"})


SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "is empty; copy it anew"),
    "noise": (lambda path: path.write_bytes(bytes(range(256)) * 9), "is damaged, or no model at all ("),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-20]), "is damaged, or no model at all ("),
    "of another program": (
        lambda path: save_file({"weight": torch.zeros(2)}, path),
        "not those of a labeling model; give the model.safetensors that `sala label` wrote",
    ),
    "without its note": (lambda path: save_file(load_file(path), path), "not those of a labeling model"),
    "older": (lambda path: with_format(path, 1), f"an older version of sala (format 1; this one reads {FORMAT})"),
    "newer": (lambda path: with_format(path, FORMAT + 1), "install that version of sala, or make it again"),
    "changed": (without_class, "was changed or damaged ('classes' is missing); make it again with `sala label`"),
    "gone": (lambda path: path.unlink(), "`sala label` makes one"),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_a_file_that_is_no_model_is_named_with_what_to_do(model: Path, folders: tuple[Path, Path], kind: str) -> None:
    spoil, sentence = SPOILED[kind]
    spoil(model)
    result = invoke("predict", model, folders[1], *COLOR)
    assert not result.stdout
    message = str(result.exception)
    assert str(model) in message and sentence in message and "`sala label`" in message
    assert "checkpoint" not in message and "KeyError" not in message and "\n" not in message


def test_a_folder_in_place_of_a_model_is_answered_with_the_model_in_it(model: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    shutil.copy(model, tmp_path / "out" / "model.safetensors")
    assert f"give {tmp_path}/out/model.safetensors" in refusal("predict", tmp_path / "out", tmp_path, *COLOR)
    assert "that `sala label` wrote" in refusal("predict", tmp_path / "pool", tmp_path, *COLOR)


def test_nothing_is_written_where_there_is_nothing_to_say(model: Path, tmp_path: Path) -> None:
    loaded = LabelModel.load(model)
    replace(loaded, note={"encoder": loaded.note["encoder"]}).save(tmp_path / "no-thresholds.safetensors")
    (tmp_path / "none").mkdir()
    for given in ((tmp_path / "no-thresholds.safetensors", tmp_path / "pool"), (model, tmp_path / "none")):
        result = invoke("predict", *given, *COLOR)
        assert result.exit_code == 1 and not result.stdout


def test_images_of_a_folder_come_sorted_and_named_files_as_they_were_named(model: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    for name in ("b.png", "a/z.png", "a.png", "a/c/1.png", "a/b.png", "z/1.png", "10.png", "9.png"):
        paint(new / name, RED)
    rows = csv.DictReader(io.StringIO(sala("predict", model, new, *COLOR).stdout))
    found = [Path(row["path"]) for row in rows]
    assert len(found) == 8 and found == sorted(found)
    named = [new / name for name in ("b.png", "10.png", "a/z.png", "9.png")]
    rows = csv.DictReader(io.StringIO(sala("predict", model, *named, *COLOR).stdout))
    assert [Path(row["path"]) for row in rows] == named


def test_an_encoder_file_that_is_not_there_is_not_called_a_name(model: Path, folders: tuple[Path, Path]) -> None:
    for name in ("net.onnx", "net.pt", "features.npy", "runs/mine"):
        message = refusal("label", *folders, "--encoder", name)
        assert f"there is no file or folder {name}" in message and "lite0" not in message
    assert "there is no encoder lite; take lite0" in refusal("label", *folders, "--encoder", "lite")
    loaded = LabelModel.load(model)
    note = loaded.note | {"encoder": loaded.note["encoder"] | {"which": "/gone/net.onnx"}}
    replace(loaded, note=note).save(model)
    assert "made with the encoder /gone/net.onnx" in refusal("predict", model, folders[1])


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Take a user's rights on a place away, from root too."""
    before = os.access

    def lock(place: Path) -> None:
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != place and before(path, mode))

    return lock


def test_folders_that_may_not_be_read_are_named(
    folders: tuple[Path, Path], locked: Callable[[Path], None], tmp_path: Path
) -> None:
    words = ("label", *folders, "--out", tmp_path / "out", *COLOR)
    for place, what in ((folders[0], "with labeled images"), (folders[1], "with images to label")):
        locked(place)
        assert f"the folder {place} {what} cannot be read (Permission denied); allow this user" in refusal(*words)
    locked(folders[0] / "red")
    assert f"{folders[0]}/red cannot be read (Permission denied)" in refusal(*words)
    locked(folders[1] / "part1")
    sala(*words)
    (row,) = labels(tmp_path / "out" / "skipped.csv")
    assert row["path"] == str(folders[1] / "part1") and "Permission denied" in row["reason"]


def never(*words: object, **options: object) -> None:
    raise AssertionError("the work has begun")


def test_places_that_may_not_be_written_are_refused_before_the_work(
    folders: tuple[Path, Path],
    model: Path,
    locked: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sala.labeling.embedding.embed_project", never)
    monkeypatch.setattr("sala.labeling.predict.predict_files", never)
    (tmp_path / "shut").mkdir()
    (tmp_path / "out" / "labels.csv").mkdir(parents=True)
    locked(tmp_path / "shut")
    out, shut = ("--out", tmp_path / "fine"), tmp_path / "shut" / "x"
    sentence = f"this user may not write into {tmp_path}/shut; allow it, or choose another"
    assert f"{sentence} --copy-to" in refusal("label", *folders, *out, "--copy-to", shut, *COLOR)
    assert f"{sentence} --out" in refusal("label", *folders, "--out", shut, *COLOR)
    assert "labels.csv is a folder, and a file is wanted" in refusal(
        "label", *folders, "--out", tmp_path / "out", *COLOR
    )
    assert f"{sentence} --out" in refusal("predict", model, folders[1], "--out", shut, *COLOR)
    assert "is a folder, and a file is wanted" in refusal(
        "predict", model, folders[1], "--out", tmp_path / "out", *COLOR
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"no image", r"no image of the class green can be used.*`sala serve`"), (None, "the same image in two classes")],
)
def test_examples_that_cannot_be_are_found_before_the_pool_is_embedded(
    folders: tuple[Path, Path], content: bytes | None, message: str
) -> None:
    (folders[0] / "green" / "0.png").write_bytes(content or (folders[0] / "red" / "0.png").read_bytes())
    seen = 0

    class Counting(MeanColor):
        identity = f"mean-color-counting-{content!r}"

        def embed(self, images: np.ndarray) -> np.ndarray:
            nonlocal seen
            seen += len(images)
            return super().embed(images)

    with pytest.raises(SalaError, match=message):
        label_folder(*folders, Counting())  # type: ignore[arg-type]
    assert seen <= 6  # labeled ones


def test_what_is_no_plain_file_is_written_to_and_not_replaced(
    model: Path, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "link.csv").symlink_to("real.csv")
    sala("predict", model, folders[1], "--out", tmp_path / "link.csv", *COLOR)
    assert (tmp_path / "link.csv").is_symlink() and len(labels(tmp_path / "real.csv")) == 30
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    sala("predict", model, folders[1] / "part0" / "red0.png", "--out", tmp_path / "pipe", *COLOR)
    assert os.read(reader, 1 << 16).count(b"\n") == 2 and not (tmp_path / "pipe").is_file()
    os.close(reader)


def test_classes_that_are_links_are_not_said_to_be_missing(folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "linked").mkdir()
    for name in ("red", "green"):
        (tmp_path / "linked" / name).symlink_to(folders[0] / name)
    message = refusal("label", tmp_path / "linked", folders[1], *COLOR)
    assert "has no class folders" in message and "is a link to a folder and is not followed" in message


def test_an_empty_name_is_not_the_folder_one_is_in(model: Path, folders: tuple[Path, Path]) -> None:
    assert "one of the names of images is empty" in refusal("predict", model, "", folders[1], *COLOR)


def test_features_that_are_no_numbers_are_refused_with_their_row(folders: tuple[Path, Path], tmp_path: Path) -> None:
    names = [str(path) for folder in folders for path, _ in image_files(folder)]
    features = np.random.default_rng(0).normal(size=(len(names), 4))
    features[7, 2] = np.nan
    features[9, 0] = 1e300
    np.save(tmp_path / "f.npy", features)
    (tmp_path / "f.txt").write_text("\n".join(names))
    message = refusal("label", *folders, "--encoder", tmp_path / "f.npy")
    assert "too large in 2 rows, the first of them row 8 of 36" in message


def test_one_is_not_spoken_of_as_many(folders: tuple[Path, Path], model: Path, tmp_path: Path) -> None:
    assert [counted(n, "class") for n in (0, 1, 2_000)] == ["0 classes", "1 class", "2,000 classes"]
    assert "\n1 image labeled\n" in f"\n{sala('predict', model, folders[1] / 'part0' / 'red0.png', *COLOR).stderr}"
    (folders[1] / "x.png").touch()
    assert "skipped: 1 file, " in sala("label", *folders, "--out", tmp_path / "out", *COLOR).stderr


def test_how_many_are_rather_outliers_is_told_where_they_are_not_rejected(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> Thresholds:
        return Thresholds(precision=0.9, outlier=2.0, confident=0.9)

    monkeypatch.setattr("sala.labeling.label.find_thresholds", never)
    paint_outliers(folders[1], tmp_path / "known")
    said = sala("label", *folders, "--out", tmp_path / "out", "--outliers", tmp_path / "known", *COLOR).stderr
    rows = labels(tmp_path / "out" / "labels.csv")
    n = sum(float(row["outlier_probability"]) > 0.5 for row in rows)
    assert n >= 3 and f"rejected: {n} " in said


STOPPED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell leaves out for what runs behind
from sala import encoders
from sala.cli import app as cli

class Slow:
    name, identity, image_size, mode = "slow", "slow-stopped", 8, "RGB"
    n = 0

    def embed(self, images):
        Slow.n += 1
        if Slow.n > 2:
            os.kill(os.getpid(), signal.SIGINT)
        return images.mean((1, 2)).astype("float32")

encoders.open_encoder = lambda which: Slow()
cli.main()
"""


def test_ctrl_c_says_in_one_line_what_is_kept(folders: tuple[Path, Path], tmp_path: Path) -> None:
    for i in range(40):
        paint(folders[1] / f"more{i}.png", RED, i)
    words = ["label", *map(str, folders), "--out", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", STOPPED, *words], capture_output=True, text=True)
    assert done.returncode == 130 and not done.stdout
    assert done.stderr == "stopped: the features of 32 images are kept, and the same command goes on from there\n"
    assert not (tmp_path / "out").exists()


def test_ctrl_c_while_modules_are_loaded_is_one_word() -> None:
    code = "import signal, sys, os; sys.argv = ['sala', 'label', 'a', 'b']; from sala.__main__ import main\n"
    early = (
        f"{code}class Stop:\n    def find_spec(self, name, *_):\n        if name == 'NAME': raise KeyboardInterrupt\n"
    )
    for name in ("sala.cli.app", "torch"):
        text = early.replace("NAME", name) + "sys.meta_path.insert(0, Stop())\nmain()"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "stopped")

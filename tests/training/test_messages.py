"""What a user is told when data has moved, a disk is full, or a run is of another version."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from sala.atomic import write_atomically, write_json
from sala.cli import app as cli
from sala.errors import SalaError
from sala.labeling.export import written_whole
from sala.training.config import read_config
from sala.training.loading import load
from sala.training.log import RunLog
from sala.training.loop import Record
from sala.training.measured import evaluate_run
from sala.training.run import start_run
from tests.helpers.tasks import config

Refused = Callable[..., str]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """The one sentence of a command that must fail."""

    def call(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["sala", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        lines = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
        assert (stop.value.code, len(lines)) == (1, 1), lines
        return lines[0]

    return call


def draw_images(folder: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    for i in range(12):
        (folder / f"class{i}").mkdir(parents=True)
        for j in range(36):
            Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(folder / f"class{i}" / f"{j}.png")
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run on images of one's own, in a folder beside them."""
    folder = tmp_path_factory.mktemp("own")
    root = draw_images(folder / "images", seed=0)
    words = [
        "train",
        "--dataset",
        "folder",
        "--root",
        root,
        "--image-size",
        "16",
        "--method",
        "protonet",
        "--ways",
        "2",
    ]
    words += ["--episodes", "1", "--queries", "1", "--threads", "1", "--out", folder / "run"]
    done = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def moved(trained: Path, tmp_path: Path, own_cache: None) -> Path:
    """The run and its images in another place, and nothing of them in the cache."""
    place = tmp_path / "moved"
    shutil.copytree(trained, place)
    content = json.loads((place / "run" / "config.json").read_text())
    content["root"] = str(tmp_path / "gone")
    write_json(place / "run" / "config.json", content)
    return place


def test_data_that_has_moved_is_found_by_the_option_that_the_message_names(moved: Path, refused: Refused) -> None:
    for command in ("evaluate", "compare"):
        assert "gone does not exist; --root" in refused(command, moved / "run", "--episodes", "2")
        words = [command, str(moved / "run"), "--episodes", "2", "--root", str(moved / "images")]
        shutil.rmtree(moved / "run" / "results", ignore_errors=True)
        assert CliRunner().invoke(cli.app, words).exit_code == 0
        shutil.rmtree(moved / "run" / "results")


def test_other_data_is_not_taken_for_that_of_the_run(moved: Path, refused: Refused, tmp_path: Path) -> None:
    other = draw_images(tmp_path / "other", seed=1)
    assert "other data than" in refused("evaluate", moved / "run", "--episodes", "2", "--root", other)


def change(run: Path, **fields: object) -> None:
    content = json.loads((run / "config.json").read_text()) | fields
    write_json(run / "config.json", {name: value for name, value in content.items() if value != "removed"})


@pytest.mark.parametrize(
    "fields", [{"flavor": 3}, {"backbone": "removed"}, {"budget": {"n_episodes": 1, "patience": 3}}]
)
def test_a_configuration_with_other_fields_is_of_another_version(fields: dict[str, object], moved: Path) -> None:
    change(moved / "run", **fields)
    with pytest.raises(SalaError, match=r"made by another version of sala: its .*train again") as refusal:
        read_config(moved / "run")
    assert "__init__" not in str(refusal.value)


def test_a_configuration_without_what_came_later_has_the_defaults(moved: Path) -> None:
    change(moved / "run", precision="removed")
    assert read_config(moved / "run").precision == "auto"


def test_an_option_that_the_method_no_longer_has_is_named(moved: Path) -> None:
    change(moved / "run", options={"temperature": 2.0})
    with pytest.raises(SalaError, match=r"another version of ProtoNet.* no option temperature now.*train again"):
        load(moved / "run")


def test_runs_on_two_datasets_are_tested_each_alone(moved: Path, refused: Refused) -> None:
    other = moved / "other"
    shutil.copytree(moved / "run", other)
    content = json.loads((other / "config.json").read_text())
    content["protocol"]["dataset"] = "omniglot"
    write_json(other / "config.json", content)
    shutil.rmtree(other / "results", ignore_errors=True)
    sentence = refused("compare", other, moved / "run", "--episodes", "2")
    assert "omniglot" in sentence and "folder" in sentence and "sala evaluate" in sentence


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)


def test_a_full_disk_is_named_by_its_place(full_disk: None, tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"before")
    with pytest.raises(SalaError, match=r"kept cannot be written.*make room"):
        write_atomically(tmp_path / "kept", b"after")
    with pytest.raises(SalaError, match=r"kept cannot be written.*make room"), written_whole(tmp_path / "kept") as file:
        file.write("after")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept").read_bytes() == b"before"


def test_a_training_that_fills_the_disk_names_its_checkpoint(full_disk: None, glyphs: object, tmp_path: Path) -> None:
    with pytest.raises(SalaError, match=r"run/config.json cannot be written.*make room"):
        start_run(tmp_path / "run", config("protonet", n_episodes=1))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_log_on_a_full_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(SalaError, match=r"metrics.jsonl cannot be written.*make room"), RunLog(tmp_path) as log:
        log.write(Record(1, 0.5, 1e-3, None, False))


def test_a_result_on_a_full_disk_is_named(moved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = read_config(moved / "run").protocol.validation
    evaluate_run(moved / "run", {"": shape}, n_episodes=2, root=moved / "images")

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SalaError, match=r"results/.*json cannot be written.*make room"):
        evaluate_run(moved / "run", {"": shape}, n_episodes=3, root=moved / "images")


def test_a_method_file_without_logits_is_told_what_to_write(refused: Refused, tmp_path: Path, glyphs: object) -> None:
    (tmp_path / "mine.py").write_text("import sala\n\n\nclass Mine(sala.Method):\n    pass\n")
    words = ["train", "--dataset", "glyphs", "--episodes", "1", "--method", f"{tmp_path}/mine.py:Mine"]
    assert "Mine has no logits; write" in refused(*words, "--out", tmp_path / "run")


def test_a_typo_in_a_method_is_told_before_the_data_are_looked_at(refused: Refused, tmp_path: Path) -> None:
    command = ("train", "--dataset", "folder", "--root", tmp_path / "missing", "--method", "sallla")
    assert "sallla" in refused(*command, "--out", tmp_path / "run")

"""What `sala train` lets people turn reaches the run's record."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sala.cli.app import app
from sala.data import ImageStore
from sala.training.config import RunConfig, read_config

SHORT = ["--dataset", "glyphs", "--episodes", "1", "--threads", "1"]


def trained(folder: Path, *words: str) -> RunConfig:
    done = CliRunner().invoke(app, ["train", *words])
    assert done.exit_code == 0, (done.output, done.exception)
    return read_config(done.stdout.strip().splitlines()[-1])


def test_numbers_and_names_are_recorded(tmp_path: Path, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    turned = ["--learning-rate", "0.01", "--weight-decay", "0", "--optimizer", "adamw", "--schedule", "linear"]
    p = trained(tmp_path, *SHORT, *turned, "--test-queries", "3", "--test-unlabeled", "2").protocol
    assert (p.learning_rate, p.weight_decay, p.optimizer, p.schedule) == (0.01, 0.0, "adamw", "linear")
    assert {(shape.n_query, shape.n_unlabeled) for shape in p.test.values()} == {(3, 2)}
    assert p.train.n_query == 1
    (folder,) = (tmp_path / "runs").iterdir()
    other = trained(tmp_path, *SHORT, "--method", "protonet", "--init", str(folder), "--backbone", "conv4")
    assert other.init == str(folder)


def test_other_decisions_have_other_folders(
    tmp_path: Path, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for turned in ([], ["--optimizer", "sgd"], ["--backbone", "identity"]):
        trained(tmp_path, *SHORT, *turned)
    assert len(list((tmp_path / "runs").iterdir())) == 3


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--optimizer", "lion"], "adamw"),
        (["--schedule", "steps"], "cosine"),
        (["--learning-rate", "-1"], "above 0"),
        (["--test-queries", "500"], "lower"),
        (["--init", "nowhere"], "nowhere"),
        (["--backbone", "nowhere.py:Net"], "no such file"),
        (["--backbone", "vgg"], "resnet12"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence_and_leaves_no_folder(
    words: list[str], part: str, tmp_path: Path, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["train", *SHORT, *words])
    assert done.exit_code
    assert part in str(done.exception)
    assert not list(tmp_path.glob("runs/*"))

"""Runs on noise in the shape of the built-in letters, and commands through the door that users take.

A module that imports the fixture `noise` trains on that noise.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sala.cli import app as cli
from sala.data import ImageStore
from sala.data.build import build_store
from sala.data.store import ClassEntry, Source
from sala.training import config as runconfig

TRAIN = ["train", "--dataset", "glyphs", "--episodes", "2", "--threads", "1", "--method"]
Sala = Callable[..., tuple[int, str, str]]
METHOD = "import sala\n\n\nclass Mine(sala.Method):\n    def logits(self, task):\n        "


@pytest.fixture(name="store", scope="module")
def noise_store(tmp_path_factory: pytest.TempPathFactory) -> ImageStore:
    """Noise in the shape of the built-in letters: quick to make."""
    rng = np.random.default_rng(0)
    classes = [ClassEntry(f"{split}{i}", split, 20) for split in ("train", "val", "test") for i in range(6)]
    images = ((c, rng.integers(0, 256, (16, 16, 1), np.uint8)) for c in range(len(classes)) for _ in range(20))
    return build_store(tmp_path_factory.mktemp("noise") / "store", "glyphs", Source(classes, images, (16, 16, 1)))


@pytest.fixture(name="noise", scope="module", autouse=True)
def noise_in_place_of_letters(store: ImageStore) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runconfig, "load_dataset", lambda *_, **__: store)
        yield


@pytest.fixture(name="sala")
def sala_called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sala:
    """Exit code, stdout and stderr of a command, through the door that users take."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sala", *map(str, words)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return call


@pytest.fixture(name="refused")
def sala_refused(sala: Sala) -> Callable[..., str]:
    """The one sentence of a command that must fail."""

    def call(*words: object) -> str:
        code, out, err = sala(*words)
        assert code == 1
        assert not out
        lines = [line for line in err.splitlines() if line.strip()]
        assert lines[-1].startswith("error: ") and "Traceback" not in err
        return lines[-1]

    return call


@pytest.fixture(name="trained", scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory, noise: None) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert CliRunner().invoke(cli.app, [*TRAIN, "protonet", "--out", str(folder)]).exit_code == 0
    return folder


@pytest.fixture(name="run")
def run_copied(tmp_path: Path, trained: Path) -> Path:
    """A finished run to spoil."""
    return Path(shutil.copytree(trained, tmp_path / "run"))

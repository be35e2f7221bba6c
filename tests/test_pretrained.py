"""Runs that come with the package."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import sala
from sala.cli import app
from sala.data import ImageStore
from sala.runconfig import SHIPPED, read_config, run_folder, shipped_runs
from sala.trained import evaluate_run


def test_they_are_loaded_by_name() -> None:
    assert shipped_runs() == ["omniglot-sala", "omniglot-sala-distractors"]
    method = sala.load("omniglot-sala")
    assert isinstance(method, sala.METHODS["sala"])
    assert not method.training
    assert read_config("omniglot-sala-distractors").protocol.train.n_distractor == 5
    assert method.embed_images(torch.zeros(2, 1, 28, 28)).shape == (2, 64)


def test_a_folder_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_folder("omniglot-sala") == SHIPPED / "omniglot-sala"
    (tmp_path / "omniglot-sala").mkdir()
    monkeypatch.chdir(tmp_path)
    assert run_folder("omniglot-sala") == Path("omniglot-sala")


def test_nothing_is_written_into_the_package(omniglot: ImageStore) -> None:
    before = sorted(SHIPPED.rglob("*"))
    results = evaluate_run("omniglot-sala", dict(read_config("omniglot-sala").protocol.test), n_episodes=60)
    assert results["large"].accuracy > 96
    assert sorted(SHIPPED.rglob("*")) == before


def test_the_error_for_a_wrong_name_says_what_there_is() -> None:
    result = CliRunner().invoke(app, ["evaluate", "omniglot-salad"])
    assert result.exit_code != 0
    assert "omniglot-sala-distractors" in str(result.exception)

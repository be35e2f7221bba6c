"""Runs that come with the package."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import sala
from sala.cli.app import app
from sala.data import ImageStore
from sala.encoders import open_encoder
from sala.errors import SalaError
from sala.training.checkpoint import load_checkpoint, save_checkpoint
from sala.training.config import SHIPPED, read_config, run_folder, shipped_runs
from sala.training.measured import evaluate_run


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


@pytest.mark.slow
def test_nothing_is_written_into_the_package(omniglot: ImageStore) -> None:
    before = sorted(SHIPPED.rglob("*"))
    results = evaluate_run("omniglot-sala", dict(read_config("omniglot-sala").protocol.test), n_episodes=60)
    assert results["large"].accuracy > 96
    assert sorted(SHIPPED.rglob("*")) == before


def test_the_error_for_a_wrong_name_says_what_there_is() -> None:
    result = CliRunner().invoke(app, ["evaluate", "omniglot-salad"])
    assert result.exit_code != 0
    assert "omniglot-sala-distractors" in str(result.exception)


WRONG: dict[str, Callable[[dict[str, Tensor], str], dict[str, Tensor]]] = {
    "another shape": lambda tensors, name: tensors | {name: tensors[name][:-1].contiguous()},
    "one is missing": lambda tensors, name: {key: tensor for key, tensor in tensors.items() if key != name},
    "one too many": lambda tensors, name: tensors | {f"{name}.more": tensors[name].clone()},
}


@pytest.mark.parametrize("what", WRONG)
def test_weights_that_do_not_fit_are_refused(tmp_path: Path, what: str) -> None:
    shutil.copytree(SHIPPED / "omniglot-sala", tmp_path / "run")
    (weights,) = (tmp_path / "run").glob("*.safetensors")
    tensors, note = load_checkpoint(weights)
    name = max(tensors, key=lambda name: tensors[name].numel())
    save_checkpoint(weights, WRONG[what](tensors, name), note)
    with pytest.raises(SalaError, match="holds weights that do not fit SALA"):
        open_encoder(tmp_path / "run")

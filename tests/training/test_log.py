"""What a run writes down beside its log."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sala.data import ImageStore
from sala.training.run import start_run
from tests.helpers.tasks import config

Scalars = dict[str, list[tuple[str, int]]]


@pytest.fixture(name="scalars")
def tensorboard_in_memory(monkeypatch: pytest.MonkeyPatch) -> Scalars:
    """By folder, the names and episodes that a run gives to TensorBoard, which may not be installed."""
    found: Scalars = {}

    class SummaryWriter:
        def __init__(self, folder: str):
            self.lines: list[tuple[str, int]] = found.setdefault(folder, [])

        def add_scalar(self, name: str, value: Any, episode: int) -> None:
            assert float(value) == float(value)
            self.lines.append((name, episode))

        def close(self) -> None:
            pass

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    return found


def test_a_run_shows_loss_rate_and_accuracy_in_tensorboard(
    scalars: Scalars, tmp_path: Path, glyphs: ImageStore
) -> None:
    asked = config("protonet", 4)
    start_run(tmp_path / "run", asked)
    lines = scalars[str(tmp_path / "run" / "tensorboard")]
    assert {"loss", "learning_rate", "val_accuracy"} <= {name for name, _ in lines}
    assert max(episode for _, episode in lines) == 4

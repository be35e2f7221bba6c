"""More refinement steps at test, on a run of glyphs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import refinement_steps
from sala.data import ImageStore
from sala.errors import SalaError
from sala.training.measured import evaluate_run
from sala.training.run import start_run
from tests.helpers.tasks import GLYPHS, config


def test_rows_are_of_the_validation_classes_and_paired_with_one_step(tmp_path: Path, glyphs: ImageStore) -> None:
    start_run(tmp_path / "run", config(n_episodes=3))
    rows = refinement_steps.measure(str(tmp_path / "run"), n_episodes=4)
    assert [(row["setting"], row["n_refinement_steps"]) for row in rows] == [
        (setting, n) for setting in ("ren", "large") for n in (1, 2, 3)
    ]
    usual = evaluate_run(tmp_path / "run", GLYPHS.test, split="val", n_episodes=4)
    assert [rows[0]["mean"], rows[3]["mean"]] == [usual[setting].accuracy for setting in ("ren", "large")]
    assert rows[0]["against_one_step"] is None
    assert rows[1]["against_one_step"]["mean"] == pytest.approx(rows[1]["mean"] - rows[0]["mean"])
    assert refinement_steps.table(rows).count("\n") == 7


def test_a_run_without_refinement_is_refused(tmp_path: Path, glyphs: ImageStore) -> None:
    start_run(tmp_path / "run", config("protonet", n_episodes=1))
    with pytest.raises(SalaError, match="ProtoNet"):
        refinement_steps.measure(str(tmp_path / "run"), n_episodes=1)

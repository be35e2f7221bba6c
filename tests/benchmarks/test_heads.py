"""All heads beside a run's own method, on a run of glyphs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import heads
from sala.data import ImageStore
from sala.training.run import start_run
from tests.helpers.tasks import config


def test_rows_are_paired_with_the_own_method_and_the_table_has_a_line_a_head(
    tmp_path: Path, glyphs: ImageStore
) -> None:
    start_run(tmp_path / "run", config("protonet", n_episodes=2))
    rows = heads.measure(str(tmp_path / "run"), ["simpleshot", "oslo"], n_episodes=3)
    assert [(row["head"], row["shape"]["n_distractor"]) for row in rows] == [
        (head, n) for n in (0, 5) for head in (heads.OWN, "simpleshot", "oslo")
    ]
    assert rows[0]["against_own"] is None
    assert rows[4]["against_own"]["mean"] == pytest.approx(rows[4]["mean"] - rows[3]["mean"])
    assert heads.table(rows).count("\n") == 4

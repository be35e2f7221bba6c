"""What a sweep will cost, and what it does about data that is not there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sala.cli.app import app
from sala.cli.sweep_view import missing
from sala.data import ImageStore
from sala.errors import SalaError
from sala.reproduction import estimate
from sala.reproduction.estimate import Cost, expected_cost
from sala.reproduction.plan import Cell, Run
from sala.reproduction.runner import Job


def job(variant: str, folder: Path, seed: int = 0, dataset: str = "glyphs", n_distractor: int = 0) -> Job:
    run = Run(Cell(dataset, 1, n_distractor, variant), "cpu", seed)
    return Job(run, folder / run.trained.name)


def test_each_kind_of_run_is_measured_once(tmp_path: Path, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def seconds(run: Run, store: ImageStore, n_steps: int) -> float:
        measured.append(run.cell.variant)
        return 100.0

    monkeypatch.setattr(estimate, "expected_seconds", seconds)
    jobs = [job("sala", tmp_path), job("sala", tmp_path, seed=1), job("sala-printed", tmp_path)]
    jobs += [job("protonet", tmp_path), job("protonet", tmp_path, n_distractor=5)]  # trained once
    cost = expected_cost(jobs, {"glyphs": glyphs})
    assert sorted(measured) == ["protonet", "sala-printed"]
    assert cost.core_seconds == 400


def test_what_was_begun_costs_the_rest(tmp_path: Path, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "expected_seconds", lambda *_: 100.0)
    begun, new = job("sala", tmp_path), job("sala", tmp_path, seed=1)
    begun.folder.mkdir()
    line = {"episode": begun.run.config.budget.n_episodes // 4, "val_accuracy": 50.0}
    (begun.folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    assert expected_cost([begun, new], {"glyphs": glyphs}).core_seconds == 175
    assert missing([begun, new], 7) == "5 of 7 runs are recorded, 1 begun, 1 missing"


def test_many_jobs_do_not_shorten_the_longest_run() -> None:
    cost = Cost({"a": 100.0, "b": 10.0, "c": 10.0})
    assert cost.wall_seconds(1) == 120
    assert cost.wall_seconds(2) == cost.wall_seconds(99) == 100
    assert replace(cost, seconds={}).wall_seconds(2) == 0


WORDS = ["reproduce", "table1", "--shots", "1", "--variant", "protonet", "--episodes", "3", "--dry-run"]


def test_a_dataset_that_no_one_named_is_left_out_if_it_is_not_there(
    tmp_path: Path, glyphs: ImageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SALA_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sala.cli.reproduce.DATASETS", {"cpu": ("miniimagenet", "glyphs")})
    done = CliRunner().invoke(app, [*WORDS, "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "miniimagenet are left out" in done.stderr and "sala data prepare miniimagenet" in done.stderr
    assert "0 of 1 runs are recorded" in done.stdout and "miniimagenet" not in done.stdout


def test_where_no_dataset_is_there_all_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SALA_DATA", raising=False)
    monkeypatch.setattr("sala.cli.reproduce.DATASETS", {"cpu": ("miniimagenet", "tiny-tiered")})
    with pytest.raises(SalaError, match="no data of miniimagenet, tiny-tiered is at hand; `sala data fetch NAME`"):
        CliRunner().invoke(app, [*WORDS, "--out", str(tmp_path)], catch_exceptions=False)


def test_a_dataset_that_was_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SALA_DATA", raising=False)
    words = [*WORDS, "--dataset", "tieredimagenet", "--budget", "paper", "--out", str(tmp_path)]
    with pytest.raises(SalaError, match="tieredimagenet is not prepared"):
        CliRunner().invoke(app, words, catch_exceptions=False)

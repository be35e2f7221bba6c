"""The figures of docs/practice.md on calibration: what they are worth where the truth is known."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def calibration(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("calibration")


def some(rng: np.random.Generator, n: int, too_sure_by: float) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of two classes, and truths that are the first of them less often by so much."""
    said = rng.uniform(0.6, 1.0, n)
    return np.column_stack([said, 1 - said]), (rng.random(n) > said - too_sure_by).astype(int)


def test_the_calibration_error_is_that_of_a_loop_over_bins(calibration: ModuleType) -> None:
    p, truth = some(np.random.default_rng(0), 200, 0.1)
    error = 0.0
    for b in range(15):
        rows = [i for i in range(200) if min(int(p[i].max() * 15), 14) == b]
        if rows:
            right = sum(int(p[i].argmax() == truth[i]) for i in rows) / len(rows)
            error += len(rows) / 200 * abs(right - sum(p[i].max() for i in rows) / len(rows))
    assert calibration.expected_calibration_error(p, truth) == pytest.approx(error)


@pytest.mark.parametrize("too_sure_by", [0.0, 0.1])
def test_less_its_bias_the_calibration_error_is_nearer_to_the_truth_and_hardly_below_it(
    calibration: ModuleType, too_sure_by: float
) -> None:
    rng = np.random.default_rng(0)
    made = [some(rng, 100, too_sure_by) for _ in range(200)]
    plain = np.mean([calibration.expected_calibration_error(*draw) for draw in made])
    less = np.mean([calibration.without_bias(*draw) for draw in made])
    assert too_sure_by - 0.005 < less < plain - 0.01


def test_with_many_images_there_is_no_bias_to_take_away(calibration: ModuleType) -> None:
    p, truth = some(np.random.default_rng(0), 50_000, 0.1)
    assert calibration.without_bias(p, truth) == pytest.approx(0.1, abs=0.005)
    assert calibration.expected_calibration_error(p, truth) == pytest.approx(0.1, abs=0.005)


def test_by_chance_is_the_error_of_draws_from_the_probabilities(calibration: ModuleType) -> None:
    rng = np.random.default_rng(0)
    made = [some(rng, 100, 0.0) for _ in range(100)]
    chance = np.mean([calibration.by_chance(p) for p, _ in made])
    assert chance == pytest.approx(np.mean([calibration.expected_calibration_error(*draw) for draw in made]), abs=0.01)


def test_the_best_temperature_mends_what_a_temperature_spoiled(calibration: ModuleType) -> None:
    p, truth = some(np.random.default_rng(0), 5_000, 0.0)
    sharper = p**3 / (p**3).sum(1, keepdims=True)
    assert calibration.expected_calibration_error(sharper, truth) > 0.08
    mended = calibration.at_the_best_temperature(sharper, truth)
    assert calibration.expected_calibration_error(mended, truth) < 0.03

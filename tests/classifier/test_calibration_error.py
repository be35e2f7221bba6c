"""Measures of calibration in the labeling benchmarks, where the truth is known."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "labeling"


@pytest.fixture
def calibration(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("calibration")


def some(rng: np.random.Generator, n: int, overconfidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of two classes, and labels that are the first one less often by `overconfidence`."""
    said = rng.uniform(0.6, 1.0, n)
    return np.column_stack([said, 1 - said]), (rng.random(n) > said - overconfidence).astype(int)


def test_the_calibration_error_is_that_of_a_loop_over_bins(calibration: ModuleType) -> None:
    p, truth = some(np.random.default_rng(0), 200, 0.1)
    error = 0.0
    for b in range(15):
        rows = [i for i in range(200) if min(int(p[i].max() * 15), 14) == b]
        if rows:
            right = sum(int(p[i].argmax() == truth[i]) for i in rows) / len(rows)
            error += len(rows) / 200 * abs(right - sum(p[i].max() for i in rows) / len(rows))
    assert calibration.expected_calibration_error(p, truth) == pytest.approx(error)


@pytest.mark.parametrize("overconfidence", [0.0, 0.1])
def test_debiasing_brings_the_calibration_error_nearer_to_the_truth(
    calibration: ModuleType, overconfidence: float
) -> None:
    rng = np.random.default_rng(0)
    made = [some(rng, 100, overconfidence) for _ in range(200)]
    plain = np.mean([calibration.expected_calibration_error(*draw) for draw in made])
    less = np.mean([calibration.without_bias(*draw) for draw in made])
    assert overconfidence - 0.005 < less < plain - 0.01


def test_with_many_images_there_is_no_bias(calibration: ModuleType) -> None:
    p, truth = some(np.random.default_rng(0), 50_000, 0.1)
    assert calibration.without_bias(p, truth) == pytest.approx(0.1, abs=0.005)
    assert calibration.expected_calibration_error(p, truth) == pytest.approx(0.1, abs=0.005)


def test_by_chance_is_the_error_of_draws_from_the_probabilities(calibration: ModuleType) -> None:
    rng = np.random.default_rng(0)
    made = [some(rng, 100, 0.0) for _ in range(100)]
    chance = np.mean([calibration.by_chance(p) for p, _ in made])
    assert chance == pytest.approx(np.mean([calibration.expected_calibration_error(*draw) for draw in made]), abs=0.01)


def test_the_best_temperature_undoes_another_temperature(calibration: ModuleType) -> None:
    p, truth = some(np.random.default_rng(0), 5_000, 0.0)
    sharper = p**3 / (p**3).sum(1, keepdims=True)
    assert calibration.expected_calibration_error(sharper, truth) > 0.08
    restored = calibration.at_the_best_temperature(sharper, truth)
    assert calibration.expected_calibration_error(restored, truth) < 0.03

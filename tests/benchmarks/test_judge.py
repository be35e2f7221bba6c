"""The judge of the classifier: its measures on pools whose answer one sees, and the pools it draws."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "labeling"


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("judge")


@pytest.fixture
def image_set(judge: ModuleType, monkeypatch: pytest.MonkeyPatch) -> object:
    """Twelve classes of 70 rows around far centers."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(12, 32))
    features = (np.repeat(centers, 70, axis=0) + 0.2 * rng.normal(size=(840, 32))).astype(np.float32)
    classes = np.repeat([f"class {i}" for i in range(12)], 70)
    return importlib.import_module("sets").ImageSet("toy", features, classes)


def test_hindsight_counts_the_outliers_above_the_lowest_precise_threshold(judge: ModuleType) -> None:
    score, is_outlier = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), np.array([True, True, False, True, False])
    assert judge.in_hindsight(score, is_outlier, 1.0) == 2
    assert judge.in_hindsight(score, is_outlier, 0.75) == 3  # three of the first four
    assert judge.in_hindsight(-score, is_outlier, 0.9) == 0


def test_measures_leave_outliers_out_of_the_accuracy_but_not_of_the_coverage(judge: ModuleType) -> None:
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.99, 0.01]])
    found = judge.measure((p, np.array([0.1, 0.2, 0.3, 0.9])), np.array([0, 1, 0, -1]))
    assert found["accuracy"] == pytest.approx(200 / 3)
    assert found["auroc"] == 1.0
    assert found["covered"] == 0.0  # the most confident image is an outlier


def test_precision_is_a_mean_over_the_draws_that_reject(judge: ModuleType) -> None:
    found = judge.summarized([{"rejected 0.9": counts} for counts in ([4, 3, 5], [1, 1, 5], [0, 0, 2])])
    assert found["rejected 0.9"] == [5, 4, 12, 0.875, 2]


def test_columns_have_the_shots_and_outliers_they_name(judge: ModuleType, image_set: object) -> None:
    for column, (n_shot, outliers) in judge.COLUMNS.items():
        for draw in judge.columns(image_set, column, 2, 0):
            n_way = len(np.unique(draw.labels))
            assert np.bincount(draw.labels).tolist() == [n_shot] * n_way == [n_shot] * 6  # half are kept for outliers
            assert (draw.truth < 0).sum() == round(outliers * (draw.truth >= 0).sum())
            assert draw.truth.max() < n_way


def test_varied_pools_differ_in_shape_and_never_repeat_a_labeled_image(judge: ModuleType, image_set: object) -> None:
    draws = list(judge.varied(image_set, 30, 0))
    assert len({len(draw.pool) for draw in draws}) > 5
    assert {len(np.unique(draw.labels)) for draw in draws} >= {2, 5, 8}
    assert any((np.bincount(draw.truth[draw.truth >= 0], minlength=draw.labels.max() + 1) == 0).any() for draw in draws)
    for draw in draws:
        rows = {row.tobytes() for row in draw.support}
        assert not rows & {row.tobytes() for row in draw.pool}


def test_ours_and_rivals_label_well_separated_classes(judge: ModuleType, image_set: object) -> None:
    draw = next(judge.columns(image_set, "5 shots, outliers", 1, 0))
    ours = judge.measure_ours(draw)
    assert ours["accuracy"] == 100.0 and ours["auroc"] > 0.99
    for name in ("soft k-means", "largest similarity", "k-th neighbor", "oslo", "laplacianshot"):
        assert judge.measure(judge.RIVALS[name](draw), draw.truth)["accuracy"] > 99

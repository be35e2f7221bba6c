"""Groups of similar images, against a slow twin and on data whose groups one sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sala.labeling.groups import compact_embeddings, similar_groups
from sala.labeling.predictions import Predictions, Thresholds
from sala.labeling.project import OUTLIER, UNLABELED


def predicted(label: Any, outlier_probability: Any, given: Any = None) -> Predictions:
    """Of two classes, all with probability 0.9 among them."""
    n = len(label)
    given = np.full(n, UNLABELED) if given is None else np.array(given)
    p = np.full(n, 0.9, np.float32)
    return Predictions(
        ("owl", "cat"), given, np.array(label), np.full(n, UNLABELED), p, 1 - p, np.array(outlier_probability, np.float32),
        np.zeros(n, bool), np.zeros(0, np.int64), np.zeros(n, bool), Thresholds(0.9, 0.95, 0.9),
    )  # fmt: skip


def slow_spread(points: list[list[float]]) -> float:
    d = len(points[0])
    mean = [sum(p[k] for p in points) / len(points) for k in range(d)]
    return sum(sum((p[k] - mean[k]) ** 2 for k in range(d)) for p in points) / len(points)


def slow_halves(x: list[list[float]], rows: list[int]) -> tuple[list[int], list[int]]:
    n, d = len(rows), len(x[0])
    mean = [sum(x[i][k] for i in rows) / n for k in range(d)]
    covariance = [[sum((x[i][a] - mean[a]) * (x[i][b] - mean[b]) for i in rows) for b in range(d)] for a in range(d)]
    axis = np.linalg.eigh(np.array(covariance))[1][:, -1].tolist()
    if max(axis, key=abs) < 0:
        axis = [-v for v in axis]
    along = sorted((sum((x[i][k] - mean[k]) * axis[k] for k in range(d)), place) for place, i in enumerate(rows))
    least = max(n // 4, 1)
    cut = max(range(least, n - least + 1), key=lambda c: along[c][0] - along[c - 1][0])
    return [rows[place] for _, place in along[:cut]], [rows[place] for _, place in along[cut:]]


def slow_groups(x: list[list[float]], rows: list[int], max_size: int, min_size: int, widest: float) -> list[set[int]]:
    tight = slow_spread([x[i] for i in rows]) <= widest
    if len(rows) <= max_size and (len(rows) < min_size or tight):
        return [set(rows)] if tight and len(rows) >= min_size else []
    return [group for half in slow_halves(x, rows) for group in slow_groups(x, half, max_size, min_size, widest)]


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_those_of_the_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(12, 5))[rng.integers(12, size=300)] + rng.normal(0, 0.3, (300, 5))
    label, outlier = rng.integers(2, size=300), rng.random(300)
    predictions = predicted(label, outlier)
    is_asked = rng.random(300) < 0.9
    found = similar_groups(x, predictions, is_asked, max_size=25)
    said, widest = predictions.most_probable(), 0.5 * slow_spread(x[is_asked].tolist())
    for to in (OUTLIER, 0, 1):
        rows = np.flatnonzero(is_asked & (said == to)).tolist()
        expected = slow_groups(x.tolist(), rows, 25, 4, widest)
        assert sorted(map(sorted, expected)) == sorted(
            sorted(group.images.tolist()) for group in found if group.to == to
        )


def test_images_that_lie_together_come_together_and_borderline_outliers_first() -> None:
    places = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]], 6, axis=0)
    x = places + np.random.default_rng(0).normal(0, 0.1, (24, 2))
    outlier = np.repeat([0.99, 0.6, 0.1, 0.2], 6)
    found = similar_groups(x, predicted(np.repeat([0, 0, 1, 1], 6), outlier), np.ones(24, bool), max_spread=0.1)
    assert [(group.to, sorted(group.images.tolist())) for group in found] == [
        (OUTLIER, list(range(6, 12))),  # 60 %
        (OUTLIER, list(range(6))),
        (1, list(range(18, 24))),
        (1, list(range(12, 18))),
    ]


def test_labeled_images_and_those_far_apart_are_in_no_group() -> None:
    given = [0] * 5 + [UNLABELED] * 15
    x = np.concatenate([np.zeros((10, 10)), 9 * np.random.default_rng(0).standard_normal((10, 10))])
    found = similar_groups(x, predicted([0] * 20, [0.1] * 20, given), np.ones(20, bool), max_spread=0.01)
    assert [sorted(group.images.tolist()) for group in found] == [[5, 6, 7, 8, 9]]


def test_no_images_are_no_groups() -> None:
    assert similar_groups(compact_embeddings(np.zeros((0, 8), np.float32)), predicted([], []), np.zeros(0, bool)) == []
    assert similar_groups(compact_embeddings(np.zeros((1, 8), np.float32)), predicted([0], [0]), np.ones(1, bool)) == []


def test_compact_embeddings_keep_neighbors() -> None:
    rng = np.random.default_rng(0)
    kinds = rng.integers(10, size=500)
    x = compact_embeddings((rng.normal(size=(10, 200))[kinds] * 3 + rng.normal(size=(500, 200))).astype(np.float32))
    assert x.shape == (500, 32)
    nearest = ((x[:, None] - x) ** 2).sum(-1).argsort(1)[:, 1]
    assert (kinds[nearest] == kinds).mean() > 0.99


@pytest.mark.slow
def test_a_hundred_thousand_images_are_grouped() -> None:
    """Without a matrix of all pairs; also where they are all alike, or all the same."""
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=(100_000, 32)), np.zeros((100_000, 32))):
        found = similar_groups(
            x, predicted(np.arange(100_000) % 2, np.zeros(100_000)), np.ones(100_000, bool), max_spread=9
        )
        assert max(len(group.images) for group in found) <= 40 and sum(len(group.images) for group in found) == 100_000

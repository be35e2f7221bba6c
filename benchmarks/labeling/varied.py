"""Pools to judge the classifier by: many shapes, drawn from image sets of many kinds.

`columns` has the four pools that a user meets first: ten classes, one or five examples of each, without outliers or with
40 % more images of other classes. `varied` draws everything: 5 to 30 classes, 1 to 8 and unequal shots, class sizes 1 : 1 to
1 : 10, 0 to 80 % outliers, scattered or in a few clusters, similar classes, classes that the pool does not have. `few_classes`
has pools with one to three of ten classes, which a mean over all shapes would hide.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from draws import Draw
from sets import ImageSet

COLUMNS = {"1 shot": (1, 0.0), "1 shot, outliers": (1, 0.4), "5 shots": (5, 0.0), "5 shots, outliers": (5, 0.4)}
FEW = {"1 shot, few classes": 1, "5 shots, few classes": 5}
N_WAY, POOL_SIZES = 10, (10, 59)  # of `columns`
N_SIMILAR = 2  # times the number of classes: classes most like one of them


def columns(image_set: ImageSet, column: str, n_draws: int, seed: int) -> Iterator[Draw]:
    """Draws of one column; a set of few classes keeps half of them for outliers."""
    n_shot, outliers = COLUMNS[column]
    rows = rows_by_class(image_set)
    for i in range(n_draws):
        rng = np.random.default_rng([seed, i])
        order = rng.permutation(sorted(rows))
        n_way = min(N_WAY, len(order) // 2)
        sizes = rng.integers(POOL_SIZES[0], POOL_SIZES[1] + 1, n_way)
        yield draw_of(rng, image_set, rows, order[:n_way], order[n_way:], np.full(n_way, n_shot), sizes, outliers)


def few_classes(image_set: ImageSet, column: str, n_draws: int, seed: int) -> Iterator[Draw]:
    """Draws of one column of `FEW`: one, two and three classes are in the pool in turn, half of the draws have outliers."""
    rows = rows_by_class(image_set)
    for i in range(n_draws):
        rng = np.random.default_rng([seed, i])
        order = rng.permutation(sorted(rows))
        n_way = min(N_WAY, len(order) // 2)
        sizes = np.where(np.arange(n_way) <= i % 3, rng.integers(POOL_SIZES[0], POOL_SIZES[1] + 1, n_way), 0)
        shots, outliers = np.full(n_way, FEW[column]), 0.4 * (i % 2)
        yield draw_of(rng, image_set, rows, order[:n_way], order[n_way:], shots, sizes, outliers)


def varied(image_set: ImageSet, n_draws: int, seed: int) -> Iterator[Draw]:
    """Draws of all shapes."""
    rows = rows_by_class(image_set)
    means = {c: image_set.features[r].mean(0) for c, r in rows.items()}
    for i in range(n_draws):
        rng = np.random.default_rng([seed, i])
        order = rng.permutation(sorted(rows))
        n_way = min(int(rng.choice([2, 5, 5, 8, 10, 15, 20, 30])), len(order) * 2 // 3)
        if rng.random() < 1 / 3:  # similar classes, outliers among them
            order = _similar(means, order)[: max(N_SIMILAR * n_way, n_way + 2)]
            order = rng.permutation(order)
        classes, others = order[:n_way], order[n_way:]
        most = int(rng.choice([1, 1, 2, 5, 8]))
        shots = np.full(n_way, most) if rng.random() < 0.7 else rng.integers(1, most + 1, n_way)
        largest = int(rng.choice([12, 25, 50, 200]))
        sizes = np.full(n_way, largest)
        if rng.random() < 0.5:
            sizes = np.geomspace(max(1, largest / 10), largest, n_way).round().astype(int)[rng.permutation(n_way)]
        if rng.random() < 0.25:
            sizes[rng.permutation(n_way)[: n_way // 2]] = 0  # not in the pool at all
        share = float(rng.choice([0, 0, 0.1, 0.3, 0.5, 0.8]))
        if rng.random() < 0.4:
            others = others[: int(rng.integers(1, 4))]  # outliers in a few clusters
        yield draw_of(rng, image_set, rows, classes, others, shots, sizes, share / (1 - share))


def draw_of(
    rng: np.random.Generator, image_set: ImageSet, rows: dict[str, np.ndarray], classes: np.ndarray, others: np.ndarray,
    shots: np.ndarray, sizes: np.ndarray, outliers: float,
) -> Draw:  # fmt: skip
    """A draw of these classes; `outliers` images of `others` for each image of the classes."""
    shuffled = [rng.permutation(rows[c]) for c in classes]
    support = np.concatenate([r[:n] for r, n in zip(shuffled, shots, strict=True)])
    pool = [r[n : n + size] for r, n, size in zip(shuffled, shots, sizes, strict=True)]
    candidates = rng.permutation(np.concatenate([rows[c] for c in others]))
    distractors = candidates[: round(outliers * sum(map(len, pool)))]
    truth = np.concatenate([np.full(len(p), c) for c, p in enumerate(pool)] + [np.full(len(distractors), -1)])
    labels = np.repeat(np.arange(len(classes)), shots)
    in_pool = np.concatenate([*pool, distractors]).astype(int)
    return Draw(image_set.features[support], labels, image_set.features[in_pool], truth)


def rows_by_class(image_set: ImageSet) -> dict[str, np.ndarray]:
    return {str(c): np.flatnonzero(image_set.classes == c) for c in np.unique(image_set.classes)}


def _similar(means: dict[str, np.ndarray], order: np.ndarray) -> np.ndarray:
    """The classes, those most like the first one first."""
    x = np.stack([means[c] for c in order])
    x = x - x.mean(0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return order[np.argsort(-(x @ x[0]), kind="stable")]

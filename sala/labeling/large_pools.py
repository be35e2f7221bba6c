"""Pools whose features stay on disk: the classifier is fitted to a sample of the pool, and then predicts all of it in blocks.

A pool in memory is fitted as a whole. Of one in shards (`MappedRows`), `SAMPLE` images refine the prototypes; the rest is
predicted as later images are. Memory is bounded by the sample, a block, and one row of predictions for each image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sala.classifier.fit import Fitted, LabelModel, PoolPredictions, fit_pool
from sala.encoders.base import Features
from sala.encoders.sharded import MappedRows

SAMPLE = 50_000  # images of a mapped pool that the classifier is fitted to
COMPARED = 20_000  # images of a mapped pool among which near-duplicates are looked for
BLOCK = 8_192  # images that are predicted at a time
Ints = NDArray[np.int64]


def in_memory_or_mapped(features: Features) -> Features:
    """Contiguous float32; what is mapped stays so."""
    return features if is_mapped(features) else np.ascontiguousarray(features, np.float32)


def is_mapped(features: object) -> bool:
    return isinstance(features, MappedRows)


def rows_of(features: Features, rows: Ints) -> Features:
    """Some rows, read if they are in memory anyway. A view where they follow each other: a large pool is not held twice."""
    if is_mapped(features):
        return cast(Features, cast(MappedRows, features).at(rows))
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return features[rows[0] : rows[-1] + 1]
    return features[rows]


def some_rows(rows: Ints, is_needed: NDArray[np.bool_], most: int = COMPARED) -> Ints:
    """The rows that are needed, and a regular sample of up to `most` others."""
    others = np.flatnonzero(~is_needed)
    is_chosen = is_needed.copy()
    is_chosen[others[:: max(1, -(-len(others) // most))]] = True
    chosen: Ints = rows[is_chosen]
    return chosen


def fit_rows(
    features: Features,
    pool: Ints,
    labeled: Features,
    labels: Ints,
    *,
    classes: Sequence[str],
    outliers: Features,
    sample: int = SAMPLE,
    block: int = BLOCK,
) -> Fitted:
    """`fit_pool` with the rows `pool` of features for a pool; of mapped features, on a sample of them."""
    rows = rows_of(features, pool)
    if not is_mapped(features) or len(pool) <= sample:
        return fit_pool(labeled, labels, rows[:], classes=classes, outliers=outliers)
    chosen = np.sort(np.random.default_rng(0).choice(len(pool), sample, replace=False))
    fitted = fit_pool(labeled, labels, rows[chosen], classes=classes, outliers=outliers)
    return replace(fitted, pool=_all_predictions(fitted, rows, chosen, block))


def _all_predictions(fitted: Fitted, rows: Features, chosen: Ints, block: int) -> PoolPredictions:
    """Of the sample as it was fitted, of the others as of later images."""
    model: LabelModel = replace(fitted.model, config=replace(fitted.model.config, n_suggestions=0))
    n, said = len(rows), fitted.pool
    columns: dict[str, NDArray[Any]] = {
        name: np.empty((n, *value.shape[1:]), value.dtype)
        for name, value in vars(said).items()
        if name != "suggestions"
    }
    for start in range(0, n, block):
        part = model.predict(rows[start : start + block])
        for name, column in columns.items():
            column[start : start + block] = getattr(part, name)
    for name, column in columns.items():
        column[chosen] = getattr(said, name)
    return PoolPredictions(**columns, suggestions=chosen[said.suggestions])

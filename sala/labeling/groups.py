"""Groups of similar images of one prediction, which a person confirms or corrects together.

    compact = compact_embeddings(features)                   # once: the grouping needs few dimensions
    similar_groups(compact, predictions, is_asked)           # [Group, ...], those that a person should see first in front

The images of one prediction are halved along their first principal axis until a part is small and its images lie close to
each other (a principal axis tree; Sproull, Algorithmica 1991). A cut is at a gap and leaves a quarter on each side at least:
n images cost n log n.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sala.encoders.base import Features
from sala.labeling.predictions import Ints, Predictions
from sala.labeling.project import OUTLIER, UNLABELED

Compact = NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Similar images, and what they most probably are: a class or OUTLIER."""

    to: int
    images: Ints  # the least confident first


def compact_embeddings(
    features: Features, n_dimensions: int = 32, n_sample: int = 4_000
) -> Compact:  # [n, d] -> [n, m]
    """Return unit vectors around the mean, on the first principal axes of a sample."""
    if not len(features):
        return np.zeros((0, n_dimensions))
    center = features.mean(0, dtype=np.float64)
    sample = _unit(features[:: max(1, len(features) // n_sample)] - center)
    axes = np.linalg.eigh(sample.T @ sample)[1][:, -n_dimensions:]
    parts = [_unit(features[i : i + 4096] - center) @ axes for i in range(0, len(features), 4096)]
    return np.concatenate(parts)


def similar_groups(
    compact: Compact,
    predictions: Predictions,
    is_asked: NDArray[np.bool_],
    *,
    max_size: int = 40,
    min_size: int = 4,
    max_spread: float = 0.5,
) -> list[Group]:
    """Return groups of `min_size` to `max_size` images: outliers first, then each class, the least confident groups in front.

    Parameters
    ----------
    compact : array of shape (n, m)
        `compact_embeddings` of all images.
    predictions : Predictions
        Of the same images.
    is_asked : bool array of shape (n,)
        Which images to group. Labeled ones are left out.
    max_spread : float
        A group's mean squared distance to its center is at most this share of that of all images.
    """
    said = predictions.most_probable()
    probability = np.where(said == OUTLIER, predictions.outlier_probability, predictions.confidence)
    is_asked = is_asked & (predictions.given == UNLABELED) & (said != UNLABELED)
    widest = max_spread * spread(compact[is_asked]) if is_asked.any() else 0.0
    found = []
    for to in (OUTLIER, *range(len(predictions.names))):
        with threadpool_limits(
            1, user_api="blas"
        ):  # thousands of small products: threads would only wait for each other
            parts = list(split(compact, np.flatnonzero(is_asked & (said == to)), max_size, min_size, widest))
        parts = [part for part in parts if len(part) >= min_size and spread(compact[part]) <= widest]
        parts.sort(key=lambda part: float(probability[part].mean()))
        found += [Group(to, part[probability[part].argsort(kind="stable")]) for part in parts]
    return found


def split(compact: Compact, rows: Ints, max_size: int, few: int, widest: float) -> Iterator[Ints]:
    """Halve until a part has at most `max_size` images and is no wider than `widest`, or has fewer than `few`."""
    waiting = [rows]
    while waiting:
        part = waiting.pop()
        is_small = len(part) <= max_size and (len(part) < few or spread(compact[part]) <= widest)
        if is_small or len(part) < 2:
            yield part
        else:
            waiting += halves(compact, part)


def halves(compact: Compact, rows: Ints) -> tuple[Ints, Ints]:
    """Cut at the widest gap in the middle half of the projections on the first principal axis."""
    x = compact[rows] - compact[rows].mean(0)
    axis = np.linalg.eigh(x.T @ x)[1][:, -1]
    along = x @ (axis * np.sign(axis[np.abs(axis).argmax()]))
    order = along.argsort(kind="stable")
    quarter = len(rows) // 4
    gaps = np.diff(along[order])[max(quarter - 1, 0) : len(rows) - max(quarter, 1)]
    cut = max(quarter, 1) + int(gaps.argmax())
    return rows[order[:cut]], rows[order[cut:]]


def spread(x: Compact) -> float:
    """Mean squared distance to the mean."""
    return float(((x - x.mean(0)) ** 2).sum(1).mean())


def _unit(x: NDArray[np.floating]) -> Compact:
    length = np.sqrt((x.astype(np.float64) ** 2).sum(1, keepdims=True))
    unit: Compact = x / np.maximum(length, 1e-12)
    return unit

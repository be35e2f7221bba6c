"""Features of any encoder, on any scale, as points of length 1, so that a product of two is a similarity.

    centre = centre_of(labelled, labels, pool)
    spread = spread_of([labelled, pool], centre)
    points = normalised(features, centre, spread)                # (features - centre) / spread, then scaled to length 1

A feature that differs much between images would else count for much more than the others, whatever it tells of the classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

USUAL_IMAGES = 20  # in which all features differ alike: of so many is a spread an average with those that are there
FLOOR = 0.1  # added to each spread, of the mean one: what hardly ever differs is not to outweigh the rest where it does
ROWS = 1_024  # that are looked at at a time, so that no second copy of a pool is made
SAMPLE = 1_000  # images of a pool by which its variance is told
SMALL, LARGE = 1e-9, 1e9  # the largest number of features whose squares are fit to be summed
Floats = NDArray[np.float32]


def to_tensor(features: Floats) -> Tensor:
    """A view of float32 features, if they may be written to, which PyTorch wants; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        found = np.ascontiguousarray(features, np.float32)
    return torch.from_numpy(found if found.flags.writeable else found.copy())


def mean_of(features: Sequence[Tensor]) -> Tensor:  # some [n, d] -> [d]
    total = sum((part.sum(0) for part in features[1:]), features[0].sum(0))
    return total / sum(map(len, features))


def centre_of(support: Tensor, labels: Tensor, pool: Tensor) -> Tensor:  # [s, d], [s], [n, d] -> [d]
    """What features are compared around: the mean of all images, if that of the labelled ones, each class alike, is as near
    to the pool's as so few images can tell; else nearer to that of the labelled ones. The mean of a pool that has but some
    of the classes is a place among these, and seen from there they are hardly to be told apart.

    With s labelled images and v the variance of a pool's images, v / s is what the squared distance may be by chance.
    """
    mean = mean_of([support, pool])
    if not len(pool) or not mean.isfinite().all():
        return mean
    counts = labels.bincount()
    of_classes = mean_of([support[labels == c].mean(0, keepdim=True) for c in range(len(counts)) if counts[c]])
    some, of_pool = pool[:: -(-len(pool) // SAMPLE)].double(), pool.mean(0).double()
    by_chance = float((some - of_pool).square().sum(-1).mean()) / len(support)
    apart = float((of_classes.double() - of_pool).square().sum())
    trust = min(1.0, by_chance / apart) if apart else 1.0
    return trust * mean + (1 - trust) * of_classes


def spread_of(features: Sequence[Tensor], centre: Tensor) -> Tensor:  # some [n, d], [d] -> [d]
    """The standard deviation of each feature, which few images cannot tell well: `USUAL_IMAGES` and `FLOOR` steady it."""
    n = sum(map(len, features))
    largest = max(float(extreme.abs()) for part in features if len(part) for extreme in part.aminmax())
    unit_of_scale = 1.0 if SMALL < largest < LARGE else max(largest, torch.finfo(centre.dtype).tiny)
    squares = torch.zeros(len(centre), dtype=torch.float64)
    for part in features:
        for start in range(0, len(part), ROWS):
            rows = part[start : start + ROWS] - centre
            squares += (rows if unit_of_scale == 1 else rows.div_(unit_of_scale)).square_().sum(0)
    deviation = ((squares + USUAL_IMAGES * squares.mean() / n) / (n + USUAL_IMAGES)).sqrt()
    return (unit_of_scale * (deviation + FLOOR * deviation.mean())).to(centre.dtype)


def normalised(features: Tensor, centre: Tensor, spread: Tensor) -> Tensor:  # [n, d], [d], [d] -> [n, d]
    """The one large copy that is made of a pool. Features that never differ are all 0."""
    points = features - centre
    points /= spread.clamp_min(torch.finfo(spread.dtype).tiny)
    lengths: Tensor = torch.linalg.vector_norm(points, dim=-1, keepdim=True)
    points /= lengths.clamp_min_(1e-12)
    return points


def unit(points: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(points, dim=-1, keepdim=True)
    return points / lengths.clamp_min(1e-12)

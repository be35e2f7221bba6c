"""Normalized embeddings: features of any encoder, centered, divided by their scale and brought to length 1.

    center = center_of(labeled, labels, pool)
    scale = scale_of([labeled, pool], center)
    embeddings = normalized(features, center, scale)  # the dot product of two is their cosine similarity

Without the scale, a feature of high variance would outweigh the others, whatever it says of the classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sala.functional import unit_length

PRIOR_IMAGES = 20  # the scale of a feature is averaged with the mean scale, which counts as so many images
SCALE_FLOOR = 0.1  # of the mean scale, added to each: a nearly constant feature must not dominate where it does vary
ROWS = 1_024  # rows at a time, so that no second copy of a pool is made
SAMPLE = 1_000  # images of a pool from which its variance is estimated
SMALL, LARGE = 1e-9, 1e9  # between them the squares of features can be summed in float32
Floats = NDArray[np.float32]


def to_tensor(features: Floats) -> Tensor:
    """A float32 tensor that shares memory with `features` where it can; values too large for float32 become infinite."""
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(features, np.float32)
    return torch.from_numpy(array if array.flags.writeable else array.copy())  # PyTorch wants writable memory


def mean_of(features: Sequence[Tensor]) -> Tensor:  # some [n, d] -> [d]
    """The mean of all rows of several matrices."""
    total = sum((part.sum(0) for part in features[1:]), features[0].sum(0))
    return total / sum(map(len, features))


def center_of(support: Tensor, labels: Tensor, pool: Tensor) -> Tensor:  # [s, d], [s], [n, d] -> [d]
    """The origin of the embeddings: the mean of all images, shrunk toward the mean of the labeled classes.

    A pool that has only some of the classes has its mean among them, and seen from there these classes look alike. So the
    mean of all images counts by `trust` = min(1, expected / observed squared distance between the pool's mean and that of the
    classes). With s labeled images and v the variance of the pool, v / s is expected by chance.
    """
    mean = mean_of([support, pool])
    if len(pool) < 2 or not mean.isfinite().all():  # one image has no variance
        return mean
    counts = labels.bincount()
    class_mean = mean_of([support[labels == c].mean(0, keepdim=True) for c in range(len(counts)) if counts[c]])
    sample, pool_mean = pool[:: -(-len(pool) // SAMPLE)].double(), pool.mean(0).double()
    expected = float((sample - pool_mean).square().sum(-1).mean()) / len(support)
    observed = float((class_mean.double() - pool_mean).square().sum())
    trust = min(1.0, expected / observed) if observed else 1.0
    return trust * mean + (1 - trust) * class_mean


def scale_of(features: Sequence[Tensor], center: Tensor) -> Tensor:  # some [n, d], [d] -> [d]
    """The standard deviation of each feature, regularized toward the mean one (`PRIOR_IMAGES`, `SCALE_FLOOR`); 1 where all
    images are equal."""
    n = sum(map(len, features))
    largest = max(float(extreme.abs()) for part in features if len(part) for extreme in part.aminmax())
    magnitude = 1.0 if SMALL < largest < LARGE else max(largest, torch.finfo(center.dtype).tiny)
    squares = torch.zeros(len(center), dtype=torch.float64)
    for part in features:
        for start in range(0, len(part), ROWS):
            rows = part[start : start + ROWS] - center
            squares += (rows if magnitude == 1 else rows.div_(magnitude)).square_().sum(0)
    if not squares.any():
        return torch.ones_like(center)
    deviation = ((squares + PRIOR_IMAGES * squares.mean() / n) / (n + PRIOR_IMAGES)).sqrt()
    return (magnitude * (deviation + SCALE_FLOOR * deviation.mean())).to(center.dtype)


def normalized(features: Tensor, center: Tensor, scale: Tensor) -> Tensor:  # [n, d], [d], [d] -> [n, d]
    """(features - center) / scale, brought to length 1; an image at the center gives zeros. The one copy made of a pool."""
    embeddings = features - center
    embeddings /= scale.clamp_min(torch.finfo(scale.dtype).tiny)
    return unit_length(embeddings, out=embeddings)

"""Calibrated probabilities: the inverse temperature of the similarities, and the weight of the linear classifier.

Temperature scaling (Guo et al., ICML 2017, arXiv:1706.04599) with few labeled images or none to hold out: a prior predicts the
temperature from the pool itself, and held-out labeled images adjust it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sala.classifier.cross_validation import CrossValidated

TYPICAL_TOP_SIMILARITY, TYPICAL_DISPERSION = 0.50, 0.22  # medians of the tasks that the prior was fitted on
TYPICAL_STRENGTH = 1.0  # as a number of images
RANGE = (3.0, 60.0)  # of inverse temperatures that were seen
# two grids of log(inverse temperature / prior), the fine one around the best of the coarse one
COARSE = tuple(0.32 * i for i in range(-8, 7))
FINE = tuple(0.08 * i for i in range(-3, 4))
LINEAR_WEIGHTS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
PENALTY = (1.0, 0.5)  # in nats, for any weight and per unit of it: a few held-out images may favor it by chance


def mean_top_similarity(similarities: Tensor, inlier: Tensor) -> float:  # [n, k], [n]
    """The mean similarity of a pool's inliers to their nearest class."""
    return _regularized_mean(similarities.amax(-1), inlier, TYPICAL_TOP_SIMILARITY)


def dispersion(similarities: Tensor, inlier: Tensor) -> float:  # [n, k], [n]
    """The mean standard deviation of an inlier's similarities to the classes; 0 with one class."""
    n, n_way = similarities.shape
    return _regularized_mean(similarities.std(-1) if n and n_way > 1 else torch.zeros(n), inlier, TYPICAL_DISPERSION)


def _regularized_mean(values: Tensor, inlier: Tensor, typical: float) -> float:
    """The mean weighted by inlier probability, with one image's worth of the typical value for very small pools."""
    total = float((inlier * values).sum()) if len(inlier) else 0.0
    return (total + TYPICAL_STRENGTH * typical) / (float(inlier.sum()) + TYPICAL_STRENGTH)


def temperature_prior(top_similarity: float, scatter: float, n_way: int, coefficients: Sequence[float]) -> float:
    """The expected inverse temperature beta of a pool.

    log beta = a + b log(mean top similarity) + c log(dispersion) + d log(n_way). The more similar images of a class are, the
    more a difference of similarities means; the more similarities differ anyway, the less.
    """
    a, b, c, d = coefficients
    log_beta = a + b * math.log(max(top_similarity, 1e-3)) + c * math.log(max(scatter, 1e-3)) + d * math.log(n_way)
    return min(max(math.exp(log_beta), RANGE[0]), RANGE[1])


def fit_temperature(
    held_out: CrossValidated, prior: float, strength: float, linear_weight: float | None = None
) -> tuple[float, float]:
    """The inverse temperature beta and the linear classifier's weight that make held-out labels most likely.

    Minimizes sum_s c_s -log softmax(beta (similarities + weight linear))_y + strength / 2 (log beta - log prior)^2 + PENALTY
    of the weight, over a grid; c_s balances the classes. No image is held out of a class of one, and these are the classes
    that a linear classifier predicts worst: the more of them, the smaller its weight. With nothing held out the result is
    the prior, and a linear classifier only if its weight is given.
    """
    m, n_way = held_out.similarities.shape
    if not m or n_way < 2:
        return prior, linear_weight or 0.0
    counts = held_out.labels.bincount(minlength=n_way)
    share = float((counts > 0).double().mean())
    balance = (m / (share * n_way * counts.double()))[held_out.labels]

    def loss(shift: float, weight: float) -> float:
        log_p = (prior * math.exp(shift) * held_out.logits(weight).double()).log_softmax(-1)
        nll = -float(balance @ log_p[torch.arange(m), held_out.labels])
        return nll + strength / 2 * shift**2 + (PENALTY[0] + PENALTY[1] * weight if weight else 0.0)

    weights = [share * w for w in LINEAR_WEIGHTS] if linear_weight is None else [linear_weight]
    _, coarse, best = min((loss(shift, w), shift, w) for w in weights for shift in COARSE)
    _, shift = min((loss(coarse + fine, best), coarse + fine) for fine in FINE)
    return prior * math.exp(shift), best

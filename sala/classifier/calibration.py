"""Calibrated class probabilities: the inverse temperature of the mixture's logits.

Temperature scaling (Guo et al., ICML 2017, arXiv:1706.04599) with few labeled images or none to hold out: a prior predicts the
temperature from the pool itself, and held-out labeled images adjust it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sala.classifier import coefficients as chosen
from sala.classifier.pipeline import ClassifiedPool

RANGE = (0.02, 2.0)  # of inverse temperatures
# two grids of log(inverse temperature / prior), the fine one around the best of the coarse one
COARSE = tuple(0.32 * i for i in range(-8, 7))
FINE = tuple(0.08 * i for i in range(-3, 4))


def pool_statistics(found: ClassifiedPool) -> tuple[float, ...]:
    """What the temperature depends on: 1, log of the inliers' mean top similarity to the labeled images, log of the images
    of a class, and the share of inliers that the labeled images alone would put in the same class."""
    w = found.posterior.weights.sum(-1)
    n, n_way = found.posterior.logits.shape
    to_labeled = found.embeddings @ found.labeled_directions.T
    similarity, agreement = 0.3, 0.7  # typical ones, which count as one image
    if n:
        top, first = to_labeled.max(-1)
        same = (first == found.posterior.logits.argmax(-1)).to(w.dtype)
        similarity, agreement = (
            (float((w * x).sum()) + typical) / (float(w.sum()) + 1)
            for x, typical in ((top, similarity), (same, agreement))
        )
    return 1.0, math.log(max(similarity, 0.02)), math.log(1 + n / n_way), agreement


def temperature_prior(statistics: tuple[float, ...]) -> float:
    """The expected inverse temperature of a pool, exp of a linear form."""
    log_beta = sum(a * b for a, b in zip(chosen.TEMPERATURE, statistics, strict=True))
    return min(max(math.exp(log_beta), RANGE[0]), RANGE[1])


def fit_temperature(logits: Tensor, labels: Tensor, prior: float, strength: float) -> float:  # [m, k], [m]
    """The inverse temperature beta that makes held-out labels most likely.

    Minimizes sum_s c_s -log softmax(beta logits)_y + strength / 2 (log beta - log prior)^2 over a grid; c_s balances the
    classes. With nothing held out it is the prior.
    """
    m, n_way = logits.shape
    if not m or n_way < 2:
        return prior
    counts = labels.bincount(minlength=n_way).double()
    balance = (m / ((counts > 0).sum() * counts))[labels]

    def loss(shift: float) -> float:
        log_p = (prior * math.exp(shift) * logits.double()).log_softmax(-1)
        return -float(balance @ log_p[torch.arange(m), labels]) + strength / 2 * shift**2

    _, coarse = min((loss(shift), shift) for shift in COARSE)
    _, shift = min((loss(coarse + fine), coarse + fine) for fine in FINE)
    return prior * math.exp(shift)

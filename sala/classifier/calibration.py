"""Calibrated probabilities: the inverse temperature of the mixture's logits, and the log-odds of outliers.

Temperature scaling (Guo et al., ICML 2017, arXiv:1706.04599) with few labeled images or none to hold out: the pool tells how
accurate its labels are (agreement.py), which gives a prior, and held-out labeled images adjust it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sala.classifier import coefficients as chosen
from sala.classifier.mixture import Mixture, log_odds

RANGE = (0.02, 4.0)  # of inverse temperatures that match an accuracy
SHARES = (0.01, 0.99)  # range of the agreement, in which its log-odds are finite
TYPICAL, TYPICAL_IMAGES = 0.2, 5.0  # inverse temperature of a small pool, and how many images that counts for
MIN_DOUBT, MIN_RISE = 1e-3, 1e-6
GRID = np.linspace(math.log(RANGE[0]), math.log(RANGE[1]), 41)  # of log(inverse temperature)
# two grids of log(inverse temperature / prior), the fine one around the best of the coarse one
COARSE = tuple(0.32 * i for i in range(-8, 7))
FINE = tuple(0.08 * i for i in range(-3, 4))


def temperature_prior(agreement: float, n: float, confidence: Sequence[float]) -> float:  # [len(GRID)]
    """The inverse temperature at which the mean confidence of a pool of n images is its expected accuracy.

    `agreement` is its mean agreement with itself, `confidence` its `mean_confidence`.
    """
    if not n or confidence[-1] - confidence[0] < MIN_RISE:  # one class, or images that are all alike
        return TYPICAL
    matched = float(np.interp(expected_accuracy(agreement), confidence, GRID))
    return math.exp((n * matched + TYPICAL_IMAGES * math.log(TYPICAL)) / (n + TYPICAL_IMAGES))


def mean_confidence(logits: Tensor, weights: Tensor) -> list[float]:  # [n, k], [n] -> [len(GRID)]
    """The weighted mean probability of the labels at each inverse temperature of `GRID`; it rises."""
    n = max(float(weights.sum()), 1e-9)
    return [float(weights @ (math.exp(g) * logits).softmax(-1).amax(-1)) / n for g in GRID]


def expected_accuracy(agreement: float) -> float:
    """The share of right labels in a pool that agrees so much with itself."""
    a, b = chosen.ACCURACY
    return 1 / (1 + math.exp(-a - b * log_odds(min(max(agreement, SHARES[0]), SHARES[1]))))


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


def outlier_log_odds(mixture: Mixture, evidence: Tensor, probabilities: Tensor) -> Tensor:  # [n, 2], [n, k] -> [n]
    """Log-odds of outliers, a linear form that holds over pools of many kinds."""
    terms = outlier_terms(evidence, probabilities, len(mixture.known_outliers))
    return terms @ evidence.new_tensor(chosen.OUTLIERS)


def outlier_terms(evidence: Tensor, probabilities: Tensor, n_known: int) -> Tensor:  # [n, 2], [n, k] -> [n, 6]
    """1, e, l, log(1 + m), e log(1 + m) and log(1 - p).

    e is the evidence, which says more the more outliers are known (m), l the likeness to labeled images, and p the probability
    of the label: an image between the classes is more often an outlier.
    """
    e, likeness = evidence.unbind(-1)
    known, one = math.log1p(n_known), torch.ones_like(e)
    doubt = (1 - probabilities.amax(-1)).clamp_min(MIN_DOUBT).log()
    return torch.stack([one, e, likeness, known * one, known * e, doubt], -1)

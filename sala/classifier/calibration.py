"""Calibrated probabilities: the inverse temperature of the mixture's logits, and the log-odds of outliers.

Temperature scaling (Guo et al., ICML 2017, arXiv:1706.04599) with few labeled images or none to hold out: a prior predicts the
temperature, and held-out labeled images adjust it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sala.classifier import coefficients as chosen
from sala.classifier.mixture import Mixture, log_odds

RANGE = (0.02, 2.0)  # of inverse temperatures
MIN_DOUBT = 1e-3
# two grids of log(inverse temperature / prior), the fine one around the best of the coarse one
COARSE = tuple(0.32 * i for i in range(-8, 7))
FINE = tuple(0.08 * i for i in range(-3, 4))


def temperature_prior(n_labeled: int, n_way: int) -> float:
    """The expected inverse temperature of a pool, by the labeled images of a class and the number of classes."""
    a, b, c = chosen.TEMPERATURE
    log_beta = a + b * math.log(n_labeled / n_way) + c * math.log(n_way)
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


def outlier_log_odds(mixture: Mixture, score: Tensor, probabilities: Tensor) -> Tensor:  # [n], [n, k] -> [n]
    """Log-odds of outliers, a linear form that holds over pools of many kinds."""
    terms = outlier_terms(score, probabilities, mixture.outlier_share, len(mixture.known_outliers))
    return terms @ score.new_tensor(chosen.OUTLIERS)


def outlier_terms(score: Tensor, probabilities: Tensor, share: float, n_known: int) -> Tensor:  # [n], [n, k] -> [n, 6]
    """1, s, log-odds of the outlier share, log(1 + m), s log(1 + m) and log(1 - p).

    s is the score, which says more the more outliers are known (m), and p the probability of the label: an image between the
    classes is more often an outlier.
    """
    known, one = math.log1p(n_known), torch.ones_like(score)
    doubt = (1 - probabilities.amax(-1)).clamp_min(MIN_DOUBT).log()
    return torch.stack([one, score, log_odds(share) * one, known * one, known * score, doubt], -1)

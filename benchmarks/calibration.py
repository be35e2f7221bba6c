"""How far probabilities are from the share that is right, and how far they would be at best and by chance."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax


def expected_calibration_error(p: np.ndarray, truth: np.ndarray, n_bins: int = 15) -> float:
    return calibration_gap(p.max(1), p.argmax(1) == truth, n_bins)


def calibration_gap(confidence: np.ndarray, right: np.ndarray, n_bins: int = 15) -> float:
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = [(bins == b).mean() * abs(right[bins == b].mean() - confidence[bins == b].mean()) for b in set(bins)]
    return float(np.sum(gaps))


def at_the_best_temperature(p: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The probabilities with the likeliest temperature of all, which nobody can know before: what a temperature can do."""
    logits = np.log(np.maximum(p, 1e-30).astype(np.float64))[None] * np.logspace(-1, 1, 101)[:, None, None]
    log_p = log_softmax(logits, -1)
    return np.exp(log_p[log_p[:, np.arange(len(truth)), truth].mean(1).argmax()])


def by_chance(p: np.ndarray, n_times: int = 20) -> float:
    """The calibration error that these probabilities would show if they were the truth: so few images have so much."""
    rng, cumulated = np.random.default_rng(0), p.astype(np.float64).cumsum(1)
    truths = [(rng.random((len(p), 1)) * cumulated[:, -1:] > cumulated).sum(1) for _ in range(n_times)]
    return float(np.mean([expected_calibration_error(p, truth) for truth in truths]))

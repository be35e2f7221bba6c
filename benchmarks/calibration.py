"""How far probabilities are from the share that is right, and how far they would be at best and by chance."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax


def expected_calibration_error(p: np.ndarray, truth: np.ndarray, n_bins: int = 15) -> float:
    return calibration_gap(p.max(1), p.argmax(1) == truth, n_bins)


def calibration_gap(confidence: np.ndarray, right: np.ndarray, n_bins: int = 15) -> float:
    n, said, was = binned(confidence, right, n_bins)
    return float(n @ abs(was - said) / n.sum())


def binned(confidence: np.ndarray, right: np.ndarray, n_bins: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each bin that has any: how many, how probable they were said to be right, and how many of them were."""
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    parts = [(bins == b) for b in sorted(set(bins))]
    n, said, was = np.array([(part.sum(), confidence[part].mean(), right[part].mean()) for part in parts]).T
    return n, said, was


def without_bias(p: np.ndarray, truth: np.ndarray, n_bins: int = 15, n_times: int = 1_000) -> float:
    """The calibration error less what it has because images are few: how much it grows on average when the share of right
    ones in each bin is drawn anew with that bin's error
    (Kumar, Liang and Ma 2019, arXiv:1909.10155)."""
    n, said, was = binned(p.max(1), p.argmax(1) == truth, n_bins)
    anew = np.random.default_rng(0).normal(was, np.sqrt(was * (1 - was) / n), (n_times, len(n)))
    error, resampled = n @ abs(was - said) / n.sum(), (abs(anew - said) @ n / n.sum()).mean()
    return float(2 * error - resampled)


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

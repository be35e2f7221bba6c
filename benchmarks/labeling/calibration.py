"""Expected calibration error of probabilities: plain, without bias, at the best temperature, and by chance."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax


def expected_calibration_error(p: np.ndarray, truth: np.ndarray, n_bins: int = 15) -> float:
    """The calibration error of the most probable class."""
    return calibration_gap(p.max(1), p.argmax(1) == truth, n_bins)


def calibration_gap(confidence: np.ndarray, right: np.ndarray, n_bins: int = 15) -> float:
    """The mean distance of confidence and accuracy over bins."""
    n, confidence, accuracy = binned(confidence, right, n_bins)
    return float(n @ abs(accuracy - confidence) / n.sum())


def binned(confidence: np.ndarray, right: np.ndarray, n_bins: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each bin that is not empty: the number of images, their mean confidence and their accuracy."""
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    parts = [(bins == b) for b in sorted(set(bins))]
    n, mean, accuracy = np.array([(part.sum(), confidence[part].mean(), right[part].mean()) for part in parts]).T
    return n, mean, accuracy


def without_bias(p: np.ndarray, truth: np.ndarray, n_bins: int = 15, n_times: int = 1_000) -> float:
    """The calibration error less its bias of few images, the mean growth when each bin's accuracy is resampled with its
    standard error (Kumar, Liang and Ma 2019, arXiv:1909.10155)."""
    n, confidence, accuracy = binned(p.max(1), p.argmax(1) == truth, n_bins)
    anew = np.random.default_rng(0).normal(accuracy, np.sqrt(accuracy * (1 - accuracy) / n), (n_times, len(n)))
    error, resampled = n @ abs(accuracy - confidence) / n.sum(), (abs(anew - confidence) @ n / n.sum()).mean()
    return float(2 * error - resampled)


def at_the_best_temperature(p: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The probabilities at the temperature that makes the true labels most likely, which nobody knows before."""
    logits = np.log(np.maximum(p, 1e-30).astype(np.float64))[None] * np.logspace(-1, 1, 101)[:, None, None]
    log_p = log_softmax(logits, -1)
    return np.exp(log_p[log_p[:, np.arange(len(truth)), truth].mean(1).argmax()])


def by_chance(p: np.ndarray, n_times: int = 20) -> float:
    """The calibration error that these probabilities would show, with so few images, if they were right."""
    rng, cumulated = np.random.default_rng(0), p.astype(np.float64).cumsum(1)
    truths = [(rng.random((len(p), 1)) * cumulated[:, -1:] > cumulated).sum(1) for _ in range(n_times)]
    return float(np.mean([expected_calibration_error(p, truth) for truth in truths]))

"""Pools of points whose answer one sees, and what is said of them the slow way."""

from __future__ import annotations

import math

import numpy as np
import torch

from sala.points import unit
from sala.refining import PAIRS, USUAL_PAIR


def directions(d: int) -> np.ndarray:
    """At right angles to each other; not along the axes, since a feature that is a class differs more than others."""
    return np.linalg.qr(np.random.default_rng(7).standard_normal((d, d)))[0]


def blobs(n_per_class: list[int], *, n_junk: int = 0, d: int = 64, noise: float = 0.1, seed: int = 0):  # type: ignore[no-untyped-def]
    """Classes along `directions`, junk in random ones; the truth of junk is -1."""
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.repeat(np.arange(len(n_per_class)), n_per_class), np.full(n_junk, -1)])
    centres = np.vstack([directions(d)[: len(n_per_class)], np.zeros((1, d))])
    x = centres[truth] + noise * rng.standard_normal((len(truth), d))
    x[truth < 0] = unit(torch.from_numpy(rng.standard_normal((n_junk, d)))).numpy() * 1.2
    return x.astype(np.float32), truth


def task(seed: int = 0, **options):  # type: ignore[no-untyped-def]
    pool, truth = blobs([30, 20, 10, 5], n_junk=40, seed=seed, **options)
    support, labels = blobs([1, 2, 1, 3], seed=seed + 1, **options)
    return support, labels, pool, truth


def slow_length(s: torch.Tensor, labels: np.ndarray, n: float, usual: float) -> float:
    """Of the mean of n images against that of the usual number, by the similarity of each pair of a class."""
    pairs = [float(s[i] @ s[j]) for i in range(len(s)) for j in range(len(s)) if i != j and labels[i] == labels[j]]
    r = (sum(pairs) + PAIRS * USUAL_PAIR) / (len(pairs) + PAIRS)
    return math.sqrt((r + (1 - r) / max(n, 1)) / (r + (1 - r) / max(usual, 1)))


def slow_lengths(s: torch.Tensor, labels: np.ndarray, n_less: int = 0) -> np.ndarray:
    """Of the first prototypes; `n_less` images are left out in each class."""
    counts = np.bincount(labels)
    return np.array([slow_length(s, labels, n - n_less, counts.mean() - n_less) for n in counts])

"""Pools of embeddings whose labels one sees."""

from __future__ import annotations

import numpy as np
import torch

from sala.functional import unit_length


def directions(d: int) -> np.ndarray:
    """Orthogonal directions, not along the axes: a feature that is a class would have a larger scale than the others."""
    return np.linalg.qr(np.random.default_rng(7).standard_normal((d, d)))[0]


def blobs(n_per_class: list[int], *, n_outliers: int = 0, d: int = 64, noise: float = 0.1, seed: int = 0):  # type: ignore[no-untyped-def]
    """Classes along `directions`, outliers in random ones; the truth of outliers is -1."""
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.repeat(np.arange(len(n_per_class)), n_per_class), np.full(n_outliers, -1)])
    centers = np.vstack([directions(d)[: len(n_per_class)], np.zeros((1, d))])
    x = centers[truth] + noise * rng.standard_normal((len(truth), d))
    x[truth < 0] = unit_length(torch.from_numpy(rng.standard_normal((n_outliers, d)))).numpy() * 1.2
    return x.astype(np.float32), truth


def task(seed: int = 0, **options):  # type: ignore[no-untyped-def]
    pool, truth = blobs([30, 20, 10, 5], n_outliers=40, seed=seed, **options)
    support, labels = blobs([1, 2, 1, 3], seed=seed + 1, **options)
    return support, labels, pool, truth

"""Prototypes of the outliers of a pool, and a diverse subset of known outliers."""

from __future__ import annotations

import torch
from torch import Tensor

from sala.functional import unit_length

MAX_KNOWN_OUTLIERS = 64  # of more, the most diverse
SAMPLE = 2_000  # images of a large pool to cluster
IMAGES_PER_PROTOTYPE = 4
DUPLICATE = 0.9999  # similarity from which two images are the same


def outlier_prototypes(
    embeddings: Tensor, outlier_probability: Tensor, n: int = 16, n_steps: int = 8
) -> Tensor:  # [n, d], [n] -> [j, d]
    """Centers of the outliers of a pool, by spherical k-means in which each image has its outlier probability as weight.

    It starts at probable outliers that are far from each other. Of a large pool a regular sample is clustered.
    """
    rows = slice(None, None, max(1, len(embeddings) // SAMPLE))
    x, weight = embeddings[rows].contiguous(), outlier_probability[rows]
    n = min(n, int(float(weight.sum()) / IMAGES_PER_PROTOTYPE))
    if not n:
        return x.new_zeros(0, x.shape[1])  # not a view, which would keep the pool in memory
    chosen, nearest = [], torch.full_like(weight, -1.0)
    for _ in range(n):
        chosen.append(int((weight * (1 - nearest)).argmax()))
        nearest = torch.maximum(nearest, x @ x[chosen[-1]])
    centers, weighted = x[chosen], weight[:, None] * x
    for _ in range(n_steps):
        sums = torch.zeros_like(centers).index_add_(0, (x @ centers.T).argmax(-1), weighted)
        centers = torch.where(sums.any(-1, keepdim=True), unit_length(sums), centers)  # an empty cluster stays
    return centers


def farthest_first(embeddings: Tensor, n: int = MAX_KNOWN_OUTLIERS) -> Tensor:  # [m, d] -> rows
    """Rows of the n most diverse embeddings, or of all if there are no more (farthest-first traversal, Gonzalez 1985)."""
    if len(embeddings) <= n:
        return torch.arange(len(embeddings))
    chosen = [int((embeddings @ embeddings.mean(0)).argmax())]
    nearest = embeddings @ embeddings[chosen[0]]
    while len(chosen) < n and float(nearest.min()) < DUPLICATE:
        chosen.append(int(nearest.argmin()))
        nearest = torch.maximum(nearest, embeddings @ embeddings[chosen[-1]])
    return torch.tensor(chosen)

"""A diverse subset of known outliers."""

from __future__ import annotations

import torch
from torch import Tensor

MAX_KNOWN_OUTLIERS = 64  # of more, the most diverse
DUPLICATE = 0.9999  # similarity from which two images are the same


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

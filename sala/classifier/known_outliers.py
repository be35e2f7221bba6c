"""A diverse subset of known outliers."""

from __future__ import annotations

import torch
from torch import Tensor

MAX_KNOWN_OUTLIERS = 64  # of more, the most diverse
DUPLICATE = 0.9999  # similarity from which two images are the same


def farthest_first(embeddings: Tensor, n: int = MAX_KNOWN_OUTLIERS) -> Tensor:  # [m, d] -> rows
    """Rows of the n most diverse embeddings (farthest-first traversal, Gonzalez 1985), each of several copies once."""
    if not len(embeddings):
        return torch.arange(0)
    nearest = embeddings.new_full((len(embeddings),), -2.0)  # similarity to the most similar row that is chosen
    row = int((embeddings @ embeddings.mean(0)).argmax())
    chosen: list[int] = []
    while len(chosen) < n and float(nearest[row]) < DUPLICATE:
        chosen.append(row)
        nearest = torch.maximum(nearest, embeddings @ embeddings[row])
        nearest[row] = 1.0  # also of an image exactly at the center, which has no length
        row = int(nearest.argmin())
    return torch.tensor(sorted(chosen))

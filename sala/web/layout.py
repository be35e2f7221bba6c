"""A two-dimensional map of embeddings that keeps neighbors together.

Principal components first; then a few hundred gradient steps that pull each embedding to its nearest neighbors and push it
from random others, with the kernel of t-SNE: 1 / (1 + distance^2). Negative samples in place of all pairs are from LargeVis
(Tang et al., WWW 2016, arXiv:1602.00370). In a large pool only a sample (the landmarks) is laid out so; every other image is
placed among its nearest landmarks, which makes the cost linear in the pool.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sala.encoders.base import Features
from sala.functional import unit_length


@torch.inference_mode()
def pool_map(
    features: Features, *, n_landmarks: int = 4_000, n_neighbors: int = 12, n_steps: int = 250, seed: int = 0
) -> NDArray[np.float32]:  # [n, 2], in [0, 1]
    """Return a position for each image. The same features give the same map."""
    if len(features) < 3 or features.shape[1] < 2:
        line = np.linspace(0, 1, max(len(features), 1), dtype=np.float32)[: len(features)]
        return np.stack([line, np.full_like(line, 0.5)], 1)
    random = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(features), generator=random)[:n_landmarks].sort().values
    x = torch.from_numpy(np.ascontiguousarray(features, np.float32))
    center = x.mean(0)
    embeddings = unit_length(x[chosen] - center) @ (axes := principal_axes(unit_length(x[chosen] - center), 50))
    k = min(n_neighbors, len(embeddings) - 1)
    layout = lay_out(embeddings[:, :2], nearest(embeddings, embeddings, k + 1)[1][:, 1:], n_steps, random)
    if len(chosen) < len(features):
        layout = among_landmarks(x, center, axes, embeddings, layout)
    low, high = layout.quantile(0.002, 0), layout.quantile(0.998, 0)
    scaled = ((layout - low) / (high - low).clamp_min(1e-6)).clamp(0, 1)
    return np.asarray(scaled.numpy(), np.float32)


def principal_axes(embeddings: Tensor, n: int) -> Tensor:  # [n, d] -> [d, m]
    vectors: Tensor = torch.linalg.eigh(embeddings.T @ embeddings).eigenvectors
    return vectors[:, -min(n, len(vectors)) :].flip(-1)


def nearest(
    embeddings: Tensor, others: Tensor, k: int
) -> tuple[Tensor, Tensor]:  # -> [n, k] squared distances, rows of others
    parts = [torch.cdist(part, others).topk(k, largest=False) for part in torch.split(embeddings, 1024)]
    return torch.cat([part.values for part in parts]).square(), torch.cat([part.indices for part in parts])


def lay_out(start: Tensor, neighbors: Tensor, n_steps: int, random: torch.Generator) -> Tensor:
    """Return positions after gradient steps on log q(neighbors) + log(1 - q(others)), q = 1 / (1 + squared distance)."""
    y = start / start.std().clamp_min(1e-6)
    n = len(y)
    for step in range(n_steps):
        pull = y[neighbors] - y[:, None]
        force = (pull / (1 + pull.square().sum(-1, keepdim=True))).mean(1)
        push = y[:, None] - y[torch.randint(n, (n, 8), generator=random)]
        distance = push.square().sum(-1, keepdim=True)
        force = force + (push / ((0.05 + distance) * (1 + distance))).mean(1)
        y = y + force.clamp(-1, 1) * (1 - step / n_steps)
    return y


def among_landmarks(x: Tensor, center: Tensor, axes: Tensor, landmarks: Tensor, layout: Tensor) -> Tensor:
    """Place each image at the weighted mean of its three nearest landmarks; a landmark stays where it is."""
    parts = []
    for part in torch.split(x, 4096):
        distances, rows = nearest(unit_length(part - center) @ axes, landmarks, min(3, len(landmarks)))
        weights = 1 / (distances + 1e-4)
        parts.append((layout[rows] * (weights / weights.sum(-1, keepdim=True))[..., None]).sum(1))
    return torch.cat(parts)

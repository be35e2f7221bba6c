"""Suggestions (active learning): images of a pool whose label would help most."""

from __future__ import annotations

import torch
from torch import Tensor

SAMPLE = 500  # images by which the density of a pool is estimated
CANDIDATES_PER_SUGGESTION, MIN_CANDIDATES = 10, 200  # preselected, so that the cost is linear in the pool


def suggestions(embeddings: Tensor, probabilities: Tensor, inlier: Tensor, n: int) -> Tensor:  # -> [m] rows
    """Rows of up to n images whose labels would help most, in order: uncertain, representative and diverse.

    worth = (1 - lead of the label over its runner-up) x inlier probability x sqrt(mean similarity to the pool): margin
    sampling (Scheffer et al., IDA 2001) with information density (Settles and Craven, EMNLP 2008). Each choice lowers the
    worth of what is similar to it.

    Compared by clicks to 90 and 95 % right labels on 11 image sets. The margin needs fewer clicks than the entropy, and a
    threshold on the inlier probability needs more: misplaced inliers often look like outliers. The other factors are not
    told apart from the plain margin by sets left out; they keep a batch diverse and outliers late (docs/results/choices.md).
    """
    uncertainty = inlier * (1 - lead(probabilities))
    order = uncertainty.argsort(descending=True, stable=True)
    sample = order[:: max(1, len(order) // SAMPLE)]  # evenly by uncertainty: the order of the rows does not matter
    candidates = order[: max(CANDIDATES_PER_SUGGESTION * n, MIN_CANDIDATES)]
    x = embeddings[candidates]
    worth = uncertainty[candidates] * (x @ embeddings[sample].T).clamp_min(0).mean(-1).sqrt()
    chosen: list[int] = []
    for _ in range(min(n, len(candidates))):
        best = int(worth.argmax())
        chosen.append(best)
        worth = worth * (1 - (x @ x[best]).clamp(0, 1))
        worth[chosen] = -1.0
    return candidates[torch.tensor(chosen, dtype=torch.long)]


def lead(probabilities: Tensor) -> Tensor:  # [n, k] -> [n]
    """How much more probable the label is than its runner-up; of a single class, all of it."""
    top = probabilities.topk(min(2, probabilities.shape[1]), -1).values
    return top[:, 0] - top[:, 1] if top.shape[1] == 2 else top[:, 0]

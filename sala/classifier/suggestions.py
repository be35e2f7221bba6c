"""Suggestions (active learning): images of a pool whose label would help most."""

from __future__ import annotations

import torch
from torch import Tensor

SAMPLE = 500  # images by which the density of a pool is estimated
CANDIDATES_PER_SUGGESTION, MIN_CANDIDATES = 10, 200  # preselected, so that the cost is linear in the pool


def suggestions(embeddings: Tensor, probabilities: Tensor, inlier: Tensor, n: int) -> Tensor:  # -> [m] rows
    """Rows of up to n images whose labels would help most, in order: uncertain, representative and diverse.

    worth = entropy x inlier probability x sqrt(mean similarity to the pool), information density (Settles and Craven, EMNLP
    2008); each choice lowers the worth of what is similar to it. Probable outliers are suggested only if there is nothing
    else: a label for an outlier helps no class.
    """
    rows = torch.zeros(0, dtype=torch.long)
    if len(inlier):
        rows = (inlier >= min(0.5, float(inlier.max()))).nonzero()[:, 0]
    p, sample = probabilities[rows], embeddings[rows[:: max(1, len(rows) // SAMPLE)]]
    uncertainty = -(p * p.clamp_min(1e-12).log()).sum(-1) * inlier[rows]
    n_candidates = max(CANDIDATES_PER_SUGGESTION * n, MIN_CANDIDATES)
    uncertainty, preselected = uncertainty.topk(min(len(uncertainty), n_candidates))
    candidates = rows[preselected]
    x = embeddings[candidates]
    worth = uncertainty * (x @ sample.T).clamp_min(0).mean(-1).sqrt()
    chosen = []
    for _ in range(min(n, len(candidates))):
        best = int(worth.argmax())
        chosen.append(best)
        worth = worth * (1 - (x @ x[best]).clamp(0, 1))
        worth[chosen] = -1.0
    return candidates[torch.tensor(chosen, dtype=torch.long)]

"""Evidence of another kind: an outlier is mostly near other outliers, an unusual inlier is mostly alone or near its class.

    neighborhood = fit_neighborhood(pool, values)
    neighborhood.mean_value(embeddings)  # of each image's nearest neighbors in the pool

Neighbors are looked for among a sample of the pool, in its largest principal directions, so the cost is linear in the pool.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sala.classifier.whitening import principal_directions
from sala.functional import unit_length

N_NEIGHBORS, N_DIRECTIONS = 10, 64
SAMPLE = 500  # to 1,000 images of a large pool
ROWS = 4_096  # images at a time


@dataclass(frozen=True)
class Neighborhood:
    """A sample of the pool, and a value of each of its images."""

    directions: Tensor  # [d, r]
    points: Tensor  # [l, r], of length 1
    values: Tensor  # [l]

    def mean_value(self, embeddings: Tensor, step: int = 0) -> Tensor:  # [n, d] -> [n]
        """The mean value of the nearest neighbors; with `step`, rows 0, step, ... are the sample and not their own
        neighbors."""
        n = min(N_NEIGHBORS, len(self.values) - (1 if step else 0))
        if n < 1:
            return embeddings.new_zeros(embeddings.shape[0])
        means = []
        for part, rows_of_part in enumerate(torch.split(embeddings, ROWS)):  # one, empty, of no images
            x, start = unit_length(rows_of_part @ self.directions), part * ROWS
            similarity = x @ self.points.T
            if step:
                rows = torch.arange(len(x))[-start % step :: step]  # none in a short last part
                similarity[rows, (rows + start) // step] = -2.0
            means.append(self.values[similarity.topk(n, -1).indices].mean(-1))
        return torch.cat(means)


def fit_neighborhood(pool: Tensor, values: Tensor) -> tuple[Neighborhood, Tensor]:  # [n, d], [n] -> [n]
    """The neighborhood, and the mean value of each pool image's neighbors."""
    step = max(1, len(pool) // SAMPLE)
    sample = pool[::step]
    directions = principal_directions(sample, N_DIRECTIONS)[0] if len(sample) else pool.new_zeros(pool.shape[1], 0)
    found = Neighborhood(directions, unit_length(sample @ directions), values[::step].clone())
    return found, found.mean_value(pool, step)

"""The relation module: a small network that says how much two maps belong together."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RelationModule(nn.Module):
    """Relation scores of pairs of maps (Sung et al., 2018), before the sigmoid.

    The two maps on top of each other pass two blocks of conv3x3 (64) - batch norm - ReLU - max-pool 2x2, then two linear
    layers with 8 hidden units. A map of one pixel is not pooled.
    """

    def __init__(self, in_map: tuple[int, int, int], *, width: int = 64, hidden: int = 8):
        super().__init__()
        channels, height, breadth = in_map
        self.in_map = in_map
        self.first, self.second = (nn.Conv2d(n, width, 3, padding=1) for n in (2 * channels, width))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))
        n_features = width * max(1, height // 4) * max(1, breadth // 4)
        self.head = nn.Sequential(nn.Linear(n_features, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, queries: Tensor, classes: Tensor) -> Tensor:  # [..., n, d], [..., k, d] -> [..., n, k]
        """Scores of each query with each class; flat maps come in. In training all pairs of a task are a batch-norm batch."""
        if queries.ndim > 2:  # tasks one by one: all their pairs together would fill the memory
            return torch.stack([self(*maps) for maps in zip(queries, classes, strict=True)])
        x = self.first_of_pairs(queries.reshape(-1, *self.in_map), classes.reshape(-1, *self.in_map))
        x = halved(F.relu(self.norms[0](x)))
        x = halved(F.relu(self.norms[1](self.second(x))))
        scores: Tensor = self.head(x.flatten(1))
        return scores.reshape(len(queries), len(classes))

    def first_of_pairs(
        self, queries: Tensor, classes: Tensor
    ) -> Tensor:  # [n, C, h, w], [k, C, h, w] -> [n k, 64, h, w]
        """The first convolution of [class, query] for all pairs: the sum of one of the class and one of the query."""
        of_class, of_query = self.first.weight.chunk(2, dim=1)
        c = F.conv2d(classes, of_class, self.first.bias, padding=1)
        q = F.conv2d(queries, of_query, padding=1)
        return (q[:, None] + c).flatten(0, 1)


def halved(x: Tensor) -> Tensor:
    """max-pool 2x2; a side of one pixel stays."""
    return F.max_pool2d(x, tuple(min(2, side) for side in x.shape[-2:]))

"""A linear classifier of labelled images: what tells the classes apart may be in few of the directions in which images differ,
and the means of classes do not know in which."""

from __future__ import annotations

import torch
from torch import Tensor

from sala.stages import one_hot

RIDGE = 0.1  # points have length 1


def linear_classifier(points: Tensor, labels: Tensor) -> Tensor:  # [s, d], [s] -> [k, d]
    """A with the least sum_s w_s |A x_s - t_s|^2 + RIDGE |A|^2, where t_s is 1 for the class of x_s and 0 for others, less
    1 / k, and w_s makes classes count alike (ridge regression)."""
    counts = labels.bincount()
    targets = one_hot(labels, len(counts), like=points) - 1 / len(counts)
    w = (len(labels) / (len(counts) * counts.to(points.dtype)))[labels]
    n, d = points.shape
    if n <= d:
        dual: Tensor = torch.linalg.solve(points @ points.T + torch.diag(RIDGE / w), targets)
        return dual.T @ points
    weighted = w[:, None] * points
    found: Tensor = torch.linalg.solve(weighted.T @ points + RIDGE * torch.eye(d), weighted.T @ targets)
    return found.T

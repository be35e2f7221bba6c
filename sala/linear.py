"""A linear classifier of labelled images: what tells the classes apart may be in few of the directions in which images differ,
and the means of classes do not know in which."""

from __future__ import annotations

import torch
from torch import Tensor

from sala.refining import pair_similarity
from sala.stages import one_hot

RIDGE = 0.1  # points have length 1


def linear_classifier(points: Tensor, labels: Tensor) -> Tensor:  # [s, d], [s] -> [k, d]
    """A with the least sum_s w_s |A x_s - t_s|^2 + RIDGE |A|^2, where t_s is 1 for the class of x_s and 0 for others, less
    1 / k, and w_s makes classes count alike (ridge regression). Each class's row is then as long as if it came from the usual
    number of images: with r the similarity of two images of a class, a new image is told by n of them to be of it by
    n r / (1 + (n - 1) r), and of classes with few images nearly none would be found."""
    counts = labels.bincount()
    found = _ridge_regression(points, labels, counts)
    r = pair_similarity(points, labels)
    lengths = _told(counts.float().mean(), r) / _told(counts.float(), r)
    return lengths[:, None] * found


def _told(n: Tensor, r: float) -> Tensor:
    return n * r / (1 + (n - 1) * r)


def _ridge_regression(points: Tensor, labels: Tensor, counts: Tensor) -> Tensor:  # [s, d], [s], [k] -> [k, d]
    targets = one_hot(labels, len(counts), like=points) - 1 / len(counts)
    w = (len(labels) / (len(counts) * counts.to(points.dtype)))[labels]
    n, d = points.shape
    if n <= d:
        dual: Tensor = torch.linalg.solve(points @ points.T + torch.diag(RIDGE / w), targets)
        return dual.T @ points
    weighted = w[:, None] * points
    found: Tensor = torch.linalg.solve(weighted.T @ points + RIDGE * torch.eye(d), weighted.T @ targets)
    return found.T

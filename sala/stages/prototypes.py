"""Class prototypes: weighted means of embedded points, for any number of shots in each class."""

from __future__ import annotations

import torch
from torch import Tensor


def one_hot(labels: Tensor, n_way: int, like: Tensor) -> Tensor:  # [..., n] -> [..., n, k]
    """z_si = 1 where point s has class i, in the dtype of `like`."""
    return (labels[..., None] == torch.arange(n_way, device=labels.device)).to(like.dtype)


def weighted_means(points: Tensor, weights: Tensor) -> Tensor:  # [..., n, d], [..., n, k] -> [..., k, d]
    """c_i = sum_s w_si x_s / sum_s w_si"""
    return weights.transpose(-2, -1) @ points / weights.sum(-2)[..., None]


def class_means(points: Tensor, labels: Tensor, n_way: int) -> Tensor:  # [..., n, d], [..., n] -> [..., k, d]
    """The prototypes of a support set: c_i, the mean of its points of class i."""
    return weighted_means(points, one_hot(labels, n_way, like=points))

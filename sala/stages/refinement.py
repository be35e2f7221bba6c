"""Prototypes moved by pseudo-labelled points."""

from __future__ import annotations

import torch
from torch import Tensor

from sala.episode import Task
from sala.stages.prototypes import one_hot, weighted_means


def refine(task: Task, weights: Tensor) -> Tensor:  # weights [..., M, k] -> [..., k, d]
    """c_i <- (sum_s z_si g_s + sum_u w_ui g_u) / (sum_s z_si + sum_u w_ui): one step of soft k-means."""
    points = torch.cat([task.support, task.unlabeled], -2)
    known = one_hot(task.labels, task.n_way, like=task.support)
    return weighted_means(points, torch.cat([known, weights], -2))

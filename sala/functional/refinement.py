"""Prototypes moved by pseudo-labeled images."""

from __future__ import annotations

import torch
from torch import Tensor

from sala.episodes.task import Task
from sala.functional.prototypes import one_hot, weighted_means


def refine(task: Task, weights: Tensor) -> Tensor:  # weights [..., M, k] -> [..., k, d]
    """Prototypes after one step of soft k-means: c_i <- (sum_s z_si g_s + sum_u w_ui g_u) / (sum_s z_si + sum_u w_ui)."""
    embeddings = torch.cat([task.support, task.unlabeled], -2)
    assigned = one_hot(task.labels, task.n_way, like=task.support)
    return weighted_means(embeddings, torch.cat([assigned, weights], -2))

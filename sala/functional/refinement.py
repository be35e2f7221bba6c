"""Prototypes moved by pseudo-labeled images."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sala.episodes.task import Task
from sala.functional.prototypes import one_hot, weighted_means


def refine(task: Task, weights: Tensor) -> Tensor:  # weights [..., M, k] -> [..., k, d]
    """Prototypes after one step of soft k-means: c_i <- (sum_s z_si g_s + sum_u w_ui g_u) / (sum_s z_si + sum_u w_ui).

    Parameters
    ----------
    task : Task
        Of embeddings g.
    weights : Tensor
        w, `[..., M, n_way]`: how much each unlabeled embedding counts in each class.

    Returns
    -------
    Tensor
        `[..., n_way, d]`.

    Examples
    --------
    The unlabeled embedding 2 counts in the first class, and 12 in the second:

    >>> import torch
    >>> from sala import Task, refine
    >>> labeled, unlabeled = torch.tensor([[0.0], [10.0]]), torch.tensor([[2.0], [12.0]])
    >>> task = Task(support=labeled, labels=torch.tensor([0, 1]), unlabeled=unlabeled, query=labeled, n_way=2)
    >>> refine(task, torch.eye(2))
    tensor([[ 1.],
            [11.]])
    """
    embeddings = torch.cat([task.support, task.unlabeled], -2)
    assigned = one_hot(task.labels, task.n_way, like=task.support)
    return weighted_means(embeddings, torch.cat([assigned, weights], -2))


def refine_steps(
    task: Task, prototypes: Tensor, weights_of: Callable[[Tensor], Tensor], n_steps: int
) -> Tensor:  # prototypes [..., k, d], weights_of [..., k, d] -> [..., M, k]
    """Prototypes after n steps, each with the weights of the prototypes before it. The support stays labeled throughout.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0], [10.0]], labels=[0, 1], query=[[4.0]], unlabeled=[[2.0]])
    >>> first_class = torch.tensor([[1.0, 0.0]])
    >>> refine_steps(task, torch.tensor([[0.0], [10.0]]), lambda prototypes: first_class, n_steps=2)
    tensor([[ 1.],
            [10.]])
    """
    for _ in range(n_steps):
        prototypes = refine(task, weights_of(prototypes))
    return prototypes

"""Support and queries exchanged: a second task from the same embeddings."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from sala.episodes.task import Task
from sala.errors import SalaError
from sala.functional.prototypes import one_hot


def swapped(task: Task, query_labels: Tensor) -> tuple[Task, Tensor]:
    """The task with as many queries of each class as it has shots for its support, and the labels of its new queries.

    The first queries of a class take the place of its support. The support comes before the remaining queries, so that a
    second exchange gives back the same sets.

    Parameters
    ----------
    task : Task
        Of embeddings, `[..., n, d]`.
    query_labels : Tensor
        The class of each query, `[..., Q]`.

    Returns
    -------
    tuple of Task and Tensor
        The exchanged task and the class of each of its queries, of the same shapes.

    Raises
    ------
    SalaError
        If a class has fewer queries than shots.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0], [10.0]], labels=[0, 1], query=[[9.0], [1.0], [2.0]])
    >>> other, labels = swapped(task, torch.tensor([1, 0, 0]))
    >>> other.support.flatten(), other.labels
    (tensor([9., 1.]), tensor([1, 0]))
    >>> other.query.flatten(), labels
    (tensor([ 0., 10.,  2.]), tensor([0, 1, 0]))
    """
    order = _first_queries_first(task, query_labels)  # [..., Q]
    n_support = task.labels.shape[-1]
    query = task.query.take_along_dim(order[..., None], -2)
    labels = query_labels.take_along_dim(order, -1)
    exchanged = replace(
        task,
        support=query[..., :n_support, :],
        labels=labels[..., :n_support],
        query=torch.cat([task.support, query[..., n_support:, :]], -2),
    )
    return exchanged, torch.cat([task.labels, labels[..., n_support:]], -1)


def _first_queries_first(task: Task, query_labels: Tensor) -> Tensor:  # -> [..., Q], numbers of queries
    """The first K queries of each class, K being its shots, then the others; both in their own order."""
    n_shot = one_hot(task.labels, task.n_way, like=task.support).sum(-2)  # [..., k]
    of_class = one_hot(query_labels, task.n_way, like=task.support)  # [..., Q, k]
    _check_enough(n_shot, of_class.sum(-2))
    place = (of_class.cumsum(-2) * of_class).sum(-1)  # within its class, from 1
    is_later = place > n_shot.gather(-1, query_labels)
    return is_later.byte().argsort(dim=-1, stable=True)


def _check_enough(n_shot: Tensor, n_query: Tensor) -> None:
    if bool((lacks := n_query < n_shot).any()):
        shots, queries = (int(counts[lacks][0]) for counts in (n_shot, n_query))
        raise SalaError(
            f"swap needs at least as many queries as shots in each class; one has {queries} and {shots}; draw more "
            "queries, or set swap=false"
        )

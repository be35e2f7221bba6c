"""What a head is: fitted to the embeddings of a task's support and pool, it classifies embeddings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sala.episodes.task import Task
from sala.errors import SalaError


@dataclass(frozen=True)
class Scores:
    """What a head says of n images."""

    log_probabilities: Tensor  # [n, k], float64
    inlier: Tensor | None = None  # [n], how much an image looks like one of the classes, from 0 to 1

    def __getitem__(self, rows: slice) -> Scores:
        return Scores(self.log_probabilities[rows], None if self.inlier is None else self.inlier[rows])


@dataclass(frozen=True)
class FittedHead:
    """What a head has learned from a task."""

    pool: Scores  # of the pool's images, which informed each other
    classify: Callable[[Tensor], Scores]  # [q, d] -> [q, k]: each row on its own


class Head(ABC):
    """A few-shot classifier without a training of its own: it runs on embeddings of any network.

    A subclass is a frozen dataclass of hyper-parameters and writes `fit`. `scores` uses it in one of two ways:

    - semi-supervised (the default): the pool is the task's unlabeled images, and each query is classified on its own by what
      was learned from support and pool;
    - transductive: the queries join the pool and inform each other.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(
    ...     support=[[0.0, 1.0], [1.0, 0.0]], labels=[0, 1], query=[[0.2, 0.9]], unlabeled=[[0.1, 1.0], [0.9, 0.0]]
    ... )
    >>> head = sala.HEADS["simpleshot"]()
    >>> head.scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper: ClassVar[str]  # authors, venue, year
    is_transductive: ClassVar[bool] = False  # as published
    uses_unlabeled: ClassVar[bool] = True

    @abstractmethod
    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:  # [s, d], [s], [u, d]
        """Learn from labeled embeddings and a pool of unlabeled ones, which may be empty. All are float64."""

    def scores(self, task: Task, *, transductive: bool = False) -> Scores:
        """Class scores of the queries of one embedded task."""
        return self.answers(task, transductive=transductive)[0]

    def answers(self, task: Task, *, transductive: bool = False) -> tuple[Scores, Scores]:
        """Class scores of the queries and of the unlabeled images of one embedded task."""
        if task.labels.ndim != 1 or task.support.ndim != 2:
            raise SalaError(
                f"a head takes one task of embeddings [n, d]; got a support of {list(task.support.shape)}; embed "
                "images first, and take the tasks of a batch one by one"
            )
        parts = task.support, task.unlabeled.reshape(-1, task.support.shape[-1]), task.query
        support, unlabeled, query = (part.to(torch.float64) for part in parts)
        with torch.no_grad():
            if not transductive:
                fitted = self.fit(support, task.labels, unlabeled, task.n_way)
                return fitted.classify(query), fitted.pool
            pool = self.fit(support, task.labels, torch.cat([unlabeled, query]), task.n_way).pool
            return pool[len(unlabeled) :], pool[: len(unlabeled)]


def fitted(pool: Tensor, classify: Callable[[Tensor], Tensor]) -> FittedHead:
    """A head of which the pool's images are classified as any others."""
    return FittedHead(Scores(classify(pool)), lambda query: Scores(classify(query)))

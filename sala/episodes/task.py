"""What a method may look at (`Task`) and what only a measurement may look at (`Episode`).

All tensors may carry leading batch dimensions: `support [..., S, *x]`, `labels [..., S]`, `unlabeled [..., M, *x]`,
`query [..., Q, *x]`, where `*x` is `d` for embeddings and `C, H, W` for images.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Task:
    """One few-shot problem as a method meets it. There are no query labels in it.

    `sala.make_task` makes a checked task from arrays or images; a sampler draws tasks from a dataset.

    Parameters
    ----------
    support : Tensor
        The labeled images `[..., S, C, H, W]`, or their embeddings `[..., S, d]`.
    labels : Tensor
        The class of each support image, `[..., S]`, integers from 0 to n_way - 1.
    unlabeled : Tensor
        The unlabeled images or embeddings, `[..., M, *x]`. M may be 0.
    query : Tensor
        The images or embeddings to classify, `[..., Q, *x]`.
    n_way : int
        The number of classes.

    Examples
    --------
    >>> import torch, sala
    >>> support, query = torch.tensor([[0.0], [10.0]]), torch.tensor([[9.0]])
    >>> task = sala.Task(support, torch.tensor([0, 1]), support[:0], query, n_way=2)
    >>> sala.build_method("protonet", sala.Identity(1)).eval().logits(task)
    tensor([[-81.,  -1.]])
    """

    support: Tensor  # [..., S, *x]
    labels: Tensor  # [..., S]
    unlabeled: Tensor  # [..., M, *x]
    query: Tensor  # [..., Q, *x]
    n_way: int

    def to(self, device: torch.device) -> Task:
        """The task with its tensors on a device."""
        parts = {name: getattr(self, name).to(device) for name in ("support", "labels", "unlabeled", "query")}
        return replace(self, **parts)

    def without_unlabeled(self) -> Task:
        """The task without its unlabeled images."""
        return replace(self, unlabeled=self.unlabeled.narrow(self.labels.ndim - 1, 0, 0))


@dataclass(frozen=True)
class Episode:
    """A task together with the truths that are hidden from the method.

    Parameters
    ----------
    task : Task
        What the method sees.
    query_labels : Tensor
        The class of each query, `[..., Q]`.
    unlabeled_labels : Tensor
        The class of each unlabeled image, `[..., M]`; -1 marks a distractor.

    Examples
    --------
    >>> import sala
    >>> shape = sala.EpisodeShape(n_way=2, n_shot=1, n_query=1, n_unlabeled=1, n_distractor=1)
    >>> sampler = sala.EpisodeSampler(sala.load_dataset("glyphs"), shape, split="test", seed=0)
    >>> episode = sampler[0]
    >>> episode.query_labels, episode.unlabeled_labels
    (tensor([0, 1]), tensor([ 0,  1, -1]))
    """

    task: Task
    query_labels: Tensor  # [..., Q]
    unlabeled_labels: Tensor  # [..., M]

    def to(self, device: torch.device) -> Episode:
        """The episode with its tensors on a device."""
        return Episode(self.task.to(device), self.query_labels.to(device), self.unlabeled_labels.to(device))

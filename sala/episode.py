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
    """One few-shot problem as a method meets it. There are no query labels in it."""

    support: Tensor  # [..., S, *x]
    labels: Tensor  # [..., S], integers in [0, n_way)
    unlabeled: Tensor  # [..., M, *x]; M may be 0
    query: Tensor  # [..., Q, *x]
    n_way: int

    def to(self, device: torch.device) -> Task:
        parts = {name: getattr(self, name).to(device) for name in ("support", "labels", "unlabeled", "query")}
        return replace(self, **parts)

    def without_unlabeled(self) -> Task:
        return replace(self, unlabeled=self.unlabeled.narrow(self.labels.ndim - 1, 0, 0))


@dataclass(frozen=True)
class Episode:
    """A task together with the truths that are hidden from the method."""

    task: Task
    query_labels: Tensor  # [..., Q]
    unlabeled_labels: Tensor  # [..., M]; -1 marks a distractor

    def to(self, device: torch.device) -> Episode:
        return Episode(self.task.to(device), self.query_labels.to(device), self.unlabeled_labels.to(device))

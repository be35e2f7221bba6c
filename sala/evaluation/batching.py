"""Whether a method takes batches of tasks, found out on a few of them.

A method written for one task, say with `task.support[task.labels == c].mean(0)`, gives class scores of the right shape for a
batch too, from the images of all its tasks. Evaluation therefore compares before it measures.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor

from sala.episodes.task import Episode, Task
from sala.functional import PseudoLabels
from sala.methods import Method
from sala.methods.base import checked_logits

N_COMPARED = 5  # tasks
OF_RANGE, OF_SIZE = 1e-3, 1e-5  # what is rounding: shares of the range of a task's class scores and of their size
_TENSORS = ("support", "labels", "unlabeled", "query")
_TOLD: WeakSet[type[Method]] = WeakSet()


class Answers(NamedTuple):
    """Class scores of the queries, and pseudo-labels if there are unlabeled images."""

    logits: Tensor
    labels: PseudoLabels | None


def answers_of(method: Method, task: Task) -> Answers:
    """Class scores, and pseudo-labels where there are unlabeled images."""
    has_unlabeled = task.unlabeled.shape[task.labels.ndim - 1] > 0
    logits, labels = method.answers(task) if has_unlabeled else (method.logits(task), None)
    return Answers(checked_logits(logits, task, method), labels)


def in_parts(method: Method, batches: Iterable[Episode]) -> Iterator[Episode]:
    """The batches, or their episodes one at a time for a method that does not take batches."""
    is_batched = method.batched
    for batch in batches:
        if is_batched is None:
            is_batched = takes_batches(method, batch.task)
        yield from [batch] if is_batched else (episode_of(batch, i) for i in range(len(batch.query_labels)))


def takes_batches(method: Method, tasks: Task) -> bool:
    """Whether a batch of the first tasks gets the answers of the tasks one by one; if not, a warning says so once."""
    n = min(N_COMPARED, len(tasks.labels))
    devices = [tasks.support.device] if tasks.support.is_cuda else []
    with torch.random.fork_rng(devices=devices):  # a method that draws numbers finds its generator as it was
        alone = [answers_of(method, task_of(tasks, i)) for i in range(n)]
        again = [answers_of(method, task_of(tasks, i)) for i in range(n)]
        if n_different(alone, again):
            reason: str | None = "its answers are random, so that they cannot be compared with those for a batch"
        else:
            reason = _why_not(method, replace(tasks, **{name: getattr(tasks, name)[:n] for name in _TENSORS}), alone)
    if reason is not None:
        _tell(method, reason)
    return reason is None


def task_of(tasks: Task, i: int) -> Task:
    """Task i of a batch."""
    return replace(tasks, **{name: getattr(tasks, name)[i] for name in _TENSORS})


def episode_of(batch: Episode, i: int) -> Episode:
    """Episode i of a batch."""
    return Episode(task_of(batch.task, i), batch.query_labels[i], batch.unlabeled_labels[i])


def _why_not(method: Method, tasks: Task, alone: list[Answers]) -> str | None:
    try:
        logits, labels = answers_of(method, tasks)
        together = [
            Answers(logits[i], labels and PseudoLabels(labels.probabilities[i], labels.selected[i]))
            for i in range(len(alone))
        ]
        n = n_different(alone, together)
    except Exception as error:  # it works on single tasks, and its author reads why it does not on a batch
        return f"a batch of tasks fails ({type(error).__name__}: {error})"
    # of five tasks one may differ by chance, where rounding decides which images are selected
    return (
        f"{n} of {len(alone)} tasks get other answers in a batch than alone" if n > (len(alone) >= N_COMPARED) else None
    )


def n_different(one: list[Answers], other: list[Answers]) -> int:
    """Number of tasks whose answers differ by more than rounding."""
    return sum(_differ(a, b) for a, b in zip(one, other, strict=True))


def _differ(a: Answers, b: Answers) -> bool:
    if (a.labels is None) != (b.labels is None) or not _close(a.logits, b.logits):
        return True
    if a.labels is None or b.labels is None:
        return False
    n_swapped = int((a.labels.selected != b.labels.selected).sum())  # ties may be broken either way
    is_same = n_swapped <= max(2, a.labels.selected.numel() // 20)
    return not (is_same and _close(a.labels.probabilities, b.labels.probabilities))


def _close(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape:
        return False
    finite = a[a.isfinite()]
    range_ = float(finite.max() - finite.min()) if finite.numel() else 0.0
    size = float(finite.abs().max()) if finite.numel() else 0.0
    return torch.allclose(a, b, rtol=0, atol=OF_RANGE * range_ + OF_SIZE * size, equal_nan=True)


def _tell(method: Method, reason: str) -> None:
    if type(method) not in _TOLD:
        _TOLD.add(type(method))
        warnings.warn(
            f"{type(method).__name__} is evaluated one task at a time: {reason}. Write its functions for leading batch "
            "dimensions (support [..., S, d]; docs/how-to/write-a-method.md), or set `batched = False` on the class",
            stacklevel=2,
        )

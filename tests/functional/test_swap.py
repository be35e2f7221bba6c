"""The exchange of support and queries: which images go where."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from sala.episodes.task import Task
from sala.errors import SalaError
from sala.functional import swapped
from tests.helpers import reference
from tests.helpers.tasks import as_tensor, random_task


def labeled(task: Task, seed: int = 0) -> tuple[Task, Tensor]:
    """The task with its queries (class i % n_way, as they are drawn) in another order, and their labels."""
    n = task.query.shape[-2]
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    labels = (order % task.n_way).expand(*task.labels.shape[:-1], n)
    return replace(task, query=task.query[..., order, :]), labels


def members(embeddings: Tensor, labels: Tensor) -> set[tuple[object, ...]]:
    return {(y, *x) for x, y in zip(embeddings.tolist(), labels.tolist(), strict=True)}


def test_the_first_queries_of_each_class_become_its_support() -> None:
    support, query = torch.tensor([[0.0], [10.0]]), torch.tensor([[8.0], [1.0], [9.0], [2.0]])
    task = Task(support, torch.tensor([0, 1]), support[:0], query, 2)
    other, labels = swapped(task, torch.tensor([1, 0, 1, 0]))
    assert other.support.flatten().tolist() == [8, 1]
    assert other.labels.tolist() == [1, 0]
    assert other.query.flatten().tolist() == [0, 10, 9, 2]
    assert labels.tolist() == [0, 1, 1, 0]


def test_with_as_many_queries_as_shots_the_exchange_twice_is_none() -> None:
    task, labels = labeled(random_task(shots=2, n_query=6))
    other, other_labels = swapped(task, labels)
    assert torch.equal(other.support, task.query)
    assert torch.equal(other.query, task.support)
    again, again_labels = swapped(other, other_labels)
    for part in ("support", "labels", "unlabeled", "query"):
        assert torch.equal(getattr(again, part), getattr(task, part))
    assert torch.equal(again_labels, labels)


@pytest.mark.parametrize("shots", [1, (1, 2, 3)])
def test_the_exchange_twice_gives_back_the_same_sets(shots: int | tuple[int, ...]) -> None:
    task, labels = labeled(random_task(shots=shots, n_query=12))
    again, again_labels = swapped(*swapped(task, labels))
    assert members(again.support, again.labels) == members(task.support, task.labels)
    assert members(again.query, again_labels) == members(task.query, labels)


def test_the_exchange_follows_its_loop() -> None:
    task, labels = labeled(random_task(shots=(1, 2, 3), n_query=12))
    other, other_labels = swapped(task, labels)
    slow = reference.swapped(task.support.tolist(), task.labels.tolist(), task.query.tolist(), labels.tolist())
    assert_close(other.support, as_tensor(slow[0]), rtol=0, atol=0)
    assert_close(other.query, as_tensor(slow[2]), rtol=0, atol=0)
    assert (other.labels.tolist(), other_labels.tolist()) == (slow[1], slow[3])
    assert other.unlabeled is task.unlabeled


def test_tasks_of_a_batch_are_exchanged_each_by_its_own_labels() -> None:
    parts = [labeled(random_task(shots=1, n_query=6, seed=i), seed=i) for i in range(3)]
    tasks, labels = [task for task, _ in parts], torch.stack([names for _, names in parts])
    names = ("support", "labels", "unlabeled", "query")
    batch = Task(*(torch.stack([getattr(task, name) for task in tasks]) for name in names), n_way=3)
    other, other_labels = swapped(batch, labels)
    for i, (task, its_labels) in enumerate(parts):
        alone, alone_labels = swapped(task, its_labels)
        assert all(torch.equal(getattr(other, name)[i], getattr(alone, name)) for name in names)
        assert torch.equal(other_labels[i], alone_labels)


def test_every_embedding_has_its_gradient_once() -> None:
    task, labels = labeled(random_task(shots=2, n_query=9))
    support, query = (part.clone().requires_grad_() for part in (task.support, task.query))
    other, _ = swapped(replace(task, support=support, query=query), labels)
    (2 * other.support.sum() + 3 * other.query.sum()).backward()
    assert torch.equal(support.grad, torch.full_like(support, 3.0))
    assert query.grad[:, 0].sort().values.tolist() == [2.0] * 6 + [3.0] * 3


def test_a_class_with_fewer_queries_than_shots_is_refused() -> None:
    task, labels = labeled(random_task(shots=2, n_query=4))
    with pytest.raises(SalaError, match=r"at least as many queries as shots.* 1 .*2.*draw more"):
        swapped(task, labels)

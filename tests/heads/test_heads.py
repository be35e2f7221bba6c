"""What every row of HEADS must do, free of charge for the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from sala.episodes.task import Task
from sala.errors import SalaError
from sala.heads import HEADS, head_named
from tests.helpers.tasks import random_task

every_head = pytest.mark.parametrize("name", HEADS)
both_ways = pytest.mark.parametrize("transductive", [False, True])


def photo_task(n_way: int = 3, n_unlabeled: int = 24, n_query: int = 9, n_distractors: int = 0, seed: int = 1) -> Task:
    """Embeddings without negative numbers, as networks with a ReLU give them; distractors come last in the pool."""
    task = random_task(n_way=n_way, shots=2, n_unlabeled=n_unlabeled, n_query=n_query, d=12, seed=seed)
    distractors = random_task(n_way=3, n_query=n_distractors, d=12, seed=seed + 100).query
    unlabeled = torch.cat([task.unlabeled, distractors])
    parts = (part.relu() for part in (task.support, unlabeled, task.query))
    support, unlabeled, query = parts
    return replace(task, support=support, unlabeled=unlabeled, query=query)


def probabilities(name: str, task: Task, *, transductive: bool = False) -> Tensor:
    return head_named(name).scores(task, transductive=transductive).log_probabilities.exp()


def shuffled(n: int) -> Tensor:
    return torch.randperm(n, generator=torch.Generator().manual_seed(3))


def close(a: Tensor, b: Tensor) -> None:
    assert_close(a, b, rtol=1e-3, atol=1e-4)  # solvers of scikit-learn stop, and the classifier is in float32


@every_head
@both_ways
@pytest.mark.parametrize("n_unlabeled", [0, 1, 24])
def test_a_row_a_query_and_a_column_a_class(name: str, transductive: bool, n_unlabeled: int) -> None:
    task = photo_task(n_way=4, n_unlabeled=n_unlabeled)
    found = probabilities(name, task, transductive=transductive)
    assert found.shape == (9, 4)
    assert_close(found.sum(-1), torch.ones(9, dtype=torch.float64), rtol=0, atol=1e-5)


@every_head
@both_ways
@pytest.mark.parametrize("n_distractors", [0, 12])
def test_easy_queries_are_classified_right(name: str, transductive: bool, n_distractors: int) -> None:
    g = torch.Generator().manual_seed(0)

    def around(labels: Tensor) -> Tensor:
        return (3 * torch.eye(6)[labels] + 0.3 * torch.randn(len(labels), 6, generator=g)).relu()

    labels = torch.arange(3)
    pool = torch.cat([around(labels.repeat(8)), around(torch.full((n_distractors,), 5))])
    task = Task(around(labels), labels, pool, around(labels.repeat(4)), 3)
    assert probabilities(name, task, transductive=transductive).argmax(-1).equal(labels.repeat(4))


@every_head
def test_queries_do_not_see_each_other(name: str) -> None:
    task = photo_task(n_distractors=6)
    alone = torch.cat([probabilities(name, replace(task, query=task.query[i : i + 1])) for i in range(9)])
    assert_close(probabilities(name, task), alone, rtol=1e-5, atol=1e-6)


@every_head
@both_ways
def test_the_order_of_queries_does_not_matter(name: str, transductive: bool) -> None:
    task, order = photo_task(), shuffled(9)
    moved = probabilities(name, replace(task, query=task.query[order]), transductive=transductive)
    close(moved, probabilities(name, task, transductive=transductive)[order])


@every_head
@both_ways
def test_the_order_of_unlabeled_images_does_not_matter(name: str, transductive: bool) -> None:
    task = photo_task(n_distractors=6)
    moved = replace(task, unlabeled=task.unlabeled[shuffled(30)])
    close(probabilities(name, moved, transductive=transductive), probabilities(name, task, transductive=transductive))


@every_head
@both_ways
def test_the_names_of_classes_do_not_matter(name: str, transductive: bool) -> None:
    task, new = photo_task(n_distractors=6), torch.tensor([2, 0, 1])
    renamed = probabilities(name, replace(task, labels=new[task.labels]), transductive=transductive)
    close(renamed[:, new], probabilities(name, task, transductive=transductive))


@every_head
def test_heads_that_do_not_look_at_unlabeled_images_say_so(name: str) -> None:
    task = photo_task()
    changed = probabilities(name, replace(task, unlabeled=task.unlabeled.flip(-1)))
    assert torch.allclose(changed, probabilities(name, task)) != HEADS[name].uses_unlabeled


@pytest.mark.parametrize(
    "name", ["simpleshot", "bd-cspn", "tim", "pt-map", "oslo", "logistic-regression", "self-training"]
)
def test_an_image_of_the_pool_asked_as_a_query_gets_the_answer_of_the_pool(name: str) -> None:
    task = photo_task()
    fitted = head_named(name).fit(task.support, task.labels, task.unlabeled, task.n_way)
    assert_close(fitted.classify(task.unlabeled).log_probabilities, fitted.pool.log_probabilities)


@pytest.mark.parametrize("name", ["oslo", "classifier"])
@both_ways
def test_inlier_scores_are_between_0_and_1_and_lower_for_outliers(name: str, transductive: bool) -> None:
    g = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat(10)
    pool = 3 * torch.eye(16)[labels] + 0.3 * torch.randn(30, 16, generator=g)
    outliers = 3 * torch.eye(16)[torch.arange(6, 16)] + 0.3 * torch.randn(10, 16, generator=g)
    query = torch.cat([pool[:5] + 0.1, outliers[:5] + 0.1])
    task = Task(pool[:6], labels[:6], torch.cat([pool[6:], outliers]), query, 3)
    inlier = head_named(name).scores(task, transductive=transductive).inlier
    assert inlier is not None and inlier.shape == (10,) and ((inlier >= 0) & (inlier <= 1)).all()
    assert inlier[:5].min() > inlier[5:].max()


def test_an_unknown_head_is_answered_with_the_known_ones() -> None:
    with pytest.raises(SalaError, match=r"'simpleshoot'; the heads are simpleshot"):
        head_named("simpleshoot")


def test_a_batch_of_tasks_is_refused() -> None:
    with pytest.raises(SalaError, match="one task"):
        head_named("tim").scores(random_task(batch=(2,)))


@pytest.mark.parametrize("name", HEADS)
def test_images_of_another_scale_get_the_same_answer(name: str) -> None:
    task = photo_task()
    doubled = replace(task, support=2 * task.support, unlabeled=2 * task.unlabeled, query=2 * task.query)
    close(probabilities(name, doubled), probabilities(name, task))

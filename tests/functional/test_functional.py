"""The parts that prototype methods are made of, against loops and by eye."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from sala.episodes.task import Task
from sala.functional import (
    class_means,
    nearest,
    ramp_weight,
    refine,
    selection_size,
    squared_distances,
    weighted_means,
)
from tests.helpers import reference
from tests.helpers.tasks import random_task


def test_class_means_of_three_embeddings_on_a_line() -> None:
    embeddings = torch.tensor([[0.0], [2.0], [10.0]])
    assert_close(class_means(embeddings, torch.tensor([0, 0, 1]), 2), torch.tensor([[1.0], [10.0]]))


def test_class_means_follow_the_equation_for_unequal_shots() -> None:
    task = random_task(shots=(1, 3, 2))
    slow = [reference.class_mean(task.support.tolist(), task.labels.tolist(), c) for c in range(3)]
    assert_close(class_means(task.support, task.labels, 3), torch.tensor(slow, dtype=torch.float64))


def test_weighted_means_with_equal_weights_are_the_mean() -> None:
    embeddings = torch.randn(5, 3, dtype=torch.float64)
    assert_close(weighted_means(embeddings, torch.full((5, 2), 0.3, dtype=torch.float64))[1], embeddings.mean(0))


@pytest.mark.parametrize("weighted", [False, True])
def test_distances_follow_the_equation(weighted: bool) -> None:
    x, c, a = (torch.randn(n, 6, dtype=torch.float64) for n in (5, 3, 3))
    weights = a.sigmoid() if weighted else None
    slow = [
        [
            reference.distance(p, q, weights[i].tolist() if weights is not None else None)
            for i, q in enumerate(c.tolist())
        ]
        for p in x.tolist()
    ]
    assert_close(squared_distances(x, c, weights), torch.tensor(slow, dtype=torch.float64))


def test_unit_weights_give_the_plain_distance() -> None:
    x, c = torch.randn(5, 6, dtype=torch.float64), torch.randn(3, 6, dtype=torch.float64)
    assert_close(squared_distances(x, c, torch.ones_like(c)), squared_distances(x, c))


def test_distances_stay_exact_far_from_the_origin() -> None:
    """In float32 the product form loses digits to large coordinates, unless the embeddings are shifted first."""
    x, c = torch.randn(20, 64, dtype=torch.float64), torch.randn(5, 64, dtype=torch.float64)
    exact = squared_distances(x, c)
    moved = squared_distances((x + 100).float(), (c + 100).float())
    assert_close(moved.double(), exact, rtol=1e-4, atol=1e-3)


def test_an_embedding_on_its_center_has_distance_zero_and_never_less() -> None:
    c = torch.randn(4, 1600, generator=torch.Generator().manual_seed(0)) * 3  # squared norms of 14,400
    distances = squared_distances(c, c)
    assert (distances >= 0).all()
    assert_close(distances.diagonal(), torch.zeros(4), rtol=0, atol=3e-2)


def test_distance_gradients_match_finite_differences() -> None:
    x, c, a = (torch.randn(n, 4, dtype=torch.float64, requires_grad=True) for n in (3, 2, 2))
    assert torch.autograd.gradcheck(lambda x, c, a: squared_distances(x, c, a.sigmoid()), (x, c, a))


def test_refinement_moves_a_prototype_toward_its_unlabeled_images() -> None:
    task = Task(torch.tensor([[0.0], [10.0]]), torch.tensor([0, 1]), torch.tensor([[2.0]]), torch.zeros(1, 1), 2)
    assert_close(refine(task, torch.tensor([[1.0, 0.0]])), torch.tensor([[1.0], [10.0]]))


def test_refinement_with_weight_zero_changes_nothing() -> None:
    task = random_task()
    weights = torch.zeros(7, 3, dtype=torch.float64)
    assert_close(refine(task, weights), class_means(task.support, task.labels, 3))


def test_the_nearest_images_are_selected_over_all_classes_together() -> None:
    distances = torch.tensor([[5.0, 9.0], [0.1, 9.0], [9.0, 0.2], [0.3, 9.0]])
    assert nearest(distances, 2).tolist() == [False, True, True, False]


def test_nobody_and_everybody_can_be_selected() -> None:
    distances = torch.rand(2, 6, 3)
    assert not nearest(distances, 0).any()
    assert nearest(distances, 6).all()


def test_selection_counts_are_the_same_in_every_episode_of_a_batch() -> None:
    assert (nearest(torch.rand(4, 5, 9, 3), 4).sum(-1) == 4).all()


@pytest.mark.parametrize(
    ("t", "n"), [(0, 0), (0.1, 1), (0.2, 3), (0.3, 6), (0.4, 12), (0.5, 21), (0.7, 47), (0.9, 71), (1, 75)]
)
def test_the_ramp_has_the_papers_numbers(t: float, n: int) -> None:
    assert selection_size(75, share=1.0, weight=ramp_weight(t, 5.0)) == n


def test_the_ramp_follows_its_equation_and_stays_between_its_ends() -> None:
    assert ramp_weight(0.3, 5.0) == pytest.approx(reference.ramp(0.3, 5.0))
    assert ramp_weight(1.7, 5.0) == 1.0
    assert ramp_weight(-1.0, 5.0) == pytest.approx(math.exp(-5))


@pytest.mark.parametrize(("rounding", "n"), [("floor", 0), ("ceil", 1), ("at-least-one", 1)])
def test_roundings_of_a_small_selection(rounding: str, n: int) -> None:
    assert selection_size(75, share=1.0, weight=ramp_weight(0.0, 5.0), rounding=rounding) == n
    assert selection_size(0, share=1.0, weight=1.0, rounding=rounding) == 0
    assert selection_size(50, share=0.5, weight=1.0, rounding=rounding) == 25


def test_half_of_the_images_is_half_of_the_images() -> None:
    assert [selection_size(m, share=0.5, weight=1.0) for m in (50, 150, 7)] == [25, 75, 3]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_gradients_of_distances_are_those_of_the_equation(weighted: bool, batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, c, a = (torch.randn(*batch, n, 6, dtype=torch.float64) for n in (5, 3, 3))
    x, c, a = (part.requires_grad_() for part in (x, c, a.sigmoid()))
    inputs = (x, c, a) if weighted else (x, c)
    assert torch.autograd.gradcheck(squared_distances, inputs)
    assert torch.autograd.gradgradcheck(squared_distances, inputs)
    written_out = (x[..., :, None, :] - c[..., None, :, :]).square() * (a[..., None, :, :] if weighted else 1)
    pull = torch.randn(*batch, 5, 3, dtype=torch.float64)
    wanted = torch.autograd.grad((written_out.sum(-1) * pull).sum(), inputs)
    assert_close(torch.autograd.grad((squared_distances(*inputs) * pull).sum(), inputs), wanted)
    lone = squared_distances(x.detach(), c, a.detach() if weighted else None)  # a gradient for the centers alone
    assert_close(torch.autograd.grad((lone * pull).sum(), c)[0], wanted[1])


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_gradients_of_weighted_means_are_those_of_the_equation(batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(*batch, 5, 4, dtype=torch.float64), torch.rand(*batch, 5, 3, dtype=torch.float64) + 0.1
    inputs = x.requires_grad_(), w.requires_grad_()
    assert torch.autograd.gradcheck(weighted_means, inputs)
    assert torch.autograd.gradgradcheck(weighted_means, inputs)
    written_out = (w[..., None] * x[..., :, None, :]).sum(-3) / w.sum(-2)[..., None]
    pull = torch.randn_like(written_out)
    wanted = torch.autograd.grad((written_out * pull).sum(), inputs)
    assert_close(torch.autograd.grad((weighted_means(x, w) * pull).sum(), inputs), wanted)
    assert_close(torch.autograd.grad((weighted_means(x, w.detach()) * pull).sum(), x)[0], wanted[0])

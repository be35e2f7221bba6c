"""Each head gives what its slow twin gives, and what the equations say in cases that one sees."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from sala.episodes.task import Task
from sala.heads import HEADS
from sala.heads.bdcspn import rectify
from sala.heads.ilpc import ILPC, mean_losses, propagate, smallest
from sala.heads.laplacianshot import LaplacianShot, neighbors
from sala.heads.oslo import OSLO
from sala.heads.ptmap import PTMAP
from sala.heads.sinkhorn import sinkhorn
from sala.heads.tim import TIM
from tests.helpers import head_reference as slow
from tests.helpers.tasks import as_tensor, lists, random_task


def positive_task(seed: int = 0) -> Task:
    task = random_task(n_way=3, shots=(1, 2, 3), n_unlabeled=11, n_query=5, d=6, seed=seed)
    return replace(task, support=task.support.abs(), unlabeled=task.unlabeled.abs(), query=task.query.abs())


def fast(name: str, task: Task, **options: float) -> Tensor:
    return HEADS[name](**options).scores(task).log_probabilities.exp()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["simpleshot", "bd-cspn", "laplacianshot"])
def test_a_head_gives_what_its_slow_twin_gives(name: str, seed: int) -> None:
    task = positive_task(seed)
    twin = getattr(slow, name.replace("-", "_"))(*lists(task), task.n_way)
    assert_close(fast(name, task), as_tensor(twin), rtol=1e-4, atol=1e-5)  # bound updates end before their limit


@pytest.mark.parametrize("seed", range(3))
def test_tim_gives_what_its_slow_twin_gives(seed: int) -> None:
    task = positive_task(seed)
    assert_close(fast("tim", task, n_steps=12), as_tensor(slow.tim(*lists(task), task.n_way, 12)))


def test_without_steps_tim_is_the_nearest_class_mean() -> None:
    task = positive_task()
    assert_close(fast("tim", task, n_steps=0), as_tensor(slow.tim(*lists(task), task.n_way, 0)))


@pytest.mark.parametrize("seed", range(3))
def test_pt_map_transports_the_pool_as_its_slow_twin_does(seed: int) -> None:
    task = positive_task(seed)
    found = PTMAP(n_steps=4).fit(task.support, task.labels, task.unlabeled, task.n_way).pool
    support, labels, unlabeled, _ = lists(task)
    twin = as_tensor(slow.pt_map(support, labels, unlabeled, task.n_way, 4))
    assert_close(found.log_probabilities.exp(), twin, rtol=1e-4, atol=1e-5)


def test_the_transport_is_balanced() -> None:
    weights = torch.rand(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    capacities = torch.tensor([6.0, 4.0, 2.0], dtype=torch.float64)
    P, factors = sinkhorn(weights, capacities)
    assert_close(P.sum(0), capacities, rtol=0, atol=1e-5)
    assert_close(P.sum(1), torch.ones(12, dtype=torch.float64))
    assert_close(P, (weights * factors) / (weights * factors).sum(-1, keepdim=True))
    assert_close(P, as_tensor(slow.balanced(weights.tolist(), capacities.tolist(), 500)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_oslo_gives_what_its_slow_twin_gives(seed: int) -> None:
    task = positive_task(seed)
    found = OSLO().scores(task)
    p, inlier = slow.oslo(*lists(task), task.n_way)
    assert_close(found.log_probabilities.exp(), as_tensor(p))
    assert_close(found.inlier, torch.tensor(inlier, dtype=torch.float64))


def test_labels_propagate_in_ilpc_as_in_its_slow_twin() -> None:
    task = positive_task()
    support, labels, unlabeled, _ = lists(task)
    v = slow.centered_unit(
        slow.powered_unit(support + unlabeled), slow.powered_unit(support), slow.powered_unit(unlabeled)
    )
    Z = propagate(as_tensor(v), task.labels, 3, k=4, alpha=0.8)
    assert_close(Z, as_tensor(slow.propagated(v, labels, 3, 4, 0.8)))


def test_the_losses_of_ilpc_are_those_of_a_linear_layer_in_training() -> None:
    task = positive_task()
    chosen = torch.arange(11) % 3
    losses = mean_losses(task.support, task.labels, task.unlabeled, chosen, 3, n_epochs=25)
    images = [*task.support.tolist(), *task.unlabeled.tolist()]
    twin = slow.training_losses(images, [*task.labels.tolist(), *chosen.tolist()], 6, 3, 25)
    assert_close(losses, torch.tensor(twin[6:], dtype=torch.float64))


def test_ilpc_moves_the_easiest_images_of_each_class() -> None:
    losses = torch.tensor([0.1, 0.5, 0.2, 0.9, 0.3])
    assert smallest(losses, torch.tensor([0, 0, 0, 1, 1]), n_way=2, n=1).tolist() == [True, False, False, False, True]


def test_ilpc_in_one_round_keeps_the_balanced_labels() -> None:
    """With room for all, every image moves in the first round: its answer is the first Sinkhorn plan."""
    task, head = positive_task(), ILPC(n_selected=11, n_epochs=1)
    v_s, v_u = (slow.powered_unit(part.tolist()) for part in (task.support, task.unlabeled))
    x_s, x_u = (as_tensor(slow.centered_unit(part, v_s, v_u)) for part in (v_s, v_u))
    Z = as_tensor(slow.propagated([*x_s.tolist(), *x_u.tolist()], task.labels.tolist(), 3, 20, 0.8))[6:].clamp_min(0)
    twin = slow.balanced(((Z / Z.sum(-1, keepdim=True)) ** 3).tolist(), [11 / 3] * 3, 1_000)
    found = head.fit(task.support, task.labels, task.unlabeled, 3).pool.log_probabilities.exp()
    assert_close(found, as_tensor(twin), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_ilpc_cleans_round_by_round_as_its_slow_twin_does(seed: int) -> None:
    task = positive_task(seed)
    x_s, x_u = (torch.nn.functional.normalize(part - part.mean(0), dim=-1) for part in (task.support, task.unlabeled))
    found = ILPC(n_selected=1, n_epochs=8).clean(x_s, task.labels, x_u, 3)
    twin = slow.cleaned(x_s.tolist(), task.labels.tolist(), x_u.tolist(), 3, n_selected=1, n_epochs=8)
    assert_close(found, as_tensor(twin), rtol=1e-3, atol=1e-4)


def test_without_the_laplacian_and_rectification_laplacianshot_is_simpleshot() -> None:
    task = positive_task()
    plain = LaplacianShot(laplacian_weight=0.0, is_rectified=False).scores(task).log_probabilities
    assert_close(plain, HEADS["simpleshot"]().scores(task).log_probabilities)


def test_three_neighbors_on_a_line() -> None:
    """Points 0, 1, 2 and 10, each with its nearest other one."""
    x = torch.tensor([0.0, 1.1, 2.0, 10.0])
    distances = (x[:, None] - x).square().fill_diagonal_(torch.inf)
    assert neighbors(distances, 1).argmax(-1).tolist() == [1, 2, 1, 2]
    assert neighbors(distances, 9).sum(-1).tolist() == [3, 3, 3, 3]


def test_rectified_prototypes_take_the_most_confident_images_only_if_asked() -> None:
    support = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    pool = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.1, 0.9], [0.4, 0.6]], dtype=torch.float64)
    labels = torch.tensor([0, 1])
    every, some = rectify(support, labels, pool, 2, 10.0), rectify(support, labels, pool, 2, 10.0, n_selected=1)
    sure = rectify(support, labels, pool[[0, 2]], 2, 10.0)
    assert_close(some.prototypes, sure.prototypes)
    assert not torch.allclose(every.prototypes, some.prototypes)


def test_more_mutual_information_makes_tim_surer_of_the_pool() -> None:
    task = positive_task()

    def entropy(n_steps: int) -> float:
        found = TIM(n_steps=n_steps).fit(task.support, task.labels, task.unlabeled, 3).pool.log_probabilities
        return float(-(found.exp() * found).sum(-1).mean())

    assert entropy(150) < entropy(0)

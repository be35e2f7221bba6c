"""SALA and its neighbors: each formula against loops, each switch against the simpler method."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from sala.episodes.task import Task
from sala.functional import refine, squared_distances
from sala.methods import METHODS
from sala.methods.sala import SALA, MetricNetwork
from tests.helpers import reference
from tests.helpers.tasks import as_tensor, gradients_agree, lists, on_features, random_task, with_gradients


def slow_weights(method: SALA, task: Task) -> list[list[float]]:
    assert method.metric is not None
    parts = [
        method.metric.reduce.weight,
        method.metric.reduce.bias,
        method.metric.expand.weight,
        method.metric.expand.bias,
    ]
    w1, b1, w2, b2 = (part.tolist() for part in parts)
    prototypes = [reference.class_mean(task.support.tolist(), task.labels.tolist(), c) for c in range(task.n_way)]
    return [reference.metric_weights(c, w1, b1, w2, b2) for c in prototypes]


def test_protonet_follows_its_paper() -> None:
    task = random_task(shots=(1, 2, 3))
    support, labels, _, query = lists(task)
    prototypes = [reference.class_mean(support, labels, c) for c in range(3)]
    assert_close(on_features("protonet").logits(task), as_tensor(reference.logits(query, prototypes)))


def test_soft_kmeans_follows_its_paper() -> None:
    task = random_task(shots=(1, 2, 3))
    support, labels, unlabeled, query = lists(task)
    refined = reference.soft_kmeans_prototypes(support, labels, unlabeled, 3)
    assert_close(on_features("soft-kmeans").logits(task), as_tensor(reference.logits(query, refined)))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_sala_follows_its_paper_at_test(share: float) -> None:
    task, method = random_task(shots=(1, 2, 3), n_unlabeled=8), on_features("sala")
    method.selection_share = share
    support, labels, unlabeled, query = lists(task)
    weights = slow_weights(method, task)
    refined = reference.soft_kmeans_prototypes(support, labels, unlabeled, 3, weights, n_selected=int(8 * share))
    assert_close(method.logits(task), as_tensor(reference.logits(query, refined, weights)))


@pytest.mark.parametrize("progress", [0.0, 0.4, 0.8, 1.0])
def test_sala_follows_its_paper_in_training(progress: float) -> None:
    task, method = random_task(n_unlabeled=20), on_features("sala").train()
    method.progress = progress
    support, labels, unlabeled, query = lists(task)
    weights = slow_weights(method, task)
    n = int(reference.ramp(progress, 5.0) * 20)
    refined = reference.soft_kmeans_prototypes(support, labels, unlabeled, 3, weights, n_selected=n)
    assert_close(method.logits(task), as_tensor(reference.logits(query, refined, weights)))


def loss_and_gradient(name: str, task: Task, **options: object) -> tuple[torch.Tensor, ...]:
    method = with_gradients(on_features(name, **options))
    embeddings = [part.clone().requires_grad_() for part in (task.support, task.unlabeled, task.query)]
    logits = method.logits(Task(embeddings[0], task.labels, embeddings[1], embeddings[2], task.n_way))
    logits.logsumexp(-1).sum().backward()
    return logits, *(p.grad for p in embeddings)


def test_sala_with_both_switches_off_is_soft_kmeans_with_flow_to_the_last_bit() -> None:
    task = random_task(dtype=torch.float32)
    ours = loss_and_gradient("sala", task, metric=False, selection=False, dtype=torch.float32)
    theirs = loss_and_gradient("soft-kmeans", task, flow=True, dtype=torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_without_unlabeled_images_soft_kmeans_is_the_prototypical_network() -> None:
    task = random_task(n_unlabeled=0)
    assert_close(on_features("soft-kmeans").logits(task), on_features("protonet").logits(task))


def test_at_the_beginning_of_training_sala_selects_nobody() -> None:
    method = on_features("sala", metric=False).train()
    method.progress = 0.0
    task = random_task(n_unlabeled=75)
    assert method.n_selected(75) == 0
    assert_close(method.logits(task), on_features("protonet").logits(task))


def test_in_evaluation_the_progress_of_the_training_is_not_read() -> None:
    method = on_features("sala")
    method.progress = 0.0
    assert method.n_selected(75) == 75
    method.selection_share = 0.5
    assert method.n_selected(75) == 37


def test_a_short_ramp_reaches_its_end_early() -> None:
    method = on_features("sala", ramp=0.2).train()
    method.progress = 0.2
    assert method.n_selected(75) == 75
    method.progress = 0.1
    assert method.n_selected(75) == 21


def test_the_distractor_far_from_all_classes_is_not_selected() -> None:
    """Two classes at 0 and 10, three near unlabeled images and one far away: with M0 = M / 2 the far one stays out."""
    support, labels = torch.tensor([[0.0], [10.0]]), torch.tensor([0, 1])
    unlabeled = torch.tensor([[0.5], [50.0], [9.8], [40.0]])
    method = on_features("sala", d=1, metric=False, dtype=torch.float32)
    method.selection_share = 0.5
    task = Task(support, labels, unlabeled, torch.tensor([[5.0]]), 2)
    assert method.pseudo_labels(task).selected.tolist() == [True, False, True, False]


def test_flow_lets_the_gradient_through_the_assignments() -> None:
    """Stopped: the gradient is that of the same refinement with the assignments frozen. Flowing: it is that of the whole,
    by finite differences."""
    task = random_task()
    frozen = on_features("soft-kmeans").assignments(task)
    embeddings = [part.clone().requires_grad_() for part in (task.support, task.unlabeled, task.query)]
    fixed = Task(embeddings[0], task.labels, embeddings[1], embeddings[2], 3)
    (-squared_distances(fixed.query, refine(fixed, frozen))).logsumexp(-1).sum().backward()
    stopped = loss_and_gradient("soft-kmeans", task, flow=False)
    for gradient, point in zip(stopped[1:], embeddings, strict=True):
        assert_close(gradient, point.grad)
    flowing = with_gradients(on_features("soft-kmeans", flow=True))
    assert torch.autograd.gradcheck(lambda s, u, q: flowing.logits(Task(s, task.labels, u, q, 3)), embeddings)


def test_gradients_of_sala_match_finite_differences() -> None:
    gradients_agree(on_features("sala", d=4), random_task(d=4))


def test_constant_weights_are_half_the_euclidean_metric() -> None:
    task = random_task(n_unlabeled=0)
    assert_close(on_features("sala", weights="constant").logits(task), 0.5 * on_features("protonet").logits(task))


def test_shared_weights_are_the_same_for_every_class_and_task() -> None:
    weights = MetricNetwork(6, 3, "shared")(torch.randn(4, 5, 6))
    assert weights.std(dim=(0, 1)).max() == 0


def test_double_weights_are_twice_the_adaptive_ones() -> None:
    prototypes = torch.randn(3, 6)
    torch.manual_seed(0)
    adaptive = MetricNetwork(6, 3, "adaptive")
    double = MetricNetwork(6, 3, "double")
    double.load_state_dict(adaptive.state_dict())
    assert_close(double(prototypes), 2 * adaptive(prototypes))


def test_recomputed_weights_come_from_the_refined_prototypes() -> None:
    task, method = random_task(shots=1), on_features("sala", recompute=True)
    support, labels, unlabeled, query = lists(task)
    assert method.metric is not None
    refined = reference.soft_kmeans_prototypes(support, labels, unlabeled, 3, slow_weights(method, task))
    weights = method.metric(as_tensor(refined)).tolist()
    assert_close(method.logits(task), as_tensor(reference.logits(query, refined, weights)))


def test_context_lets_the_weights_depend_on_the_other_classes() -> None:
    prototypes = torch.randn(3, 6)
    changed = prototypes.clone()
    changed[2] += 1
    own, context = MetricNetwork(6, 3), MetricNetwork(6, 3, context=True)
    assert_close(own(prototypes)[0], own(changed)[0])
    assert not torch.allclose(context(prototypes)[0], context(changed)[0])


def test_the_hidden_layer_is_half_the_embedding_and_at_most_800() -> None:
    assert [on_features("sala", d=d).metric.reduce.out_features for d in (64, 1600, 6)] == [32, 800, 3]
    assert on_features("sala", d=64, hidden=2).metric.reduce.out_features == 2


def test_diagnostics_tell_a_dead_metric_from_a_live_one() -> None:
    live, task = on_features("sala"), random_task(batch=(8,))
    dead = on_features("sala")
    with torch.no_grad():
        dead.metric.reduce.bias.fill_(-100)
    assert live.diagnostics(task)["metric_weight_spread"] > 0
    assert live.diagnostics(task)["metric_live_units"] > 0
    assert dead.diagnostics(task)["metric_weight_spread"] == 0
    assert dead.diagnostics(task)["metric_live_units"] == 0


def test_more_unlabeled_owls_move_the_owl_prototype() -> None:
    owls, crows = torch.tensor([[0.0, 0.0]]), torch.tensor([[8.0, 8.0]])
    pool = torch.tensor([[1.0, 1.0]]).repeat(5, 1)
    task = Task(torch.cat([owls, crows]), torch.tensor([0, 1]), pool, torch.tensor([[4.3, 4.3]]), 2)
    method = on_features("sala", d=2, metric=False, dtype=torch.float32)
    assert method.logits(task).argmax(-1).item() == 0
    assert method.logits(replace(task, unlabeled=pool[:0])).argmax(-1).item() == 1


def test_methods_that_learn_nothing_from_unlabeled_images_say_so() -> None:
    assert not METHODS["protonet"].trains_on_unlabeled
    assert METHODS["protonet"].pseudo_labels(on_features("protonet"), random_task()) is None

"""More than one refinement step: each method against loops, one step against the method as it was, many against a limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.testing import assert_close

from sala.episodes.task import Task
from sala.errors import SalaError
from sala.functional import class_means, refine, refine_steps, squared_distances
from sala.methods import Method
from tests.helpers import reference
from tests.helpers.reference import Vector
from tests.helpers.tasks import as_tensor, gradients_agree, lists, on_features, random_task, with_gradients

REFINING = ("soft-kmeans", "semi-inference", "soft-kmeans-cluster", "masked-soft-kmeans", "sala", "tadam")
every_refining = pytest.mark.parametrize("name", REFINING)
SCALE = 2.5  # of TADAM's metric
RADIUS = 5.0  # of the distractor cluster
Twin = Callable[[list[Vector], list[int], list[Vector], list[Vector]], list[Vector]]


def prepared(name: str, n_steps: int, d: int = 6) -> Method:
    """With parameters that make each part count."""
    options: dict[str, object] = {"distractor_radius": RADIUS} if name == "soft-kmeans-cluster" else {}
    method = on_features(name, d, n_refinement_steps=n_steps, **options)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        if name == "masked-soft-kmeans":
            for parameter in method.border.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        if name == "tadam":
            method.log_scale.fill_(torch.tensor(SCALE, dtype=torch.float64).log())
    method.selection_share = 0.5
    return method


def metric_of(method: Method, task: Task) -> list[Vector]:
    prototypes = class_means(task.support, task.labels, task.n_way)
    weights: list[Vector] = method.metric(prototypes).tolist()
    return weights


def parameters_of(network: torch.nn.Sequential) -> list[list]:  # type: ignore[type-arg]
    return [part.tolist() for part in (network[0].weight, network[0].bias, network[2].weight, network[2].bias)]


def twin_of(name: str, method: Method, task: Task, n_steps: int) -> Twin:
    """The method's logits by loops. The weights a of SALA are held: they are a part that is tested alone."""

    def refined(support: list[Vector], labels: list[int], unlabeled: list[Vector], query: list[Vector]) -> list[Vector]:
        steps = partial(reference.prototypes_of_steps, support, labels, unlabeled, task.n_way, n_steps)
        if name == "sala":
            a = metric_of(method, task)
            n = len(unlabeled) // 2
            return reference.logits(query, steps(lambda p: reference.soft_weights(unlabeled, p, a, n)), a)
        if name == "tadam":
            a = [[SCALE] * len(support[0])] * task.n_way
            return reference.logits(query, steps(lambda p: reference.soft_weights(unlabeled, p, a)), a)
        if name == "masked-soft-kmeans":
            border = parameters_of(method.border)
            return reference.logits(query, steps(lambda p: reference.masked_weights(unlabeled, p, *border)))
        return reference.logits(query, steps(lambda p: reference.soft_weights(unlabeled, p)))

    def clustered(*parts: list) -> list[Vector]:  # type: ignore[type-arg]
        return reference.cluster_logits(*parts, task.n_way, RADIUS, True, n_steps)

    return clustered if name == "soft-kmeans-cluster" else refined


@every_refining
@pytest.mark.parametrize("n_steps", [1, 2, 3])
def test_each_step_starts_from_the_prototypes_before_it(name: str, n_steps: int) -> None:
    task, method = random_task(shots=(1, 2, 3), n_unlabeled=8), prepared(name, n_steps)
    slow = twin_of(name, method, task, n_steps)(*lists(task))
    assert_close(method.logits(task), as_tensor(slow), rtol=1e-6, atol=1e-6)  # a radius is kept in float32


@every_refining
def test_the_second_step_moves_what_the_first_left(name: str) -> None:
    task = random_task(n_unlabeled=8)
    one, two = (prepared(name, n).logits(task) for n in (1, 2))
    assert not torch.allclose(one, two)


@every_refining
def test_one_step_is_the_default_to_the_last_bit(name: str) -> None:
    task = random_task(n_unlabeled=8, dtype=torch.float32)
    plain, one = (on_features(name, dtype=torch.float32, **options) for options in ({}, {"n_refinement_steps": 1}))
    assert torch.equal(plain.logits(task), one.logits(task))


def test_one_step_is_class_means_assignments_and_a_refinement() -> None:
    task = random_task(dtype=torch.float32)
    prototypes = class_means(task.support, task.labels, task.n_way)
    weights = (-squared_distances(task.unlabeled, prototypes)).softmax(-1)
    expected = -squared_distances(task.query, refine(task, weights))
    for name in ("soft-kmeans", "semi-inference", "tadam"):
        assert torch.equal(on_features(name, dtype=torch.float32).logits(task), expected)


def log_likelihood(logits: list[Vector]) -> float:
    """Of class 0, for every query."""
    return sum(row[0] - reference.log_sum_exp(row) for row in logits)


@pytest.mark.parametrize("name", ["sala", "tadam", "soft-kmeans-cluster", "masked-soft-kmeans"])
def test_gradients_of_three_steps_are_those_of_the_loops(name: str) -> None:
    """Of all embeddings. What is held constant in the method is constant in the loops: SALA's metric is constant, and the
    border of Masked does not look at the statistics."""
    task = random_task(n_way=2, n_unlabeled=6, n_query=2, d=3)
    method = prepared(name, 3, d=3)
    with torch.no_grad():
        if name == "masked-soft-kmeans":
            method.border[0].weight.zero_()
        if name == "sala":
            method.metric.reduce.weight.zero_()
    slow, parts = twin_of(name, method, task, 3), lists(task)
    fast = [part.clone().requires_grad_() for part in (task.support, task.unlabeled, task.query)]
    logits = with_gradients(method).logits(Task(fast[0], task.labels, fast[1], fast[2], 2))
    logits.log_softmax(-1)[:, 0].sum().backward()
    for place, embeddings in zip((0, 2, 3), fast, strict=True):

        def at(x: list[Vector], place: int = place) -> float:
            return log_likelihood(slow(*(x if i == place else part for i, part in enumerate(parts))))

        expected = as_tensor(reference.numeric_gradient(at, parts[place]))
        assert_close(embeddings.grad, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["soft-kmeans", "semi-inference"])
def test_gradients_stop_at_the_assignments_of_every_step(name: str) -> None:
    """Only the last step's means carry a gradient: as if its assignments, by loops, were given."""
    task, method = random_task(n_unlabeled=6), with_gradients(on_features(name, n_refinement_steps=3))
    support, labels, unlabeled, _ = lists(task)
    before = reference.prototypes_of_steps(
        support, labels, unlabeled, 3, 2, lambda p: reference.soft_weights(unlabeled, p)
    )
    given = as_tensor(reference.soft_weights(unlabeled, before))
    gradients = []
    for logits_of in (method.logits, lambda t: -squared_distances(t.query, refine(t, given))):
        parts = [part.clone().requires_grad_() for part in (task.support, task.unlabeled, task.query)]
        logits_of(Task(parts[0], task.labels, parts[1], parts[2], 3)).logsumexp(-1).sum().backward()
        gradients.append([part.grad for part in parts])
    assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize(
    ("name", "options"),
    [("soft-kmeans", {"flow": True}), ("sala", {"recompute": True}), ("tadam", {}), ("soft-kmeans-cluster", {})],
)
def test_gradients_of_two_steps_match_finite_differences(name: str, options: dict[str, object]) -> None:
    """Those of the parameters too."""
    gradients_agree(on_features(name, d=4, n_refinement_steps=2, **options), random_task(d=4))


def test_sala_keeps_the_weights_of_the_initial_prototypes_unless_told_to_recompute_them_for_the_queries() -> None:
    task, method = random_task(n_unlabeled=8), on_features("sala", n_refinement_steps=2, recompute=True)
    a, (support, labels, unlabeled, query) = metric_of(method, task), lists(task)
    refined = reference.prototypes_of_steps(
        support, labels, unlabeled, 3, 2, lambda p: reference.soft_weights(unlabeled, p, a)
    )
    again = method.metric(as_tensor(refined)).tolist()
    assert_close(method.logits(task), as_tensor(reference.logits(query, refined, again)))


def two_clusters() -> Task:
    """Of class 0: -1, four times. Of class 1, whose support is far out at 10: 5.5, three times, and 4.5, which lies nearer
    to the support of class 0."""
    support = torch.tensor([[0.0], [10.0]], dtype=torch.float64)
    unlabeled = torch.tensor([[-1.0]] * 4 + [[5.5]] * 3 + [[4.5]], dtype=torch.float64)
    return Task(support, torch.tensor([0, 1]), unlabeled, torch.tensor([[3.0]], dtype=torch.float64), 2)


def test_the_second_step_takes_the_image_that_the_first_gave_to_the_wrong_class() -> None:
    task = two_clusters()
    given = [on_features("soft-kmeans", d=1, n_refinement_steps=n).pseudo_labels(task) for n in (1, 2)]
    assert [labels.probabilities[-1].argmax().item() for labels in given] == [0, 1]


@pytest.mark.parametrize("name", ["soft-kmeans", "semi-inference", "tadam", "sala"])
def test_many_steps_come_to_rest(name: str) -> None:
    """Class means of what belongs together: (0 - 4) / 5 and (10 + 3 x 5.5 + 4.5) / 5."""
    task = two_clusters()
    options: dict[str, object] = {"metric": False} if name == "sala" else {}
    many, more = (on_features(name, d=1, n_refinement_steps=n, **options).logits(task) for n in (30, 31))
    assert_close(many, more, rtol=1e-12, atol=1e-12)
    assert_close(many, -torch.tensor([[(3 + 0.8) ** 2, (3 - 6.2) ** 2]], dtype=torch.float64), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["soft-kmeans-cluster", "masked-soft-kmeans"])
def test_many_steps_come_to_rest_among_distractors_too(name: str) -> None:
    task = random_task(n_unlabeled=12)
    early, many, more = (on_features(name, n_refinement_steps=n).logits(task) for n in (1, 400, 401))
    assert_close(many, more, rtol=1e-8, atol=1e-8)
    assert not torch.allclose(early, many)


@every_refining
def test_order_and_batches_do_not_matter_with_three_steps(name: str) -> None:
    task, method = random_task(batch=(2,), n_unlabeled=9), prepared(name, 3)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    assert_close(method.logits(replace(task, unlabeled=task.unlabeled[:, order])), method.logits(task))
    second = Task(task.support[1], task.labels[1], task.unlabeled[1], task.query[1], 3)
    assert_close(method.logits(task)[1], method.logits(second))


@every_refining
def test_without_unlabeled_images_further_steps_change_nothing(name: str) -> None:
    task = random_task(n_unlabeled=0)
    assert_close(prepared(name, 3).logits(task), prepared(name, 1).logits(task))


@every_refining
def test_pseudo_labels_are_those_of_the_last_step(name: str) -> None:
    """`answers` and `pseudo_labels` agree, and are not those of the first step."""
    task, method = random_task(shots=1, n_unlabeled=8), prepared(name, 3)
    logits, labels = method.answers(task)
    first = prepared(name, 1).pseudo_labels(task)
    assert labels is not None
    assert first is not None
    assert torch.equal(logits, method.logits(task))
    assert torch.equal(labels.probabilities, method.pseudo_labels(task).probabilities)
    assert not torch.allclose(labels.probabilities, first.probabilities)
    if name in ("soft-kmeans", "semi-inference"):
        slow = reference.prototypes_of_steps(
            *lists(task)[:3], 3, 2, lambda p: reference.soft_weights(task.unlabeled.tolist(), p)
        )
        assert_close(labels.probabilities, as_tensor(reference.soft_weights(task.unlabeled.tolist(), slow)))


def test_no_step_leaves_the_prototypes_alone() -> None:
    task, prototypes = random_task(), torch.randn(3, 6)
    assert refine_steps(task, prototypes, lambda p: p, 0) is prototypes


@every_refining
@pytest.mark.parametrize("n_steps", [0, -1])
def test_fewer_than_one_step_is_refused(name: str, n_steps: int) -> None:
    with pytest.raises(SalaError, match=f"n_refinement_steps must be at least 1; got {n_steps}"):
        on_features(name, n_refinement_steps=n_steps)

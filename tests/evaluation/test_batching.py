"""Methods that are written for one task are measured one task at a time; those that take batches, in batches."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import sala
from sala.data import ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.episodes.task import Task
from sala.evaluation.batching import Answers, answers_of, n_different, takes_batches, task_of
from sala.functional import PseudoLabels, class_means, squared_distances
from sala.methods import METHODS, Method
from sala.nn.backbones import build_backbone
from tests.helpers.tasks import on_features, random_task

SHAPE = EpisodeShape(n_way=5, n_query=4, n_unlabeled=6, n_distractor=3)


class ForOneTask(Method):
    """A Prototypical Network as a newcomer writes it: a batch has its prototypes from the images of all tasks."""

    def logits(self, task: Task) -> Tensor:
        prototypes = [task.support[task.labels == c].mean(0) for c in range(task.n_way)]
        return -torch.cdist(task.query, torch.stack(prototypes))


class Labeling(Method):
    """Class scores for batches, pseudo-labels for one task."""

    def logits(self, task: Task) -> Tensor:
        return -squared_distances(task.query, class_means(task.support, task.labels, task.n_way))

    def pseudo_labels(self, task: Task) -> PseudoLabels:
        prototypes = torch.stack([task.support[task.labels == c].mean(0) for c in range(task.n_way)])
        p = (-torch.cdist(task.unlabeled, prototypes)).softmax(-1)
        return PseudoLabels(p, p.amax(-1) > 0)


class Flat(Method):
    """Fails on a batch."""

    def logits(self, task: Task) -> Tensor:
        n, _ = task.query.shape
        return torch.zeros(n, task.n_way) + torch.arange(task.n_way)


class Dice(Method):
    """Random in evaluation too."""

    def logits(self, task: Task) -> Tensor:
        return torch.rand(*task.query.shape[:-1], task.n_way)


class Right(Labeling):
    """For batches throughout."""

    def pseudo_labels(self, task: Task) -> PseudoLabels:
        distances = squared_distances(task.unlabeled, class_means(task.support, task.labels, task.n_way))
        return PseudoLabels((-distances).softmax(-1), distances.amin(-1) < 1e9)


def build(cls: type[Method]) -> Method:
    torch.manual_seed(0)
    return cls(build_backbone("conv4", (28, 28, 1)))


@pytest.fixture
def sampler(glyphs: ImageStore) -> EpisodeSampler:
    return EpisodeSampler(glyphs, SHAPE, split="test", seed=3)


def one_by_one(method: Method, sampler: EpisodeSampler, n: int) -> list[float]:
    method.eval()
    return [
        float((method.classify(e.task).argmax(-1) == e.query_labels).double().mean())
        for e in map(sampler.episode, range(n))
    ]


def test_a_method_for_one_task_gets_the_accuracy_of_its_tasks_one_by_one(sampler: EpisodeSampler) -> None:
    method = build(fresh(ForOneTask))
    with pytest.warns(UserWarning, match="one task at a time"):
        result = sala.evaluate(method, sampler, 60)
    assert result.accuracies == pytest.approx(one_by_one(method, sampler, 60))


def fresh(cls: type[Method]) -> type[Method]:
    """A class that no test has been warned of."""
    return type(cls.__name__, (cls,), {})


def test_the_warning_comes_once(sampler: EpisodeSampler) -> None:
    method = build(fresh(ForOneTask))
    with pytest.warns(UserWarning, match="one task at a time"):
        sala.evaluate(method, sampler, 8)
    sala.evaluate(method, sampler, 8)  # a warning would be an error


def test_pseudo_labels_for_one_task_are_found_out_too(sampler: EpisodeSampler) -> None:
    method = build(fresh(Labeling))
    with pytest.warns(UserWarning, match="one task at a time"):
        result = sala.evaluate(method, sampler, 20)
    assert result.pseudo_labels == pytest.approx(sala.evaluate(build(Right), sampler, 20).pseudo_labels)


@pytest.mark.parametrize(("cls", "reason"), [(Flat, "fails"), (Dice, "random")])
def test_other_reasons_to_go_one_by_one_are_named(cls: type[Method], reason: str, sampler: EpisodeSampler) -> None:
    with pytest.warns(UserWarning, match=reason):
        assert len(sala.evaluate(build(fresh(cls)), sampler, 7).accuracies) == 7


def test_the_comparison_does_not_move_the_random_numbers() -> None:
    method = build(fresh(Dice)).eval()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with pytest.warns(UserWarning, match="random"):
        takes_batches(method, random_task(batch=(4,), d=64, dtype=torch.float32))
    assert torch.equal(torch.rand(3), expected)


def test_who_says_that_a_method_is_for_one_task_is_not_warned(sampler: EpisodeSampler) -> None:
    class Declared(ForOneTask):
        batched = False

    method = build(Declared)
    assert sala.evaluate(method, sampler, 12).accuracies == pytest.approx(one_by_one(method, sampler, 12))


def test_what_is_declared_is_not_inherited() -> None:
    """A subclass of a method for batches may be one for single tasks."""

    class Own(METHODS["protonet"]):  # type: ignore[misc, valid-type]
        logits = ForOneTask.logits

    assert METHODS["protonet"].batched is True
    assert Own.batched is None


def test_one_episode_is_measured_as_it_is(sampler: EpisodeSampler) -> None:
    """A batch of one task has no other's images in it."""
    method = build(fresh(ForOneTask))
    assert sala.evaluate(method, sampler, 1).accuracies == pytest.approx(one_by_one(method, sampler, 1))


def test_a_method_that_takes_batches_is_given_them(sampler: EpisodeSampler, monkeypatch: pytest.MonkeyPatch) -> None:
    method, sizes = build(Right), []
    logits = Right.logits
    monkeypatch.setattr(Right, "logits", lambda self, task: sizes.append(len(task.query)) or logits(self, task))
    sala.evaluate(method, sampler, 60)
    assert sizes[-2:] == [50, 10]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("n_unlabeled", [0, 8])
def test_every_built_in_method_takes_batches_as_it_says(name: str, n_unlabeled: int) -> None:
    method = on_features(name, dtype=torch.float32)
    assert method.batched
    with torch.inference_mode():
        assert takes_batches(method, random_task(batch=(5,), n_unlabeled=n_unlabeled, dtype=torch.float32))


def test_a_method_that_embeds_task_by_task_meets_single_tasks(sampler: EpisodeSampler) -> None:
    class Centered(ForOneTask):
        """Embeddings minus the mean of the task's support; both functions are for one task."""

        embeds_per_task = True

        def embed(self, task: Task) -> Task:
            task = super().embed(task)
            mean = task.support.mean(0)
            parts = (task.support - mean, task.labels, task.unlabeled - mean, task.query - mean)
            return Task(*parts, task.n_way)

    method = build(Centered)
    assert sala.evaluate(method, sampler, 6).accuracies == pytest.approx(one_by_one(method, sampler, 6))


def test_rounding_and_ties_are_no_difference() -> None:
    method, tasks = on_features("soft-kmeans", dtype=torch.float32), random_task(batch=(5,), dtype=torch.float32)
    alone = [answers_of(method, task_of(tasks, i)) for i in range(5)]
    rounded = [Answers(a.logits * (1 + 1e-6) + 1e-6, a.labels) for a in alone]
    assert n_different(alone, rounded) == 0
    assert n_different(alone, [Answers(a.logits.roll(1, 0), a.labels) for a in alone]) == 5


def test_a_store_of_other_images_is_refused(glyphs: ImageStore, sampler: EpisodeSampler) -> None:
    method = sala.build_method("protonet", build_backbone("conv4", (32, 32, 1)))
    with pytest.raises(sala.SalaError, match=r"takes images .* \[32, 32, 1\].* \[28, 28, 1\]"):
        sala.evaluate(method, sampler, 2)

"""A task is checked where it enters a method: each mistake is one sentence, and right tasks pass untouched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import sala
from sala.episodes.task import Task
from sala.errors import SalaError
from sala.methods import METHODS, Method, build_method
from sala.nn.backbones import build_backbone
from tests.helpers.tasks import images_task, on_features, random_task


@pytest.fixture
def method() -> Method:
    torch.manual_seed(0)
    return build_method("sala", build_backbone("conv4", (28, 28, 1))).eval()


def changed(change: Callable[[Tensor], object]) -> Task:
    """A task of images, each part changed."""
    task, _ = images_task()
    return replace(task, **{name: change(getattr(task, name)) for name in ("support", "unlabeled", "query")})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x.float(), "in \\[0, 1\\].*255"),
        (lambda x: x.float() / 127.5 - 1, "in \\[0, 1\\].*normalization"),
        (lambda x: x.float() * float("nan"), "nan"),
        (lambda x: x.double() / 255, "float64"),
        (lambda x: x.long(), "int64"),
        (lambda x: x.permute(0, 2, 3, 1), "permute"),
        (lambda x: x[:, 0], "channel"),
        (lambda x: x.expand(-1, 3, -1, -1), "gray"),
        (lambda x: x[..., :20, :20], "resize"),
        (lambda x: x.numpy(), "make_task"),
        (lambda x: x[:, 0, :4, 0] / 255, "logits"),
    ],
)
def test_images_that_do_not_fit_are_named_with_the_repair(
    change: Callable[[Tensor], object], words: str, method: Method
) -> None:
    task = changed(change)
    with pytest.raises(SalaError, match=words):
        method.classify(task)
    with pytest.raises(SalaError, match=words):
        method.train().loss(task, images_task()[1])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": torch.tensor([1, 2, 3])}, "0 to n_way - 1 = 2.* 1, 2, 3"),
        ({"labels": torch.tensor([0, 0, 2])}, "each with at least one support image.* 0, 2"),
        ({"labels": torch.tensor([0.0, 1.0, 2.0])}, "int64"),
        ({"labels": [0, 1, 2]}, "list"),
        ({"labels": torch.tensor([0, 1, 2, 0])}, "one label per support image"),
        ({"n_way": 5}, "n_way"),
        ({"n_way": 0}, "n_way"),
        ({"query": torch.zeros(1, 28, 28, dtype=torch.uint8)}, "query.*one shape|one shape.*query"),
        ({"query": torch.zeros(2, 1, 28, 28)}, "one dtype"),
        ({"unlabeled": torch.zeros(2, 1, 32, 32, dtype=torch.uint8)}, "one shape.*unlabeled"),
    ],
)
def test_labels_and_shapes_that_do_not_fit_are_named(change: dict[str, object], words: str, method: Method) -> None:
    task, _ = images_task()
    with pytest.raises(SalaError, match=words):
        method.classify(replace(task, **change))  # type: ignore[arg-type]


def test_what_is_no_task_is_refused(method: Method) -> None:
    for function in (method.classify, method.logits, method.pseudo_labels, method.embed):
        with pytest.raises(SalaError, match="expected a Task, got Tensor"):
            function(torch.zeros(5, 1, 28, 28))


@pytest.mark.parametrize("name", METHODS)
def test_images_given_to_logits_are_sent_to_classify(name: str) -> None:
    method = build_method(name, build_backbone("conv4", (28, 28, 1))).eval()
    for task in (images_task()[0], changed(lambda x: x.float() / 255)):
        with pytest.raises(SalaError, match="classify"):
            method.logits(task)


@pytest.mark.parametrize("name", METHODS)
def test_features_that_are_no_numbers_are_refused(name: str) -> None:
    task = random_task()
    task.unlabeled[2, 3] = float("nan")
    with pytest.raises(SalaError, match="unlabeled has NaN"):
        on_features(name).logits(task)


def test_features_of_another_width_are_refused() -> None:
    with pytest.raises(SalaError, match=r"width 6.* \[5\]"):
        on_features("sala").logits(random_task(d=5))


def test_ready_made_features_are_classified_as_they_are() -> None:
    task, method = random_task(), on_features("sala")
    assert torch.equal(method.classify(task), method.logits(task))
    with pytest.raises(SalaError, match="width 6"):
        method.classify(random_task(d=5))


@pytest.mark.parametrize(
    "labels", [torch.zeros(5, dtype=torch.int64), torch.full((6,), 3), torch.zeros(6), [0, 1, 2, 0, 1, 2]]
)
def test_a_loss_needs_a_label_per_query(labels: Tensor, method: Method) -> None:
    task, _ = images_task()
    with pytest.raises(SalaError, match="query labels"):
        method.train().loss(task, labels)


@pytest.mark.parametrize("name", METHODS)
def test_answers_in_evaluation_carry_no_gradient_and_those_in_training_do(name: str) -> None:
    torch.manual_seed(0)
    method = build_method(name, build_backbone("conv4", (28, 28, 1))).eval()
    task, labels = images_task()
    embedded = method.embed(task)
    assert not method.classify(task).requires_grad
    assert not method.logits(embedded).requires_grad
    pseudo_labels = method.pseudo_labels(embedded)
    assert pseudo_labels is None or not pseudo_labels.probabilities.requires_grad
    assert method.loss(task, labels, method.players[0]).requires_grad
    assert method.train().classify(task).requires_grad


def test_a_method_of_ones_own_is_guarded_too() -> None:
    class Own(Method):
        def logits(self, task: Task) -> Tensor:
            return self.scale * task.query[..., : task.n_way]

    class Mixin:
        def logits(self, task: Task) -> Tensor:
            return self.scale * task.query[..., : task.n_way]  # type: ignore[attr-defined, no-any-return]

    class Mixed(Mixin, Method):
        pass

    for cls in (Own, Mixed):
        method = cls(sala.Identity(6)).eval()
        method.scale = torch.nn.Parameter(torch.ones(()))
        assert not method.logits(random_task(dtype=torch.float32)).requires_grad
        with pytest.raises(SalaError, match="n_way"):
            method.logits(replace(random_task(dtype=torch.float32), n_way=9))


def test_a_method_that_embeds_in_its_own_way_decides_about_its_images() -> None:
    class Means(Method):
        def embed_images(self, images: Tensor) -> Tensor:
            return images.float().mean((-2, -1))

        def logits(self, task: Task) -> Tensor:
            return -(task.query - task.support.transpose(-2, -1)).abs()

    method = Means(build_backbone("conv4", (28, 28, 1))).eval()
    small = changed(lambda x: x[..., :9, :9])
    assert method.classify(small).shape == (6, 3)


def test_functions_of_a_method_may_have_further_arguments() -> None:
    class Own(Method):
        def logits(self, task: Task, temperature: float = 1.0) -> Tensor:
            return task.query[..., : task.n_way] / temperature

    method, task = Own(sala.Identity(6)).eval(), random_task()
    assert torch.equal(method.logits(task, temperature=2.0), method.logits(task) / 2)


def test_a_method_without_logits_is_told_what_to_write() -> None:
    class Nothing(Method):
        pass

    with pytest.raises(SalaError, match=r"Nothing .*logits"):
        Nothing(sala.Identity(6)).logits(random_task())

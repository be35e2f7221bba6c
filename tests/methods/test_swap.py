"""The option `swap`: a second loss with support and queries exchanged, from the same embeddings."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from sala.errors import SalaError
from sala.functional import swapped
from sala.methods import build_method
from sala.methods.base import cross_entropy
from sala.nn.backbones import build_backbone
from tests.helpers import reference
from tests.helpers.tasks import images_task, lists, on_features, random_task, with_gradients

SWAPPING = (
    "protonet", "semi-inference", "soft-kmeans", "soft-kmeans-cluster", "masked-soft-kmeans", "sala", "tadam"
)  # fmt: skip
every_swapping = pytest.mark.parametrize("name", SWAPPING)
LABELS = torch.arange(9) % 3  # as the queries of random_task are drawn


@pytest.mark.parametrize("name", ["protonet", "soft-kmeans"])
def test_the_loss_is_the_mean_of_both_by_loops(name: str) -> None:
    task, method = random_task(shots=2, n_query=9), on_features(name, swap=True)
    support, labels, unlabeled, query = lists(task)
    both = ((support, labels, query, LABELS.tolist()), reference.swapped(support, labels, query, LABELS.tolist()))
    losses = []
    for known, known_labels, asked, asked_labels in both:
        prototypes = [reference.class_mean(known, known_labels, c) for c in range(3)]
        if name == "soft-kmeans":
            prototypes = reference.soft_kmeans_prototypes(known, known_labels, unlabeled, 3)
        losses.append(reference.mean_cross_entropy(reference.logits(asked, prototypes), asked_labels))
    assert method.loss(task, LABELS).item() == pytest.approx(sum(losses) / 2, rel=1e-12)


@every_swapping
def test_the_loss_and_its_gradient_are_the_mean_of_two(name: str) -> None:
    task, method = random_task(shots=2, n_query=9), with_gradients(on_features(name, swap=True))
    parts = [part.clone().requires_grad_() for part in (task.support, task.unlabeled, task.query)]
    same = replace(task, support=parts[0], unlabeled=parts[1], query=parts[2])
    other, other_labels = swapped(same, LABELS)
    first, second = cross_entropy(method.logits(same), LABELS), cross_entropy(method.logits(other), other_labels)
    ours, theirs = (
        torch.autograd.grad(loss, parts, materialize_grads=True)
        for loss in (method.loss(same, LABELS), (first + second) / 2)
    )
    assert_close(ours, theirs)
    assert all(bool(gradient.abs().sum() > 0) for gradient in (ours[0], ours[2]))


@every_swapping
def test_without_swap_the_loss_is_that_of_the_queries(name: str) -> None:
    task, method = random_task(shots=2, n_query=9, dtype=torch.float32), on_features(name, dtype=torch.float32)
    expected = cross_entropy(method.logits(task), LABELS)
    assert torch.equal(method.loss(task, LABELS), expected)
    assert not torch.allclose(on_features(name, dtype=torch.float32, swap=True).loss(task, LABELS), expected)


@every_swapping
def test_swap_changes_no_answer(name: str) -> None:
    task = random_task()
    assert torch.equal(on_features(name, swap=True).logits(task), on_features(name).logits(task))


@every_swapping
def test_with_one_query_for_one_shot_it_does_not_matter_which_is_which(name: str) -> None:
    task, method = random_task(shots=1, n_query=3), on_features(name, swap=True)
    other, labels = swapped(task, LABELS[:3])
    assert_close(method.loss(other, labels), method.loss(task, LABELS[:3]))


def test_the_order_within_support_and_queries_does_not_matter_where_all_are_exchanged() -> None:
    task, method = random_task(shots=3, n_query=9), on_features("sala", swap=True)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    shuffled = replace(task, support=task.support[order], labels=task.labels[order], query=task.query[order.flip(0)])
    assert_close(method.loss(shuffled, LABELS[order.flip(0)]), method.loss(task, LABELS))


def test_images_are_embedded_once() -> None:
    torch.manual_seed(0)
    method = build_method("sala", build_backbone("conv4", (28, 28, 1)), {"swap": "true"})
    task, labels = images_task()
    counts: list[int] = []
    method.backbone.register_forward_hook(lambda module, inputs, output: counts.append(len(output)))
    method.loss(task, labels).backward()
    assert counts == [3 + 4 + 6]


def test_fewer_queries_than_shots_are_refused_at_the_first_loss() -> None:
    task, method = random_task(shots=2, n_query=3), on_features("protonet", swap=True)
    with pytest.raises(SalaError, match=r"swap .*queries.*shots.*swap=false"):
        method.loss(task, LABELS[:3])


def test_an_embedding_that_depends_on_the_support_cannot_be_swapped() -> None:
    with pytest.raises(SalaError, match=r"swap .*variant B"):
        build_method("tadam", build_backbone("conv4", (28, 28, 1)), {"variant": "B", "swap": True})

"""FEAT: set-to-set adaptation and the contrastive loss against loops; dropout that a training can repeat."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from sala.data import ImageStore
from sala.errors import SalaError
from sala.functional import attention, class_means
from sala.methods import build_method
from sala.methods.base import cross_entropy, generator_of
from sala.methods.feat import FEAT, dropped
from sala.nn.backbones import build_backbone
from tests.helpers import beyond_reference, reference
from tests.helpers.tasks import as_tensor, gradients_agree, images_task, learns_glyphs, lists, on_features, random_task

LABELS = torch.tensor([0, 1, 2, 0])


def adapted(method: FEAT, x: list[list[float]], attended: list[list[float]] | None = None) -> list[list[float]]:
    parts = method.set_to_set
    layers = (parts.queries, parts.keys, parts.values, parts.out)
    weights = [layer.weight.tolist() for layer in layers]
    return beyond_reference.set_to_set(x, attended or x, *weights, parts.out.bias.tolist(), parts.norm.eps)


def test_prototypes_are_adapted_by_self_attention() -> None:
    task, method = random_task(shots=(1, 2, 3)), on_features("feat", temperature=3.0)
    support, labels, _, query = lists(task)
    prototypes = adapted(method, [reference.class_mean(support, labels, c) for c in range(3)])
    expected = [[value / 3.0 for value in row] for row in reference.logits(query, prototypes)]
    assert_close(method.logits(task), as_tensor(expected))


def test_prototypes_attend_to_unlabeled_images_too() -> None:
    task, method = random_task(shots=(1, 2, 3)), on_features("semi-feat", temperature=3.0)
    support, labels, unlabeled, query = lists(task)
    prototypes = [reference.class_mean(support, labels, c) for c in range(3)]
    scores = reference.logits(query, adapted(method, prototypes, prototypes + unlabeled))
    assert len(unlabeled) > 0
    assert_close(method.logits(task), as_tensor([[value / 3.0 for value in row] for row in scores]))


def test_without_unlabeled_images_the_semi_supervised_form_is_feat() -> None:
    task = random_task().without_unlabeled()
    assert_close(on_features("semi-feat").logits(task), on_features("feat").logits(task))


def test_the_contrastive_loss_adapts_each_class_among_itself() -> None:
    task, method = random_task(shots=(1, 2, 3)), on_features("feat", balance_temperature=5.0)
    support, labels, _, query = lists(task)
    instances, classes = support + query, labels + LABELS.tolist()
    centers = []
    for c in range(3):
        own = adapted(method, [x for x, y in zip(instances, classes, strict=True) if y == c])
        centers.append([sum(column) / len(own) for column in zip(*own, strict=True)])
    scores = [[value / 5.0 for value in row] for row in reference.logits(instances, centers)]
    assert method.contrastive_loss(task, LABELS).item() == pytest.approx(reference.mean_cross_entropy(scores, classes))


def test_the_loss_is_the_cross_entropy_and_the_balanced_contrastive_loss() -> None:
    task, method = random_task(), on_features("feat", balance=0.3)
    parts = cross_entropy(method.logits(task), LABELS), method.contrastive_loss(task, LABELS)
    assert_close(method.loss(task, LABELS), parts[0] + 0.3 * parts[1])
    assert_close(on_features("feat", balance=0.0).loss(task, LABELS), parts[0])


def test_a_set_is_adapted_in_whatever_order() -> None:
    method, x = on_features("feat"), random_task().support
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    assert_close(method.set_to_set(x[order], x[order]), method.set_to_set(x, x)[order])


def test_without_attention_prototypes_are_only_normalized() -> None:
    task, method = random_task(), on_features("feat")
    with torch.no_grad():
        method.set_to_set.out.weight.zero_()
        method.set_to_set.out.bias.zero_()
    prototypes = torch.nn.functional.layer_norm(class_means(task.support, task.labels, 3), (6,))
    assert_close(method.logits(task), -torch.cdist(task.query, prototypes).square() / 64)


def test_attention_among_some_is_attention_over_these_alone() -> None:
    q, k = random_task().query, random_task().support
    among = torch.tensor([[True, True, False, False, True, False]]).expand(4, -1)
    found = attention(q, k, among=among)
    assert_close(found[:, among[0]], attention(q, k[among[0]]))
    assert (found[:, ~among[0]] == 0).all()


@pytest.mark.parametrize("name", ["feat", "semi-feat"])
def test_gradients_match_finite_differences(name: str) -> None:
    gradients_agree(on_features(name, d=3, temperature=2.0), random_task(d=3, n_query=2))


def test_dropout_keeps_the_mean_and_nothing_without_noise() -> None:
    x = torch.ones(100, 100)
    out = dropped(x, 0.25, torch.Generator().manual_seed(0))
    assert out.unique().tolist() == pytest.approx([0, 4 / 3])
    assert out.mean().item() == pytest.approx(1, abs=0.03)
    assert dropped(x, 0.25, None) is x
    assert dropped(x, 0.0, torch.Generator()) is x


def test_dropout_is_a_function_of_the_images_and_acts_in_training_alone() -> None:
    torch.manual_seed(0)
    method = build_method("feat", build_backbone("conv4", (28, 28, 1)), {"balance": 0.0})
    task, labels = images_task()
    assert torch.equal(method.train().loss(task, labels), method.loss(task, labels))
    embedded = method.embed(task)
    with_noise = cross_entropy(method.adapted_logits(embedded, generator_of(task)), labels)
    assert_close(method.loss(task, labels), with_noise)
    assert not torch.allclose(with_noise, cross_entropy(method.adapted_logits(embedded), labels))
    assert_close(method.eval().loss(task, labels), cross_entropy(method.classify(task), labels))


def test_random_numbers_follow_the_images_and_not_their_order() -> None:
    task, other = images_task(seed=0)[0], images_task(seed=1)[0]
    turned = replace(task, support=task.support.flip(0))
    draws = [torch.rand(3, generator=generator_of(t)) for t in (task, turned, other)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("option", [{"temperature": 0.0}, {"balance": -1.0}, {"dropout": 1.0}])
def test_options_that_cannot_be_are_refused(option: dict[str, float]) -> None:
    with pytest.raises(SalaError, match=next(iter(option))):
        on_features("feat", **option)


@pytest.mark.parametrize("name", ["feat", pytest.param("semi-feat", marks=pytest.mark.slow)])
def test_it_learns_letters(name: str, glyphs: ImageStore) -> None:
    learns_glyphs(name, glyphs)

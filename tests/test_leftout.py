"""Labelled images that are left out in turn: against fits that never saw them, and what follows from them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pools import blobs

from sala.engine import EngineConfig, fit_labels
from sala.leftout import LeftOut, evenly, fit_probabilities, folds_of
from sala.linear import RIDGE, linear_classifier
from sala.points import normalised
from sala.sorting import sorted_by


def left_of(similarities: torch.Tensor, labels: torch.Tensor, linear: torch.Tensor | None = None) -> LeftOut:
    linear = torch.zeros_like(similarities) if linear is None else linear
    return LeftOut(labels, similarities, linear, torch.zeros(len(labels)))


def test_the_temperature_is_the_prior_without_evidence_and_follows_it_otherwise() -> None:
    nothing = left_of(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long))
    assert fit_probabilities(nothing, 12.0, 20.0) == (12.0, 0.0)
    similar = torch.tensor([[0.1, 0.0]]).repeat(1000, 1)
    labels = (torch.arange(1000) < 250).long()  # three in four are right: softmax(0.1 beta) = 3/4, beta = 10 log 3
    beta, weight = fit_probabilities(left_of(similar, labels), 8.0, 1e-6)
    assert beta == pytest.approx(10 * math.log(3), rel=0.05) and weight == 0
    assert fit_probabilities(left_of(similar, labels), 8.0, 1e9)[0] == 8.0


def test_a_linear_classifier_counts_where_it_told_left_out_images_and_prototypes_did_not() -> None:
    labels = torch.arange(2).repeat(20)
    says = torch.nn.functional.one_hot(labels, 2).float()
    nothing = 0.01 * torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    assert fit_probabilities(left_of(nothing, labels, says), 10.0, 5.0)[1] >= 0.5
    assert fit_probabilities(left_of(says, labels, nothing), 10.0, 5.0)[1] == 0
    assert fit_probabilities(left_of(says, labels, nothing), 10.0, 5.0, weight=2.0)[1] == 2.0


@pytest.mark.parametrize("d", [3, 64])  # fewer than images, and more: two ways to the same
def test_the_linear_classifier_has_the_least_error_with_its_ridge(d: int) -> None:
    rng = torch.Generator().manual_seed(0)
    labels = torch.tensor([0] * 3 + [1] * 8 + [2] * 2)
    x = torch.randn(13, d, generator=rng)
    found = linear_classifier(x, labels).requires_grad_()
    loss = RIDGE * found.square().sum()
    for i, c in enumerate(labels.tolist()):
        target = torch.tensor([float(c == j) - 1 / 3 for j in range(3)])
        loss = loss + 13 / 3 / int((labels == c).sum()) * (found @ x[i] - target).square().sum()
    loss.backward()
    assert found.grad is not None and float(found.grad.abs().max()) < 1e-3


def test_what_is_said_of_left_out_images_is_what_a_fit_without_them_says() -> None:
    (support, labels), (pool, _) = blobs([2, 3, 1, 6], noise=0.5, seed=1), blobs([30, 20, 10, 5], n_junk=20, noise=0.5)
    fitted = fit_labels(support, labels, pool, config=EngineConfig(linear_weight=2.0))
    model, y, held_out = fitted.model, torch.from_numpy(labels), fitted.held_out
    x, s = (normalised(torch.from_numpy(part), model.centre, model.spread) for part in (pool, support))
    folds = folds_of(s, y)
    assert held_out.labels.tolist() == [0] * 2 + [1] * 3 + [3] * 6
    for row, i in enumerate((folds >= 0).nonzero()[:, 0].tolist()):
        kept = folds != folds[i]
        without = sorted_by(x.clone(), s[kept], y[kept], model.config)
        image = s[i : i + 1].clone()
        assert float(held_out.none_score[row]) == pytest.approx(float(without.known.none_of(image)), abs=1e-4)
        image = without.variation.taken_out_of(image)
        linear = linear_classifier(without.refined.support, y[kept])
        logits = model.inverse_temperature * (without.similarities(image) + 2.0 * image @ linear.T)
        np.testing.assert_allclose(held_out.probabilities[row], logits.softmax(-1)[0].numpy(), atol=1e-4)


def test_each_image_of_a_larger_class_is_left_out_once_and_some_of_its_class_stay() -> None:
    labels = torch.tensor([0] * 12 + [1] + [2] * 2 + [3] * 5)
    points = torch.randn(len(labels), 8, generator=torch.Generator().manual_seed(0))
    folds = folds_of(points, labels)
    assert folds[labels == 1].tolist() == [-1] and (folds[labels != 1] >= 0).all()
    for fold in range(int(folds.max()) + 1):
        assert len(labels[folds != fold].unique()) == 4
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    assert torch.equal(folds_of(points[order], labels[order]), folds[order])  # whichever comes first


def test_the_order_of_labelled_images_does_not_matter() -> None:
    (support, labels), (pool, _) = blobs([3, 6, 4], noise=0.5, seed=1), blobs([30, 20, 10], n_junk=20, noise=0.5)
    order = np.random.default_rng(0).permutation(len(labels))
    one, other = fit_labels(support, labels, pool), fit_labels(support[order], labels[order], pool)
    np.testing.assert_allclose(one.pool.probabilities, other.pool.probabilities, atol=1e-4)
    np.testing.assert_allclose(one.held_out.probabilities[order], other.held_out.probabilities, atol=1e-4)


def test_of_very_many_labelled_images_equally_many_of_each_class_are_left_out() -> None:
    labels = torch.tensor([0] * 50 + [1] * 3 + [2] * 500)
    rows = evenly(labels, 30)
    assert labels[rows].bincount().tolist() == [10, 3, 10] and torch.equal(evenly(labels, 600), torch.arange(553))
    support, y = blobs([700, 700], d=8, noise=0.1)
    fitted = fit_labels(support, y, support[:20])
    assert np.bincount(fitted.held_out.labels).tolist() == [500, 500]
    assert len(fitted.held_out.none_score) == 1_000


def test_left_out_images_are_told_as_well_as_new_ones_and_no_better() -> None:
    """In a small pool of classes that are hard to tell apart, where each labelled image draws some others with it."""
    held, told = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        means = rng.normal(size=(4, 200))
        labels, truth = np.repeat(np.arange(4), 5), np.repeat(np.arange(4), 10)
        support, pool = ((0.25 * means[y] + rng.normal(size=(len(y), 200))).astype(np.float32) for y in (labels, truth))
        fitted = fit_labels(support, labels, pool)
        held.append((fitted.held_out.probabilities.argmax(1) == fitted.held_out.labels).mean())
        told.append((fitted.pool.label == truth).mean())
    assert 0.4 < np.mean(told) < 0.9  # else this says nothing
    assert abs(np.mean(held) - np.mean(told)) < 0.08


def test_a_linear_classifier_tells_classes_that_differ_in_little_of_what_images_show() -> None:
    """A few features tell the classes, many others tell styles, in which images of all classes come together."""
    rng = np.random.default_rng(0)
    styles = 3 * rng.normal(size=(6, 60))

    def drawn(labels: np.ndarray) -> np.ndarray:
        told = np.eye(4)[labels] * 3 + 0.5 * rng.normal(size=(len(labels), 4))
        return np.concatenate([told, styles[rng.integers(6, size=len(labels))]], 1).astype(np.float32)

    labels, truth = np.repeat(np.arange(4), 8), np.repeat(np.arange(4), 40)
    support, pool = drawn(labels), drawn(truth)
    fitted, without = (fit_labels(support, labels, pool, config=EngineConfig(linear_weight=w)) for w in (None, 0.0))
    assert fitted.model.linear.abs().max() > 0 and not without.model.linear.any()
    assert (fitted.pool.label == truth).mean() > (without.pool.label == truth).mean() + 0.05

"""Labelled images that are left out in turn: against fits that never saw them, and what follows from them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pools import blobs

from sala.engine import EngineConfig, fit_labels
from sala.leftout import LeftOut, evenly, fit_probabilities, folds_of, sample_of
from sala.linear import RIDGE, _ridge_regression, linear_classifier
from sala.points import centre_of, normalised, spread_of, unit
from sala.sorting import sorted_by


def left_of(similarities: torch.Tensor, labels: torch.Tensor, linear: torch.Tensor | None = None) -> LeftOut:
    linear = torch.zeros_like(similarities) if linear is None else linear
    return LeftOut(labels, similarities, linear, torch.zeros(len(labels)))


def test_the_temperature_is_the_prior_without_evidence_and_follows_it_otherwise() -> None:
    nothing = left_of(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long))
    assert fit_probabilities(nothing, 12.0, 20.0) == (12.0, 0.0)
    labels, is_right = torch.arange(2).repeat(500), torch.arange(1000) % 8 >= 2
    similar = 0.1 * torch.nn.functional.one_hot(torch.where(is_right, labels, 1 - labels), 2).float()
    # three in four are right: softmax(0.1 beta) = 3/4, beta = 10 log 3
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
    found = _ridge_regression(x, labels, labels.bincount()).requires_grad_()
    loss = RIDGE * found.square().sum()
    for i, c in enumerate(labels.tolist()):
        target = torch.tensor([float(c == j) - 1 / 3 for j in range(3)])
        loss = loss + 13 / 3 / int((labels == c).sum()) * (found @ x[i] - target).square().sum()
    loss.backward()
    assert found.grad is not None and float(found.grad.abs().max()) < 1e-3


def test_a_class_of_few_images_is_told_as_strongly_as_others() -> None:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4, 200))
    labels, truth = torch.tensor([0] + [1] * 4 + [2] * 4 + [3] * 15), np.repeat(np.arange(4), 50)
    points, new = (
        unit(torch.from_numpy(means[y] + 1.5 * rng.normal(size=(len(y), 200))).float()) for y in (labels.numpy(), truth)
    )
    own = (new @ linear_classifier(points, labels).T)[torch.arange(200), torch.from_numpy(truth)].reshape(4, 50).mean(1)
    assert float(own.max() / own.min()) < 1.5
    plain = (new @ _ridge_regression(points, labels, labels.bincount()).T)[torch.arange(200), torch.from_numpy(truth)]
    assert float(plain.reshape(4, 50).mean(1).max() / plain.reshape(4, 50).mean(1).min()) > 1.8


def test_what_is_said_of_left_out_images_is_what_a_fit_without_them_says() -> None:
    (support, labels), (pool, _) = blobs([2, 3, 1, 6], noise=0.5, seed=1), blobs([30, 20, 10, 5], n_junk=20, noise=0.5)
    fitted = fit_labels(support, labels, pool, config=EngineConfig(linear_weight=2.0))
    model, y, held_out = fitted.model, torch.from_numpy(labels), fitted.held_out
    raw, raw_pool = torch.from_numpy(support), torch.from_numpy(pool)
    folds = folds_of(model.variation.taken_out_of(normalised(raw, model.centre, model.spread)), y)
    assert held_out.labels.tolist() == [0] * 2 + [1] * 3 + [3] * 6
    for row, i in enumerate((folds >= 0).nonzero()[:, 0].tolist()):
        kept = folds != folds[i]
        centre = centre_of(raw[kept], y[kept], raw_pool)  # which a left-out image has no part in either
        spread = spread_of([raw[kept], raw_pool], centre)
        x, s, image = (normalised(part, centre, spread) for part in (raw_pool, raw[kept], raw[i : i + 1]))
        without = sorted_by(x, s, y[kept], x[:0], model.config)
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
    points = torch.randn(553, 8, generator=torch.Generator().manual_seed(0))
    rows = evenly(points, labels, 30)
    assert labels[rows].bincount().tolist() == [10, 3, 10]
    assert torch.equal(evenly(points, labels, 600), torch.arange(553))
    order = torch.randperm(553, generator=torch.Generator().manual_seed(1))
    assert set(order[evenly(points[order], labels[order], 30)].tolist()) == set(rows.tolist())  # whichever comes first
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


def test_left_out_images_of_noise_are_told_by_chance_where_classes_have_unequal_numbers() -> None:
    """The centre of features weighs an image of a small class more: it must not know the left-out ones."""
    right, sure = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        labels = np.repeat([0, 1], [3, 20])
        support, pool = (rng.normal(size=(n, 300)).astype(np.float32) for n in (23, 100))
        fitted = fit_labels(support, labels, pool)
        held = fitted.held_out.probabilities.argmax(1) == labels
        right.append((held[labels == 0].mean() + held[labels == 1].mean()) / 2)
        sure.append(fitted.pool.probabilities.max(1).mean())
    assert np.mean(right) < 0.7 and np.mean(sure) < 0.8


def test_classes_with_one_image_are_not_lost_to_those_of_which_some_could_be_left_out() -> None:
    told: dict[float | None, list[float]] = {None: [], 0.0: []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        means = rng.normal(size=(10, 100))
        labels, truth = np.repeat(np.arange(10), [40] + [1] * 9), np.repeat(np.arange(10), 15)
        support, pool = (
            (0.35 * means[y] + 0.5 * rng.normal(size=(len(y), 100))).astype(np.float32) for y in (labels, truth)
        )
        for weight, accuracies in told.items():
            fitted = fit_labels(support, labels, pool, config=EngineConfig(linear_weight=weight))
            accuracies.append((fitted.pool.label == truth).mean())
    assert np.mean(told[None]) > np.mean(told[0.0]) - 0.03


def test_with_many_labelled_images_left_out_ones_are_told_from_all_the_rest() -> None:
    rng = np.random.default_rng(0)
    means = 0.22 * rng.normal(size=(40, 60))
    labels, truth = np.repeat(np.arange(40), 50), np.repeat(np.arange(40), 10)
    support, pool = ((means[y] + 0.6 * rng.normal(size=(len(y), 60))).astype(np.float32) for y in (labels, truth))
    fitted = fit_labels(support, labels, pool)
    held = (fitted.held_out.probabilities.argmax(1) == fitted.held_out.labels).mean()
    assert len(fitted.held_out.labels) == 1_000 and abs(held - (fitted.pool.label == truth).mean()) < 0.08


def test_of_a_large_pool_a_sample_is_sorted_anew() -> None:
    pool = torch.randn(5_000, 4, generator=torch.Generator().manual_seed(0))
    sample, n_folds = sample_of(pool)
    assert torch.equal(sample, pool[::20]) and n_folds == 3
    assert len(sample_of(pool[:999])[0]) == 999 and sample_of(pool[:999])[1] == 5
    folds = folds_of(pool[:12], torch.arange(12) % 2, 3)
    assert folds.bincount().tolist() == [4, 4, 4]

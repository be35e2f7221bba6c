"""Cross-validation of labeled images, against fits that never saw them, and the linear classifier."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sala.classifier.cross_validation import assign_folds, pool_sample, stratified_sample
from sala.classifier.fit import ClassifierConfig, fit_pool
from sala.classifier.linear import RIDGE, _ridge_regression, linear_classifier
from sala.classifier.normalize import center_of, normalized, scale_of
from sala.classifier.pipeline import classify_pool
from sala.functional import unit_length
from tests.helpers.pools import blobs


@pytest.mark.parametrize("d", [3, 64])  # primal and dual form
def test_the_linear_classifier_minimizes_the_ridge_loss(d: int) -> None:
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


def test_a_class_of_few_shots_gets_as_strong_a_response_as_others() -> None:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4, 200))
    labels, truth = torch.tensor([0] + [1] * 4 + [2] * 4 + [3] * 15), np.repeat(np.arange(4), 50)
    embeddings, new = (
        unit_length(torch.from_numpy(means[y] + 1.5 * rng.normal(size=(len(y), 200))).float())
        for y in (labels.numpy(), truth)
    )
    own = (
        (new @ linear_classifier(embeddings, labels).T)[torch.arange(200), torch.from_numpy(truth)]
        .reshape(4, 50)
        .mean(1)
    )
    assert float(own.max() / own.min()) < 1.5
    plain = (new @ _ridge_regression(embeddings, labels, labels.bincount()).T)[
        torch.arange(200), torch.from_numpy(truth)
    ]
    assert float(plain.reshape(4, 50).mean(1).max() / plain.reshape(4, 50).mean(1).min()) > 1.8


def test_held_out_predictions_equal_those_of_a_fit_without_the_image() -> None:
    (support, labels), (pool, _) = (
        blobs([2, 3, 1, 6], noise=0.5, seed=1),
        blobs([30, 20, 10, 5], n_outliers=20, noise=0.5),
    )
    fitted = fit_pool(support, labels, pool, config=ClassifierConfig(linear_weight=2.0))
    model, y, held_out = fitted.model, torch.from_numpy(labels), fitted.held_out
    raw, raw_pool = torch.from_numpy(support), torch.from_numpy(pool)
    folds = assign_folds(model.whitening.apply_(normalized(raw, model.center, model.scale)), y)
    assert held_out.labels.tolist() == [0] * 2 + [1] * 3 + [3] * 6
    for row, i in enumerate((folds >= 0).nonzero()[:, 0].tolist()):
        kept = folds != folds[i]
        center = center_of(raw[kept], y[kept], raw_pool)  # which a held-out image has no part in either
        scale = scale_of([raw[kept], raw_pool], center)
        x, s, image = (normalized(part, center, scale) for part in (raw_pool, raw[kept], raw[i : i + 1]))
        without = classify_pool(x, s, y[kept], x[:0], model.config)
        expected = float(without.outlier_detector.outlier_probability(image))
        assert float(held_out.outlier_probability[row]) == pytest.approx(expected, abs=1e-4)
        image = without.whitening.apply_(image)
        linear = linear_classifier(without.refined.support, y[kept])
        logits = model.inverse_temperature * (without.similarities(image) + 2.0 * image @ linear.T)
        np.testing.assert_allclose(held_out.probabilities[row], logits.softmax(-1)[0].numpy(), atol=1e-4)


def test_each_image_of_a_multi_shot_class_is_held_out_once_and_others_of_its_class_stay() -> None:
    labels = torch.tensor([0] * 12 + [1] + [2] * 2 + [3] * 5)
    embeddings = torch.randn(len(labels), 8, generator=torch.Generator().manual_seed(0))
    folds = assign_folds(embeddings, labels)
    assert folds[labels == 1].tolist() == [-1] and (folds[labels != 1] >= 0).all()
    for fold in range(int(folds.max()) + 1):
        assert len(labels[folds != fold].unique()) == 4
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    assert torch.equal(assign_folds(embeddings[order], labels[order]), folds[order])  # whichever comes first


def test_the_order_of_labeled_images_does_not_matter() -> None:
    (support, labels), (pool, _) = blobs([3, 6, 4], noise=0.5, seed=1), blobs([30, 20, 10], n_outliers=20, noise=0.5)
    order = np.random.default_rng(0).permutation(len(labels))
    one, other = fit_pool(support, labels, pool), fit_pool(support[order], labels[order], pool)
    np.testing.assert_allclose(one.pool.probabilities, other.pool.probabilities, atol=1e-4)
    np.testing.assert_allclose(one.held_out.probabilities[order], other.held_out.probabilities, atol=1e-4)


def test_of_very_many_labeled_images_equally_many_of_each_class_are_held_out() -> None:
    labels = torch.tensor([0] * 50 + [1] * 3 + [2] * 500)
    embeddings = torch.randn(553, 8, generator=torch.Generator().manual_seed(0))
    rows = stratified_sample(embeddings, labels, 30)
    assert labels[rows].bincount().tolist() == [10, 3, 10]
    assert torch.equal(stratified_sample(embeddings, labels, 600), torch.arange(553))
    order = torch.randperm(553, generator=torch.Generator().manual_seed(1))
    assert set(order[stratified_sample(embeddings[order], labels[order], 30)].tolist()) == set(
        rows.tolist()
    )  # whichever comes first
    support, y = blobs([700, 700], d=8, noise=0.1)
    fitted = fit_pool(support, y, support[:20])
    assert np.bincount(fitted.held_out.labels).tolist() == [500, 500]
    assert len(fitted.held_out.outlier_probability) == 1_000


def test_held_out_accuracy_is_that_of_new_images() -> None:
    """In a small pool of similar classes, where each labeled image draws some others with it."""
    held, pooled = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        means = rng.normal(size=(4, 200))
        labels, truth = np.repeat(np.arange(4), 5), np.repeat(np.arange(4), 10)
        support, pool = ((0.25 * means[y] + rng.normal(size=(len(y), 200))).astype(np.float32) for y in (labels, truth))
        fitted = fit_pool(support, labels, pool)
        held.append((fitted.held_out.probabilities.argmax(1) == fitted.held_out.labels).mean())
        pooled.append((fitted.pool.label == truth).mean())
    assert 0.4 < np.mean(pooled) < 0.9  # else the test is empty
    assert abs(np.mean(held) - np.mean(pooled)) < 0.08


def test_a_linear_classifier_helps_where_classes_differ_in_few_features() -> None:
    """A few features depend on the class, many others on a style that images of all classes share."""
    rng = np.random.default_rng(0)
    styles = 3 * rng.normal(size=(6, 60))

    def drawn(labels: np.ndarray) -> np.ndarray:
        by_class = np.eye(4)[labels] * 3 + 0.5 * rng.normal(size=(len(labels), 4))
        return np.concatenate([by_class, styles[rng.integers(6, size=len(labels))]], 1).astype(np.float32)

    labels, truth = np.repeat(np.arange(4), 8), np.repeat(np.arange(4), 40)
    support, pool = drawn(labels), drawn(truth)
    fitted, without = (fit_pool(support, labels, pool, config=ClassifierConfig(linear_weight=w)) for w in (None, 0.0))
    assert fitted.model.linear.abs().max() > 0 and not without.model.linear.any()
    assert (fitted.pool.label == truth).mean() > (without.pool.label == truth).mean() + 0.05


def test_held_out_noise_is_classified_at_chance_where_classes_have_unequal_shots() -> None:
    """The center of features weighs an image of a small class more: it must not depend on held-out ones."""
    right, confidence = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        labels = np.repeat([0, 1], [3, 20])
        support, pool = (rng.normal(size=(n, 300)).astype(np.float32) for n in (23, 100))
        fitted = fit_pool(support, labels, pool)
        held = fitted.held_out.probabilities.argmax(1) == labels
        right.append((held[labels == 0].mean() + held[labels == 1].mean()) / 2)
        confidence.append(fitted.pool.probabilities.max(1).mean())
    assert np.mean(right) < 0.7 and np.mean(confidence) < 0.8


def test_one_shot_classes_do_not_lose_to_multi_shot_ones() -> None:
    found: dict[float | None, list[float]] = {None: [], 0.0: []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        means = rng.normal(size=(10, 100))
        labels, truth = np.repeat(np.arange(10), [40] + [1] * 9), np.repeat(np.arange(10), 15)
        support, pool = (
            (0.35 * means[y] + 0.5 * rng.normal(size=(len(y), 100))).astype(np.float32) for y in (labels, truth)
        )
        for weight, accuracies in found.items():
            fitted = fit_pool(support, labels, pool, config=ClassifierConfig(linear_weight=weight))
            accuracies.append((fitted.pool.label == truth).mean())
    assert np.mean(found[None]) > np.mean(found[0.0]) - 0.03


def test_with_many_labeled_images_held_out_ones_are_classified_by_all_the_rest() -> None:
    rng = np.random.default_rng(0)
    means = 0.22 * rng.normal(size=(40, 60))
    labels, truth = np.repeat(np.arange(40), 50), np.repeat(np.arange(40), 10)
    support, pool = ((means[y] + 0.6 * rng.normal(size=(len(y), 60))).astype(np.float32) for y in (labels, truth))
    fitted = fit_pool(support, labels, pool)
    held = (fitted.held_out.probabilities.argmax(1) == fitted.held_out.labels).mean()
    assert len(fitted.held_out.labels) == 1_000 and abs(held - (fitted.pool.label == truth).mean()) < 0.08


def test_folds_of_a_large_pool_classify_a_sample() -> None:
    pool = torch.randn(5_000, 4, generator=torch.Generator().manual_seed(0))
    sample, n_folds = pool_sample(pool)
    assert torch.equal(sample, pool[::20]) and n_folds == 3
    assert len(pool_sample(pool[:999])[0]) == 999 and pool_sample(pool[:999])[1] == 5
    folds = assign_folds(pool[:12], torch.arange(12) % 2, 3)
    assert folds.bincount().tolist() == [4, 4, 4]

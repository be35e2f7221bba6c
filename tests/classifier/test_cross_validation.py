"""Cross-validation of labeled images, against fits that never saw them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sala.classifier import coefficients
from sala.classifier.calibration import outlier_log_odds
from sala.classifier.cross_validation import assign_folds, sample_step, stratified_sample
from sala.classifier.fit import fit_pool
from sala.classifier.normalize import center_of, normalized, scale_of
from sala.classifier.pipeline import classify_pool, outlier_evidence
from tests.helpers.pools import blobs, directions


def test_held_out_predictions_equal_those_of_a_fit_without_the_image() -> None:
    (support, labels), (pool, _) = (
        blobs([2, 3, 1, 6], noise=0.5, seed=1),
        blobs([30, 20, 10, 5], n_outliers=20, noise=0.5),
    )
    known = pool[-3:]
    fitted = fit_pool(support, labels, pool, outliers=known)
    model, y, held_out = fitted.model, torch.from_numpy(labels), fitted.held_out
    raw, raw_pool, raw_known = (torch.from_numpy(part) for part in (support, pool, known))
    folds = assign_folds(normalized(raw, model.center, model.scale), y)
    assert held_out.labels.tolist() == [0] * 2 + [1] * 3 + [3] * 6
    for row, i in enumerate((folds >= 0).nonzero()[:, 0].tolist()):
        kept = folds != folds[i]
        center = center_of(raw[kept], y[kept], raw_pool)  # which a held-out image has no part in either
        scale = scale_of([raw[kept], raw_pool], center)
        x, s, k, image = (normalized(part, center, scale) for part in (raw_pool, raw[kept], raw_known, raw[i : i + 1]))
        without = classify_pool(x, s, y[kept], k, model.config)
        image = without.whitening.apply_(image)
        score = outlier_evidence(without.mixture, without.neighborhood, image)
        p = (model.inverse_temperature * without.mixture.logits(image)).softmax(-1)
        expected = float(outlier_log_odds(model.mixture, score, p).sigmoid())
        assert float(held_out.outlier_probability[row]) == pytest.approx(expected, abs=1e-4)
        np.testing.assert_allclose(held_out.probabilities[row], p[0].numpy(), atol=1e-4)


def test_a_held_out_prediction_does_not_depend_on_the_held_out_image_but_through_itself() -> None:
    """Moved far from its class, an image is held out as wrong; were it trained on, it would draw its class along."""
    (support, labels), (pool, _) = blobs([4, 4, 4], seed=1), blobs([30, 30, 30])
    support[0] = directions(64)[1]
    held_out = fit_pool(support, labels, pool).held_out
    assert held_out.probabilities[0].argmax() == 1 and held_out.probabilities[0, 0] < 0.2
    assert (held_out.probabilities[1:].argmax(1) == held_out.labels[1:]).all()


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


def test_a_linear_classifier_helps_where_classes_differ_in_few_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few features depend on the class, many others on a style that images of all classes share."""
    rng = np.random.default_rng(0)
    styles = 3 * rng.normal(size=(6, 60))

    def drawn(labels: np.ndarray) -> np.ndarray:
        by_class = np.eye(4)[labels] * 3 + 0.5 * rng.normal(size=(len(labels), 4))
        return np.concatenate([by_class, styles[rng.integers(6, size=len(labels))]], 1).astype(np.float32)

    labels, truth = np.repeat(np.arange(4), 8), np.repeat(np.arange(4), 40)
    support, pool = drawn(labels), drawn(truth)
    fitted = fit_pool(support, labels, pool)
    monkeypatch.setattr(coefficients, "LINEAR_SHARE", 0.0)
    without = fit_pool(support, labels, pool)
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


def test_one_shot_classes_do_not_lose_to_multi_shot_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[float, list[float]] = {coefficients.LINEAR_SHARE: [], 0.0: []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        means = rng.normal(size=(10, 100))
        labels, truth = np.repeat(np.arange(10), [40] + [1] * 9), np.repeat(np.arange(10), 15)
        support, pool = (
            (0.35 * means[y] + 0.5 * rng.normal(size=(len(y), 100))).astype(np.float32) for y in (labels, truth)
        )
        for share, accuracies in found.items():
            monkeypatch.setattr(coefficients, "LINEAR_SHARE", share)
            accuracies.append((fit_pool(support, labels, pool).pool.label == truth).mean())
    with_linear, without = (float(np.mean(accuracies)) for accuracies in found.values())
    assert with_linear > without - 0.03


def test_with_many_labeled_images_held_out_ones_are_classified_by_all_the_rest() -> None:
    rng = np.random.default_rng(0)
    means = 0.22 * rng.normal(size=(40, 60))
    labels, truth = np.repeat(np.arange(40), 50), np.repeat(np.arange(40), 10)
    support, pool = ((means[y] + 0.6 * rng.normal(size=(len(y), 60))).astype(np.float32) for y in (labels, truth))
    fitted = fit_pool(support, labels, pool)
    held = (fitted.held_out.probabilities.argmax(1) == fitted.held_out.labels).mean()
    assert len(fitted.held_out.labels) == 1_000 and abs(held - (fitted.pool.label == truth).mean()) < 0.08


def test_folds_of_a_large_pool_classify_a_sample() -> None:
    assert sample_step(5_000) == 20 and sample_step(1_000) == 4 and sample_step(999) == sample_step(0) == 1
    pool = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    folds = assign_folds(pool, torch.arange(12) % 2, 3)
    assert folds.bincount().tolist() == [4, 4, 4]

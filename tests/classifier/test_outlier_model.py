"""The outlier model, on similarities whose answer one sees and against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sala.classifier.fit import fit_pool
from sala.classifier.outlier_coefficients import FEW_SHOT, ONE_CLASS, ONE_SHOT
from sala.classifier.outlier_model import (
    OutlierModel,
    Similarities,
    add_outlier_prototypes,
    estimate,
    fit_outlier_model,
    fit_to_prototypes,
    outlier_weight_for,
    refined_weight_for,
)
from sala.classifier.outlier_prototypes import outlier_prototypes
from sala.classifier.rejection import rejection_threshold
from sala.functional import unit_length
from tests.helpers.pools import blobs


@pytest.mark.parametrize(
    ("n_way", "held_out", "coefficients"), [(1, None, ONE_CLASS), (7, None, ONE_SHOT), (7, 0.8, FEW_SHOT)]
)
def test_evidence_is_a_quadratic_form(n_way: int, held_out: float | None, coefficients: tuple[float, ...]) -> None:
    pool = OutlierModel(low=0.1, high=0.6, median=0.7, held_out=held_out, n_way=n_way, n_shot=3, outlier_share=0.2)
    for similarity in (0.05, 0.2, 0.4, 0.7):
        v = [1, (similarity - 0.1) / 0.5, 0.6, np.log(n_way), np.log(3), 0.7, held_out or 0]
        terms = v + [v[i] * v[j] for i in range(1, 7) for j in range(i, 7)]
        expected = sum(c * term for c, term in zip(coefficients, terms, strict=True))
        x = torch.tensor(similarity, dtype=torch.float64)
        assert float(pool.evidence(x)) == pytest.approx(expected)
        odds = np.exp(expected) * 0.2 / 0.8
        assert float(pool.inlier_probability(x)) == pytest.approx(1 / (1 + odds))


def test_the_more_similar_the_less_probably_an_outlier() -> None:
    s = torch.linspace(-0.5, 1.5, 400)
    for n_way in (1, 2, 5, 16, 50, 200):
        for n_shot in (1, 2.5, 5, 20):
            for low, high, median in ((0.0, 0.2, 0.1), (0.1, 0.6, 0.7), (0.3, 0.9, 0.9), (0.2, 0.5, -0.3)):
                for held_out in (None, -0.5, 0.5, 1.5):
                    model = OutlierModel(low, high, median, held_out, n_way, n_shot, 0.3)
                    assert model.inlier_probability(s).diff().min() > -1e-6, model


def test_the_outlier_share_is_the_regularized_mean_of_the_outlier_probabilities() -> None:
    torch.manual_seed(0)
    for n_outliers in (0, 40, 200):
        similarity = torch.cat([0.6 + 0.1 * torch.randn(200), 0.15 + 0.07 * torch.randn(n_outliers)])
        second = 0.12 + 0.05 * torch.randn(len(similarity))
        found = estimate(similarity, second, 0.58 + 0.1 * torch.randn(40), n_way=8, n_shot=5)
        p = found.outlier_probability(similarity)
        assert found.outlier_share == pytest.approx((float(p.sum()) + 1) / (len(p) + 10), abs=1e-4)
        assert found.outlier_share == pytest.approx(n_outliers / len(p), abs=0.06)


def test_a_pool_of_one_image_has_the_model_of_an_empty_one() -> None:
    empty = torch.empty(0, 3)
    one, nothing = Similarities(torch.tensor([[0.2, 0.1, 0.0]]), empty), Similarities(empty, empty)
    assert fit_outlier_model(one, one, n_shot=1) == fit_outlier_model(nothing, nothing, n_shot=1)


def test_refined_prototypes_count_less_in_a_pool_of_outliers() -> None:
    torch.manual_seed(0)
    weights = []
    for n_outliers in (0, 50, 400):
        to_first = torch.rand(100 + n_outliers, 6) * 0.2
        to_first[:100, 0] = 0.6 + 0.1 * torch.randn(100)
        to_refined = to_first + 0.1
        first, refined = (Similarities(to, to[:100:4]) for to in (to_first, to_refined))
        found = fit_outlier_model(first, refined, n_shot=5)
        weight = found.refined_weight
        assert weight == refined_weight_for(fit_to_prototypes(first, n_shot=5).outlier_share, 5)
        nothing = torch.empty(len(to_first), 0)
        expected = weight * to_refined.amax(-1) + (1 - weight) * to_first.amax(-1)
        torch.testing.assert_close(found.similarity(to_first, to_refined, nothing), expected)
        weights.append(weight)
    assert weights[0] > 0.9 / 5**0.5 > weights[1] > weights[2] and weights[2] < 0.1


def test_outlier_prototypes_are_the_centers_of_clusters() -> None:
    torch.manual_seed(0)
    means = torch.eye(8)[:5]
    embeddings = unit_length(means.repeat_interleave(40, 0) + 0.05 * torch.randn(200, 8))
    p = torch.where(torch.arange(200) < 80, 0.01, 0.95) + 0.01 * torch.rand(200)  # two of the five are classes
    found = outlier_prototypes(embeddings, p, n=3)
    order = (found @ means.T).argmax(-1)
    assert sorted(order.tolist()) == [2, 3, 4]
    clusters = torch.stack([unit_length(embeddings[40 * i : 40 * (i + 1)].sum(0)) for i in order])
    torch.testing.assert_close(found, clusters, atol=0.02, rtol=0)
    shuffled = torch.randperm(200)
    torch.testing.assert_close(outlier_prototypes(embeddings[shuffled], p[shuffled], n=3), found)
    assert len(outlier_prototypes(embeddings, torch.full((200,), 0.01))) == 0  # too few outliers for a prototype
    assert outlier_prototypes(embeddings[:0], p[:0]).shape == (0, 8)


def test_what_is_near_outlier_prototypes_is_more_probably_an_outlier() -> None:
    torch.manual_seed(0)
    to_first = torch.rand(300, 6) * 0.3
    to_first[:100, 0] = 0.6 + 0.1 * torch.randn(100)
    to_outliers = torch.rand(300, 2) * 0.2
    to_outliers[100:, 1] = 0.6
    first, outliers = Similarities(to_first, to_first[:100:4]), Similarities(to_outliers, to_outliers[:100:4])
    before = fit_outlier_model(first, first, n_shot=5)
    found, nothing = add_outlier_prototypes(before, first, first, outliers), to_outliers[:, :0]
    assert found.refined_weight == before.refined_weight
    assert found.outlier_weight == outlier_weight_for(before.outlier_share, n_way=6)
    similarity = to_first.amax(-1) - found.outlier_weight * to_outliers.amax(-1)
    torch.testing.assert_close(found.similarity(to_first, to_first, to_outliers), similarity)
    alike = to_first[:1].repeat(2, 1)  # two images as near to the classes, one of which is near outliers
    similarity = found.similarity(alike, alike, torch.tensor([[0.1, 0.1], [0.1, 0.6]]))
    far, near = found.outlier_probability(similarity).tolist()
    assert near > far
    without = add_outlier_prototypes(before, first, first, Similarities(nothing, nothing[:100:4]))
    assert replace(without, outlier_weight=0.0) == before


def test_outlier_probabilities_keep_the_order_of_similarities() -> None:
    for n_way, held_out in ((1, None), (5, None), (5, 0.6), (50, 0.2)):
        found = OutlierModel(0.1, 0.6, 0.4, held_out, n_way, 1.0, 0.3)
        similarity = torch.linspace(-1, 1, 2001, dtype=torch.float64)
        assert (found.outlier_probability(similarity).diff() < 0).all()
        torch.testing.assert_close(found.outlier_probability(similarity), 1 - found.inlier_probability(similarity))
    support, labels = blobs([5] * 5, noise=0.2, seed=1)
    pool, _ = blobs([200] * 5, noise=0.2)  # clean: all scores are small
    assert len(np.unique(fit_pool(support, labels, pool).pool.outlier_probability)) > 950


def test_a_model_without_outliers_does_not_keep_its_pool() -> None:
    support, labels = blobs([5] * 5, seed=1)
    prototypes = fit_pool(support, labels, blobs([400] * 5)[0]).model.outlier_detector.outlier_prototypes
    assert prototypes.shape == (0, 64) and prototypes.untyped_storage().nbytes() == 0


def test_classes_of_few_shots_are_not_rejected() -> None:
    pool, truth = blobs([25] * 8, n_outliers=100, noise=0.11)
    support, labels = blobs([1, 10] * 4, noise=0.11, seed=1)
    score = fit_pool(support, labels, pool).pool.outlier_probability
    is_rejected = score > rejection_threshold(score)
    few, many = ((truth >= 0) & (truth % 2 == odd) for odd in (0, 1))
    assert is_rejected[truth < 0].mean() > 0.9
    assert is_rejected[few].mean() < 0.1 and is_rejected[many].mean() < 0.1

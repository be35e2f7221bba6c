"""What tells that an image is of any class at all, on similarities whose answer one sees and against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from pools import blobs

from sala.aside import aside_threshold
from sala.belonging import (
    ONE_CLASS,
    ONE_SHOT,
    SHOTS,
    Belonging,
    Similarities,
    belonging,
    belonging_beside,
    belonging_by,
    fitted_to,
    other_prototypes,
    pulled,
    trusted,
)
from sala.engine import (
    fit_labels,
)
from sala.points import unit


@pytest.mark.parametrize(
    ("n_way", "left_out", "coefficients"), [(1, None, ONE_CLASS), (7, None, ONE_SHOT), (7, 0.8, SHOTS)]
)
def test_evidence_is_a_quadratic_form(n_way: int, left_out: float | None, coefficients: tuple[float, ...]) -> None:
    pool = Belonging(low=0.1, high=0.6, middle=0.7, left_out=left_out, n_way=n_way, n_shot=3, none_share=0.2)
    for similarity in (0.05, 0.2, 0.4, 0.7):
        v = [1, (similarity - 0.1) / 0.5, 0.6, np.log(n_way), np.log(3), 0.7, left_out or 0]
        terms = v + [v[i] * v[j] for i in range(1, 7) for j in range(i, 7)]
        expected = sum(c * term for c, term in zip(coefficients, terms, strict=True))
        x = torch.tensor(similarity, dtype=torch.float64)
        assert float(pool.evidence(x)) == pytest.approx(expected)
        odds = np.exp(expected) * 0.2 / 0.8
        assert float(pool.known(x)) == pytest.approx(1 / (1 + odds))


def test_the_more_similar_the_less_probably_junk() -> None:
    s = torch.linspace(-0.5, 1.5, 400)
    for n_way in (1, 2, 5, 16, 50, 200):
        for n_shot in (1, 2.5, 5, 20):
            for low, high, middle in ((0.0, 0.2, 0.1), (0.1, 0.6, 0.7), (0.3, 0.9, 0.9), (0.2, 0.5, -0.3)):
                for left_out in (None, -0.5, 0.5, 1.5):
                    known = Belonging(low, high, middle, left_out, n_way, n_shot, 0.3).known(s)
                    assert known.diff().min() > -1e-6, (n_way, n_shot, low, high, middle, left_out)


def test_the_share_of_junk_is_the_mean_of_its_probabilities_and_of_the_usual() -> None:
    torch.manual_seed(0)
    for n_junk in (0, 40, 200):
        similarity = torch.cat([0.6 + 0.1 * torch.randn(200), 0.15 + 0.07 * torch.randn(n_junk)])
        second = 0.12 + 0.05 * torch.randn(len(similarity))
        found = fitted_to(similarity, second, 0.58 + 0.1 * torch.randn(40), n_way=8, n_shot=5)
        none = 1 - found.known(similarity)
        assert found.none_share == pytest.approx((float(none.sum()) + 1) / (len(none) + 10), abs=1e-4)
        assert found.none_share == pytest.approx(n_junk / len(none), abs=0.06)


def test_a_pool_of_one_image_says_nothing_of_itself() -> None:
    none = torch.empty(0, 3)
    one, nothing = Similarities(torch.tensor([[0.2, 0.1, 0.0]]), none), Similarities(none, none)
    assert belonging(one, one, n_shot=1) == belonging(nothing, nothing, n_shot=1)


def test_refined_prototypes_are_trusted_less_in_a_pool_of_junk() -> None:
    torch.manual_seed(0)
    trust = []
    for n_junk in (0, 50, 400):
        to_first = torch.rand(100 + n_junk, 6) * 0.2
        to_first[:100, 0] = 0.6 + 0.1 * torch.randn(100)
        to_refined = to_first + 0.1
        first, refined = (Similarities(to, to[:100:4]) for to in (to_first, to_refined))
        found = belonging(first, refined, n_shot=5)
        assert found.trust == trusted(belonging_by(first, n_shot=5).none_share, 5)
        nothing = torch.empty(len(to_first), 0)
        known = found.known(found.trust * to_refined.amax(-1) + (1 - found.trust) * to_first.amax(-1))
        torch.testing.assert_close(1 - found.none_of(to_first, to_refined, nothing), known)
        trust.append(found.trust)
    assert trust[0] > 0.9 / 5**0.5 > trust[1] > trust[2] and trust[2] < 0.1


def test_prototypes_of_junk_are_the_middles_of_its_clusters() -> None:
    torch.manual_seed(0)
    middles = torch.eye(8)[:5]
    points = unit(middles.repeat_interleave(40, 0) + 0.05 * torch.randn(200, 8))
    none = torch.where(torch.arange(200) < 80, 0.01, 0.95) + 0.01 * torch.rand(200)  # two of the five are classes
    found = other_prototypes(points, none, n=3)
    order = (found @ middles.T).argmax(-1)
    assert sorted(order.tolist()) == [2, 3, 4]
    clusters = torch.stack([unit(points[40 * i : 40 * (i + 1)].sum(0)) for i in order])
    torch.testing.assert_close(found, clusters, atol=0.02, rtol=0)
    shuffled = torch.randperm(200)
    torch.testing.assert_close(other_prototypes(points[shuffled], none[shuffled], n=3), found)
    assert len(other_prototypes(points, torch.full((200,), 0.01))) == 0  # too little junk to have a middle
    assert other_prototypes(points[:0], none[:0]).shape == (0, 8)


def test_what_is_near_the_prototypes_of_junk_is_more_surely_junk() -> None:
    torch.manual_seed(0)
    to_first = torch.rand(300, 6) * 0.3
    to_first[:100, 0] = 0.6 + 0.1 * torch.randn(100)
    to_others = torch.rand(300, 2) * 0.2
    to_others[100:, 1] = 0.6
    first, others = Similarities(to_first, to_first[:100:4]), Similarities(to_others, to_others[:100:4])
    before = belonging(first, first, n_shot=5)
    found, nothing = belonging_beside(before, first, first, others), to_others[:, :0]
    assert (found.trust, found.pull) == (before.trust, pulled(before.none_share, n_way=6))
    similarity = to_first.amax(-1) - found.pull * to_others.amax(-1)
    torch.testing.assert_close(found.none_of(to_first, to_first, to_others), found.none(similarity))
    alike = to_first[:1].repeat(2, 1)  # two images as near to the classes, one of which is near junk
    far, near = found.none_of(alike, alike, torch.tensor([[0.1, 0.1], [0.1, 0.6]])).tolist()
    assert near > far
    without = belonging_beside(before, first, first, Similarities(nothing, nothing[:100:4]))
    assert replace(without, pull=0.0) == before


def test_scores_of_none_tell_apart_what_similarities_do() -> None:
    for n_way, left_out in ((1, None), (5, None), (5, 0.6), (50, 0.2)):
        found = Belonging(0.1, 0.6, 0.4, left_out, n_way, 1.0, 0.3)
        similarity = torch.linspace(-1, 1, 2001, dtype=torch.float64)
        assert (found.none(similarity).diff() < 0).all()
        torch.testing.assert_close(found.none(similarity), 1 - found.known(similarity))
    support, labels = blobs([5] * 5, noise=0.2, seed=1)
    pool, _ = blobs([200] * 5, noise=0.2)  # clean: all scores are small
    assert len(np.unique(fit_labels(support, labels, pool).pool.none_score)) > 950


def test_a_model_without_junk_does_not_hold_its_pool() -> None:
    support, labels = blobs([5] * 5, seed=1)
    others = fit_labels(support, labels, blobs([400] * 5)[0]).model.known.others
    assert others.shape == (0, 64) and others.untyped_storage().nbytes() == 0


def test_classes_with_few_labelled_images_are_not_taken_for_junk() -> None:
    pool, truth = blobs([25] * 8, n_junk=100, noise=0.11)
    support, labels = blobs([1, 10] * 4, noise=0.11, seed=1)
    score = fit_labels(support, labels, pool).pool.none_score
    aside = score > aside_threshold(score)
    few, many = ((truth >= 0) & (truth % 2 == odd) for odd in (0, 1))
    assert aside[truth < 0].mean() > 0.9
    assert aside[few].mean() < 0.1 and aside[many].mean() < 0.1

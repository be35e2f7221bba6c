"""Agreement of a pool with itself: labels that hold whichever images of the classes are the labeled ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sala.classifier import agreement
from sala.classifier.agreement import drawn_rows, self_agreement, trust
from sala.classifier.fit import fit_pool
from tests.helpers.pools import blobs


def classified(logits: list[list[float]]) -> Any:
    return SimpleNamespace(posterior=SimpleNamespace(logits=torch.tensor(logits)))


def test_images_are_drawn_from_the_class_that_they_stand_for() -> None:
    """Four images, two certainly of class 0 and two of class 1; three labeled images, of classes 1, 0 and 1."""
    weights = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.9, 0.0], [0.0, 0.4]])
    drawn = drawn_rows(torch.tensor([1, 0, 1]), weights, weights.log())
    assert drawn.shape == (agreement.N_DRAWS, 3)
    assert all(a in (1, 3) and b in (0, 2) and c in (1, 3) for a, b, c in drawn.tolist())


def test_draws_are_at_quantiles_of_the_weights() -> None:
    """Three draws of one image: at 1/6, 1/2 and 5/6 of the weights, the least similar image first."""
    weights = torch.tensor([[2.0], [2.0], [1.0], [2.0]])
    logits = torch.tensor([[0.0], [3.0], [2.0], [1.0]])
    assert drawn_rows(torch.tensor([0]), weights, logits).T.tolist() == [[0, 3, 1]]
    assert drawn_rows(torch.tensor([0]), weights.flip(0), logits.flip(0)).T.tolist() == [[3, 0, 2]]


def test_a_class_that_the_pool_does_not_have_keeps_its_labeled_images() -> None:
    """Two images of the pool are of class 0; of the labeled ones, rows 2 to 4, the last two are of class 1."""
    weights = torch.tensor([[0.9, 0.0], [0.8, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    drawn = drawn_rows(torch.tensor([0, 1, 1]), weights, weights.log())
    assert set(drawn[:, 1:].flatten().tolist()) == {3, 4}


def test_a_pool_of_one_of_many_classes_has_confident_labels() -> None:
    """All are of the first class and clearly so; that it has no other class is no reason for doubt."""
    support, labels = blobs([5] * 6, seed=1, noise=0.2)
    pool, _ = blobs([40, 0, 0, 0, 0, 0], noise=0.2)
    predicted = fit_pool(support, labels, pool).pool
    assert (predicted.label == 0).all()
    assert predicted.probabilities[:, 0].mean() > 0.95


def test_agreement_is_the_share_of_draws_with_the_same_label() -> None:
    answers = iter([[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    now = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])  # of two images, and two labeled ones
    found = self_agreement(lambda _: classified(next(answers)), torch.tensor([0, 1]), torch.ones(4, 2), now)
    assert found.tolist() == pytest.approx([1.0, 2 / 3])


def test_an_empty_pool_is_never_classified() -> None:
    def never(_: torch.Tensor) -> Any:
        raise AssertionError

    assert not len(self_agreement(never, torch.tensor([0]), torch.ones(1, 1), torch.zeros(1, 1)))


def test_an_outlier_counts_half() -> None:
    assert trust(torch.tensor([[0.0, 0.0], [0.6, 0.4]])).tolist() == pytest.approx([0.5, 1.0])


def test_pools_of_clear_classes_have_more_confident_labels_than_others() -> None:
    confidence = []
    for noise in (0.1, 0.4):
        (support, labels), (pool, _) = (blobs([n] * 4, seed=seed, noise=noise) for n, seed in ((1, 1), (30, 0)))
        confidence.append(fit_pool(support, labels, pool).pool.probabilities.max(1).mean())
    assert confidence[0] > confidence[1] + 0.1


def test_the_same_fit_twice_gives_the_same_numbers() -> None:
    (support, labels), (pool, _) = blobs([2, 2, 2], seed=1), blobs([20, 20, 20])
    first, again = (fit_pool(support, labels, pool).pool.probabilities for _ in range(2))
    assert np.array_equal(first, again)

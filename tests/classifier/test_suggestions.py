"""Suggestions: uncertain, diverse, inliers first, whatever the order of the pool, at linear cost."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from sala.classifier.fit import fit_pool
from sala.classifier.suggestions import suggestions
from sala.functional import unit_length
from tests.helpers.pools import blobs, directions

EQUAL = torch.full((24, 2), 0.5)


def random_pool(n: int, d: int = 32, k: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    made = torch.Generator().manual_seed(0)
    embeddings = unit_length(torch.randn(n, d, generator=made))
    return embeddings, torch.randn(n, k, generator=made).softmax(-1), torch.rand(n, generator=made)


def test_the_image_between_two_classes_comes_first() -> None:
    p = torch.tensor([[0.98, 0.01, 0.01], [0.5, 0.5, 0.0], [0.6, 0.2, 0.2]])
    assert suggestions(torch.eye(3), p, torch.ones(3), 3).tolist() == [1, 2, 0]


def test_of_equally_uncertain_images_the_most_typical_comes_first() -> None:
    x = unit_length(torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.4, 0.0], [1.0, 0.0, 0.0], [1.0, -0.5, 0.0]]))
    assert suggestions(x, EQUAL[:4], torch.ones(4), 1).tolist() == [2]


def test_near_copies_are_not_suggested_together() -> None:
    """Four classes: of two, what is between them is the center of the embeddings, and no image."""
    (pool, truth), (support, labels) = blobs([100] * 4), blobs([1] * 4, seed=1)
    between = 0.5 * directions(64)[:2].sum(0).astype(np.float32)
    pool = np.vstack([pool, np.tile(between, (3, 1))])
    first, second = fit_pool(support, labels, pool).pool.suggestions[:2]
    assert first >= len(truth) > second


def test_no_image_is_suggested_twice() -> None:
    embeddings = torch.eye(12).repeat(2, 1)  # each is there twice
    assert sorted(suggestions(embeddings, EQUAL, torch.ones(24), 24).tolist()) == list(range(24))


def test_outliers_come_after_equally_uncertain_inliers() -> None:
    inlier = torch.ones(24)
    inlier[::2] = 0.01
    chosen = suggestions(torch.eye(24), EQUAL, inlier, 24).tolist()
    assert sorted(chosen[:12]) == list(range(1, 24, 2)) and len(chosen) == 24


def test_a_pool_of_outliers_has_suggestions_too() -> None:
    assert len(suggestions(torch.eye(24), EQUAL, torch.zeros(24), 5)) == 5


def test_an_empty_pool_has_no_suggestions() -> None:
    assert suggestions(torch.zeros(0, 8), torch.zeros(0, 3), torch.zeros(0), 5).tolist() == []


def test_zero_suggestions_are_none() -> None:
    assert suggestions(*random_pool(30), 0).tolist() == []


def test_a_single_class_has_suggestions() -> None:
    assert len(suggestions(torch.eye(5), torch.ones(5, 1), torch.ones(5), 3)) == 3


def test_the_order_of_the_pool_does_not_matter() -> None:
    parts = random_pool(1_200)  # more than the sample
    order = torch.randperm(1_200, generator=torch.Generator().manual_seed(1))
    expected, found = suggestions(*parts, 20), suggestions(*(part[order] for part in parts), 20)
    assert order[found].tolist() == expected.tolist()


def test_the_cost_is_linear_in_the_pool() -> None:
    def products(n: int) -> int:
        with FlopCounterMode(display=False) as counter:
            suggestions(*random_pool(n), 10)
        return counter.get_total_flops()

    assert products(80_000) <= 8 * products(10_000)  # eight times the images; quadratic would be 64

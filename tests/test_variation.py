"""What images of a class differ in: against a slow twin, on points whose answer one sees, and on made-up classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference import covariance_around_means

from sala.engine import EngineConfig, fit_labels
from sala.points import unit
from sala.variation import DOUBT, SHARE, SURE, Variation, no_variation, strongest, variation_of


def points_and_weights(n: int = 60, d: int = 24, k: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    scale = torch.logspace(0, -1.5, d, dtype=torch.float64)
    points = unit(torch.randn(n, d, generator=g, dtype=torch.float64) * scale)
    weights = torch.rand(n, k, generator=g, dtype=torch.float64) / k
    return points, torch.cat([weights, torch.zeros(n, 1, dtype=torch.float64)], 1)  # and a class that no image is of


def test_variation_is_that_of_the_formula_written_in_loops() -> None:
    points, weights = points_and_weights()
    found = variation_of(points, weights, none_share=0.3)
    best, counts = weights.argmax(-1).tolist(), [max(row) ** SURE for row in weights.tolist()]
    W = np.array(covariance_around_means(points.tolist(), best, counts, n_way=3))
    m = sum(counts) ** 2 / sum(w * w for w in counts) - 3
    tau = W.trace() * (SHARE + 1 / 24 + DOUBT / m) / 0.7**4
    values, vectors = np.linalg.eigh(W)
    values, vectors = values[::-1][:16], vectors[:, ::-1][:, :16]
    removed = 1 - (1 + values / tau) ** -0.5
    np.testing.assert_allclose(found.removed.numpy(), removed, atol=1e-9)
    expected = (vectors * removed) @ vectors.T
    np.testing.assert_allclose(((found.directions * found.removed) @ found.directions.T).numpy(), expected, atol=1e-9)


def test_the_strongest_directions_are_eigenvectors() -> None:
    rows = torch.randn(200, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows *= torch.logspace(0, -2, 40, dtype=torch.float64)
    directions, strengths = strongest(rows, 5)
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    torch.testing.assert_close(strengths, values.flip(0)[:5], rtol=1e-6, atol=0)
    turns = (directions.T @ vectors.flip(1)[:, :5]).abs()
    torch.testing.assert_close(turns, torch.eye(5, dtype=torch.float64), rtol=0, atol=1e-3)


def test_two_classes_that_differ_upwards_and_vary_sideways() -> None:
    """Both vary from left to right: that is taken out, and what is above remains above."""
    points = unit(torch.tensor([[x, y] for y in (1.0, -1.0) for x in (-1.0, -0.5, 0.5, 1.0)]))
    weights = torch.eye(2).repeat_interleave(4, 0)
    found = variation_of(points, weights, none_share=0.1)
    assert found.directions[:, 0].abs().tolist() == pytest.approx([1.0, 0.0], abs=1e-6)
    turned = found.taken_out_of(torch.tensor([[0.8, 0.6], [0.6, 0.8]]))
    assert (turned[:, 1] > torch.tensor([0.6, 0.8]) + 0.05).all()
    torch.testing.assert_close(turned.square().sum(-1), torch.ones(2))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_nothing_is_taken_out_where_no_class_has_two_images(n: int) -> None:
    found = variation_of(torch.eye(4)[:n], torch.eye(2)[:n], none_share=0.1)
    assert found.directions.shape == (4, 0)
    x = torch.eye(4)
    assert found.taken_out_of(x) is x and x.equal(torch.eye(4))


def test_images_that_are_of_no_class_say_nothing_of_classes() -> None:
    points, weights = points_and_weights()
    both = torch.cat([points, points.flip(1)]), torch.cat([weights, torch.zeros_like(weights)])
    alone, beside = variation_of(points, weights, 0.3), variation_of(*both, 0.3)
    torch.testing.assert_close(alone.removed, beside.removed)
    assert not len(variation_of(points, torch.zeros_like(weights), 0.3).removed)


def test_the_more_junk_the_less_is_taken_out() -> None:
    points, weights = points_and_weights()
    little, much = (variation_of(points, weights, share).removed for share in (0.0, 0.8))
    assert (much < 0.1 * little).all() and little[0] > 0.4


def test_points_at_the_centre_stay_there() -> None:
    x = torch.zeros(2, 3)
    assert Variation(torch.eye(3)[:, :1], torch.ones(1)).taken_out_of(x).equal(torch.zeros(2, 3))
    assert no_variation(x).directions.shape == (3, 0)


def test_what_all_classes_vary_in_does_not_hide_them() -> None:
    """Made-up letters of many hands: how they write is as strong as what."""
    rng = np.random.default_rng(0)
    letters, hands = rng.normal(size=(4, 100)), rng.normal(size=(3, 100))

    def written(labels: np.ndarray) -> np.ndarray:
        how = rng.normal(size=(len(labels), 3)) @ hands
        return (letters[labels] + how + 0.5 * rng.normal(size=(len(labels), 100))).astype(np.float32)

    labels, truth = np.repeat(np.arange(4), 5), np.repeat(np.arange(4), 80)
    support, pool, new = written(labels), written(truth), written(truth)
    fitted, before = (
        fit_labels(support, labels, pool, config=EngineConfig(n_directions=n, linear_weight=0.0)) for n in (16, 0)
    )
    assert (fitted.pool.label == truth).mean() > (before.pool.label == truth).mean() + 0.05
    assert (fitted.model.predict(new).label == truth).mean() > (before.model.predict(new).label == truth).mean() + 0.05
    assert np.array_equal(fitted.pool.none_score, before.pool.none_score)  # which is by points as they are


@pytest.mark.parametrize("n_rows", [30, 90])  # far fewer than columns, and not: two ways to the same
def test_the_strongest_directions_are_those_of_the_covariance(n_rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(n_rows, 100, generator=generator) * torch.linspace(3, 0.1, 100)
    directions, strengths = strongest(rows, 4)
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    torch.testing.assert_close(strengths, values.flip(0)[:4], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close((directions.T @ vectors.flip(1)[:, :4]).abs(), torch.eye(4), rtol=0, atol=0.02)

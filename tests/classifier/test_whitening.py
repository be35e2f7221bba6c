"""Whitening, against a slow twin, on embeddings whose answer one sees, and on made-up classes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sala.classifier.fit import ClassifierConfig, fit_pool
from sala.classifier.whitening import Whitening, fit_whitening, no_whitening, principal_directions
from sala.functional import unit_length
from tests.helpers.reference import covariance_around_means


def some_pool(n: int = 60, d: int = 24, k: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """And a class that no image is of."""
    g = torch.Generator().manual_seed(3)
    scale = torch.logspace(0, -1.5, d, dtype=torch.float64)
    embeddings = unit_length(torch.randn(n, d, generator=g, dtype=torch.float64) * scale)
    weights = torch.rand(n, k, generator=g, dtype=torch.float64) / k
    return embeddings, torch.cat([weights, torch.zeros(n, 1, dtype=torch.float64)], 1)


def test_whitening_equals_the_formula_written_in_loops() -> None:
    pool, weights = some_pool()
    found = fit_whitening(pool, weights, 8)
    best, counts = weights.argmax(-1).tolist(), [max(row) ** 2 for row in weights.tolist()]
    W = np.array(covariance_around_means(pool.tolist(), best, counts, n_way=3))
    m = sum(counts) ** 2 / sum(w * w for w in counts) - 3
    tau = W.trace() * (1 / 24 + 1 / m)
    values, vectors = np.linalg.eigh(W)
    values, vectors = values[::-1][:8], vectors[:, ::-1][:, :8]
    shrinkage = 1 - (1 + values / tau) ** -0.5
    np.testing.assert_allclose(found.shrinkage.numpy(), shrinkage, atol=1e-9)
    expected = (vectors * shrinkage) @ vectors.T
    np.testing.assert_allclose(((found.directions * found.shrinkage) @ found.directions.T).numpy(), expected, atol=1e-8)


def test_two_classes_that_vary_in_one_direction_have_a_closed_form() -> None:
    """Classes up and down of four images each, that vary by x horizontally alone: W = E x^2 = tr(W), m = 8 - 2, and
    tau = tr(W) (1/2 + 1/6). Horizontal parts are divided by sqrt(1 + 3/2), vertical ones stay."""
    pool = torch.tensor([[x, y] for y in (0.8, -0.8) for x in (-0.6, -0.6, 0.6, 0.6)], dtype=torch.float64)
    found = fit_whitening(pool, torch.eye(2, dtype=torch.float64).repeat_interleave(4, 0), 1)
    assert found.directions[:, 0].abs().tolist() == pytest.approx([1.0, 0.0])
    assert found.shrinkage.tolist() == pytest.approx([1 - 1 / math.sqrt(2.5)])
    white = found.apply_(torch.tensor([[0.8, 0.6]], dtype=torch.float64))
    assert white[0].tolist() == pytest.approx(unit_length(torch.tensor([0.8 / math.sqrt(2.5), 0.6])).tolist())


@pytest.mark.parametrize("n", [0, 1, 2])
def test_nothing_is_shrunk_where_no_class_has_two_images(n: int) -> None:
    found = fit_whitening(torch.eye(4)[:n], torch.eye(2)[:n], 8)
    assert found.directions.shape == (4, 0)
    x = torch.eye(4)
    assert found.apply_(x) is x and x.equal(torch.eye(4))


def test_no_directions_turn_whitening_off() -> None:
    assert fit_whitening(*some_pool(), 0).directions.shape == (24, 0)


def test_outliers_do_not_count() -> None:
    pool, weights = some_pool()
    both = torch.cat([pool, pool.flip(1)]), torch.cat([weights, torch.zeros_like(weights)])
    torch.testing.assert_close(fit_whitening(pool, weights, 8).shrinkage, fit_whitening(*both, 8).shrinkage)
    assert not len(fit_whitening(pool, torch.zeros_like(weights), 8).shrinkage)


def test_a_small_pool_shrinks_less_than_a_large_one_of_the_same_covariance() -> None:
    pool, weights = some_pool()
    small = fit_whitening(pool, weights, 8).shrinkage
    large = fit_whitening(pool.repeat(10, 1), weights.repeat(10, 1), 8).shrinkage
    assert (small < large).all() and float(small[0]) < float(large[0]) - 0.02


def test_embeddings_at_the_center_stay_there() -> None:
    x = torch.zeros(2, 3)
    assert Whitening(torch.eye(3)[:, :1], torch.ones(1)).apply_(x).equal(torch.zeros(2, 3))
    assert no_whitening(x).directions.shape == (3, 0)


def test_variance_that_all_classes_share_does_not_hide_them() -> None:
    """Made-up letters in many hands: the handwriting varies as much as the letter."""
    rng = np.random.default_rng(0)
    letters, hands = rng.normal(size=(4, 100)), rng.normal(size=(3, 100))

    def written(labels: np.ndarray) -> np.ndarray:
        how = rng.normal(size=(len(labels), 3)) @ hands
        return (letters[labels] + how + 0.5 * rng.normal(size=(len(labels), 100))).astype(np.float32)

    labels, truth = np.repeat(np.arange(4), 5), np.repeat(np.arange(4), 80)
    support, pool, new = written(labels), written(truth), written(truth)
    fitted, before = (fit_pool(support, labels, pool, config=ClassifierConfig(n_directions=n)) for n in (8, 0))
    assert (fitted.pool.label == truth).mean() > (before.pool.label == truth).mean() + 0.05
    assert (fitted.model.predict(new).label == truth).mean() > (before.model.predict(new).label == truth).mean() + 0.05


@pytest.mark.parametrize(("n_rows", "d"), [(30, 100), (90, 100), (200, 40)])  # in the space of rows, and of columns
def test_the_principal_directions_are_eigenvectors(n_rows: int, d: int) -> None:
    rows = torch.randn(n_rows, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows *= torch.linspace(3, 0.1, d)
    directions, strengths = principal_directions(rows, 4)
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    torch.testing.assert_close(strengths, values.flip(0)[:4], rtol=1e-3, atol=0)
    turns = (directions.T @ vectors.flip(1)[:, :4]).abs()
    torch.testing.assert_close(turns, torch.eye(4, dtype=torch.float64), rtol=0, atol=0.02)
    assert principal_directions(rows, 500)[0].shape == (d, min(n_rows, d))

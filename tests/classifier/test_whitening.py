"""Whitening, against a slow twin, on embeddings whose answer one sees, and on made-up classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sala.classifier.fit import ClassifierConfig, fit_pool
from sala.classifier.whitening import (
    CONFIDENCE_POWER,
    RIDGE_PER_IMAGE,
    RIDGE_SHARE,
    Whitening,
    fit_whitening,
    no_whitening,
    principal_directions,
)
from sala.functional import unit_length
from tests.helpers.reference import covariance_around_means


def some_pool(n: int = 60, d: int = 24, k: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    scale = torch.logspace(0, -1.5, d, dtype=torch.float64)
    embeddings = unit_length(torch.randn(n, d, generator=g, dtype=torch.float64) * scale)
    weights = torch.rand(n, k, generator=g, dtype=torch.float64) / k
    return embeddings, torch.cat(
        [weights, torch.zeros(n, 1, dtype=torch.float64)], 1
    )  # and a class that no image is of


def test_whitening_equals_the_formula_written_in_loops() -> None:
    pool, weights = some_pool()
    found = fit_whitening(pool, weights, outlier_share=0.3)
    best, counts = weights.argmax(-1).tolist(), [max(row) ** CONFIDENCE_POWER for row in weights.tolist()]
    W = np.array(covariance_around_means(pool.tolist(), best, counts, n_way=3))
    m = sum(counts) ** 2 / sum(w * w for w in counts) - 3
    tau = W.trace() * (RIDGE_SHARE + 1 / 24 + RIDGE_PER_IMAGE / m) / 0.7**4
    values, vectors = np.linalg.eigh(W)
    values, vectors = values[::-1][:16], vectors[:, ::-1][:, :16]
    shrinkage = 1 - (1 + values / tau) ** -0.5
    np.testing.assert_allclose(found.shrinkage.numpy(), shrinkage, atol=1e-9)
    expected = (vectors * shrinkage) @ vectors.T
    np.testing.assert_allclose(((found.directions * found.shrinkage) @ found.directions.T).numpy(), expected, atol=1e-9)


def test_the_principal_directions_are_eigenvectors() -> None:
    rows = torch.randn(200, 40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows *= torch.logspace(0, -2, 40, dtype=torch.float64)
    directions, strengths = principal_directions(rows, 5)
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    torch.testing.assert_close(strengths, values.flip(0)[:5], rtol=1e-6, atol=0)
    turns = (directions.T @ vectors.flip(1)[:, :5]).abs()
    torch.testing.assert_close(turns, torch.eye(5, dtype=torch.float64), rtol=0, atol=1e-3)


def test_two_classes_that_differ_vertically_and_vary_horizontally() -> None:
    """Both vary horizontally: that direction is shrunk, and the vertical one stays."""
    pool = unit_length(torch.tensor([[x, y] for y in (1.0, -1.0) for x in (-1.0, -0.5, 0.5, 1.0)]))
    weights = torch.eye(2).repeat_interleave(4, 0)
    found = fit_whitening(pool, weights, outlier_share=0.1)
    assert found.directions[:, 0].abs().tolist() == pytest.approx([1.0, 0.0], abs=1e-6)
    white = found.apply_(torch.tensor([[0.8, 0.6], [0.6, 0.8]]))
    assert (white[:, 1] > torch.tensor([0.6, 0.8]) + 0.05).all()
    torch.testing.assert_close(white.square().sum(-1), torch.ones(2))


@pytest.mark.parametrize("n", [0, 1, 2])
def test_nothing_is_shrunk_where_no_class_has_two_images(n: int) -> None:
    found = fit_whitening(torch.eye(4)[:n], torch.eye(2)[:n], outlier_share=0.1)
    assert found.directions.shape == (4, 0)
    x = torch.eye(4)
    assert found.apply_(x) is x and x.equal(torch.eye(4))


def test_outliers_do_not_count() -> None:
    pool, weights = some_pool()
    both = torch.cat([pool, pool.flip(1)]), torch.cat([weights, torch.zeros_like(weights)])
    alone, beside = fit_whitening(pool, weights, 0.3), fit_whitening(*both, 0.3)
    torch.testing.assert_close(alone.shrinkage, beside.shrinkage)
    assert not len(fit_whitening(pool, torch.zeros_like(weights), 0.3).shrinkage)


def test_the_more_outliers_the_less_is_shrunk() -> None:
    pool, weights = some_pool()
    little, much = (fit_whitening(pool, weights, share).shrinkage for share in (0.0, 0.8))
    assert (much < 0.1 * little).all() and little[0] > 0.4


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
    fitted, before = (
        fit_pool(support, labels, pool, config=ClassifierConfig(n_directions=n, linear_weight=0.0)) for n in (16, 0)
    )
    assert (fitted.pool.label == truth).mean() > (before.pool.label == truth).mean() + 0.05
    assert (fitted.model.predict(new).label == truth).mean() > (before.model.predict(new).label == truth).mean() + 0.05
    # outliers are detected before whitening
    assert np.array_equal(fitted.pool.outlier_probability, before.pool.outlier_probability)


@pytest.mark.parametrize("n_rows", [30, 90])  # in the space of rows, and of columns
def test_the_principal_directions_are_those_of_the_covariance(n_rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(n_rows, 100, generator=generator) * torch.linspace(3, 0.1, 100)
    directions, strengths = principal_directions(rows, 4)
    values, vectors = torch.linalg.eigh(rows.T @ rows)
    torch.testing.assert_close(strengths, values.flip(0)[:4], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close((directions.T @ vectors.flip(1)[:, :4]).abs(), torch.eye(4), rtol=0, atol=0.02)

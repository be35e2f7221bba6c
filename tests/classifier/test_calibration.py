"""Temperature scaling: the prior from a pool, and the fit to held-out labeled images."""

from __future__ import annotations

import math

import pytest
import torch

from sala.classifier.calibration import (
    TYPICAL_DISPERSION,
    TYPICAL_STRENGTH,
    TYPICAL_TOP_SIMILARITY,
    dispersion,
    fit_temperature,
    mean_top_similarity,
    temperature_prior,
)
from sala.classifier.cross_validation import CrossValidated
from sala.classifier.fit import ClassifierConfig, fit_pool
from tests.helpers.pools import blobs

COEFFICIENTS = ClassifierConfig().temperature_prior


def test_mean_top_similarity_weights_images_by_their_inlier_probability() -> None:
    similarities = torch.tensor([[0.8, 0.1], [0.2, 0.6], [0.1, 0.05]])
    typical = TYPICAL_STRENGTH * TYPICAL_TOP_SIMILARITY
    slow = (1.0 * 0.8 + 0.5 * 0.6 + 0.1 * 0.1 + typical) / (1.0 + 0.5 + 0.1 + TYPICAL_STRENGTH)
    assert mean_top_similarity(similarities, torch.tensor([1.0, 0.5, 0.1])) == pytest.approx(slow)
    many = similarities[:2].repeat(100_000, 1)
    assert mean_top_similarity(many, torch.tensor([1.0, 0.5]).repeat(100_000)) == pytest.approx(
        (0.8 + 0.5 * 0.6) / 1.5, rel=1e-3
    )


def test_dispersion_is_the_deviation_between_classes() -> None:
    """Of 0.8 and 0.2 it is 0.3 sqrt 2; outliers do not count."""
    similarities = torch.tensor([[0.8, 0.2], [0.9, -0.9]]).repeat(100_000, 1)
    inlier = torch.tensor([1.0, 0.0]).repeat(100_000)
    assert dispersion(similarities, inlier) == pytest.approx(0.3 * 2**0.5, rel=1e-3)
    assert dispersion(similarities[:0], inlier[:0]) == TYPICAL_DISPERSION
    assert dispersion(torch.ones(3, 1), torch.ones(3)) == pytest.approx(TYPICAL_DISPERSION / 4)


def test_a_tiny_pool_leaves_the_typical_temperature() -> None:
    labeled, labels = blobs([1, 1, 1, 1], seed=1, noise=0.2)
    pool, _ = blobs([1, 0, 0, 0], seed=2, noise=0.2)
    empty, one = (fit_pool(labeled, labels, part).model.inverse_temperature for part in (pool[:0], pool))
    assert empty == pytest.approx(temperature_prior(TYPICAL_TOP_SIMILARITY, TYPICAL_DISPERSION, 4, COEFFICIENTS))
    assert 0.5 * empty < one < 2 * empty


def test_the_temperature_prior_is_its_formula_within_its_range() -> None:
    coefficients = (3.0, 2.0, -1.0, -0.5)
    assert temperature_prior(0.5, 0.25, 4, coefficients) == pytest.approx(math.exp(3.0) * 0.5**2 / 0.25 * 4**-0.5)
    assert temperature_prior(-1.0, 0.25, 4, coefficients) == 3.0
    assert temperature_prior(1.0, 0.25, 2, (9.0, 0.0, 0.0, 0.0)) == 60.0


def held_out_of(similarities: torch.Tensor, labels: torch.Tensor, linear: torch.Tensor | None = None) -> CrossValidated:
    linear = torch.zeros_like(similarities) if linear is None else linear
    return CrossValidated(labels, similarities, linear, torch.zeros(len(labels)), torch.arange(len(labels)))


def test_the_temperature_is_the_prior_without_held_out_images_and_follows_them_otherwise() -> None:
    nothing = held_out_of(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long))
    assert fit_temperature(nothing, 12.0, 20.0) == (12.0, 0.0)
    labels, is_right = torch.arange(2).repeat(500), torch.arange(1000) % 8 >= 2
    similar = 0.1 * torch.nn.functional.one_hot(torch.where(is_right, labels, 1 - labels), 2).float()
    # three in four are right: softmax(0.1 beta) = 3/4, beta = 10 log 3
    beta, weight = fit_temperature(held_out_of(similar, labels), 8.0, 1e-6)
    assert beta == pytest.approx(10 * math.log(3), rel=0.05) and weight == 0
    assert fit_temperature(held_out_of(similar, labels), 8.0, 1e9)[0] == 8.0


def test_a_linear_classifier_counts_where_it_predicts_held_out_images_and_prototypes_do_not() -> None:
    labels = torch.arange(2).repeat(20)
    certain = torch.nn.functional.one_hot(labels, 2).float()
    nothing = 0.01 * torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    assert fit_temperature(held_out_of(nothing, labels, certain), 10.0, 5.0)[1] >= 0.5
    assert fit_temperature(held_out_of(certain, labels, nothing), 10.0, 5.0)[1] == 0
    assert fit_temperature(held_out_of(certain, labels, nothing), 10.0, 5.0, linear_weight=2.0)[1] == 2.0

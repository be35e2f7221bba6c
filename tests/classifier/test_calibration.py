"""Calibration: the temperature's prior and its fit to held-out labeled images, and the log-odds of outliers."""

from __future__ import annotations

import math

import pytest
import torch

from sala.classifier import coefficients
from sala.classifier.calibration import RANGE, fit_temperature, outlier_terms, temperature_prior
from sala.classifier.fit import fit_pool
from tests.helpers.pools import blobs


def test_the_prior_is_exp_of_a_linear_form_within_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coefficients, "TEMPERATURE", (-1.0, 0.5, -0.25))
    assert temperature_prior(12, 3) == pytest.approx(math.exp(-1 + 0.5 * math.log(4) - 0.25 * math.log(3)))
    monkeypatch.setattr(coefficients, "TEMPERATURE", (9.0, 0.0, 0.0))
    assert temperature_prior(1, 1) == RANGE[1]


def test_probabilities_of_one_shot_have_the_temperature_of_the_prior() -> None:
    (support, labels), (pool, _) = blobs([1, 1, 1], seed=1), blobs([20, 20, 20])
    fitted = fit_pool(support, labels, pool)
    assert fitted.model.inverse_temperature == pytest.approx(temperature_prior(3, 3))


def test_more_labeled_images_make_probabilities_sharper() -> None:
    assert temperature_prior(5, 5) < temperature_prior(25, 5)


def held_out(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two classes, three in four images are right: softmax(beta) = 3/4 at beta = log 3."""
    labels, is_right = torch.arange(2).repeat(n // 2), torch.arange(n) % 8 >= 2
    return torch.nn.functional.one_hot(torch.where(is_right, labels, 1 - labels), 2).float(), labels


def test_the_temperature_follows_many_held_out_images() -> None:
    for prior in (0.5, 1.0, 2.0):
        assert fit_temperature(*held_out(1_000), prior, 1e-6) == pytest.approx(math.log(3), rel=0.05)


def test_the_temperature_is_the_prior_where_the_prior_is_strong_or_nothing_is_held_out() -> None:
    assert fit_temperature(*held_out(1_000), 0.4, 1e9) == 0.4
    assert fit_temperature(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long), 0.4, 1.0) == 0.4
    assert fit_temperature(torch.zeros(5, 1), torch.zeros(5, dtype=torch.long), 0.4, 1.0) == 0.4  # one class


def test_the_temperature_minimizes_its_loss_written_in_loops() -> None:
    g = torch.Generator().manual_seed(0)
    labels = torch.tensor([0] * 3 + [1] * 12 + [3] * 5)  # of class 2 nothing is held out
    logits = 3 * torch.randn(20, 4, generator=g) + 2 * torch.nn.functional.one_hot(labels, 4)

    def loss(beta: float) -> float:
        total = 2.0 / 2 * math.log(beta / 0.6) ** 2
        for row, c in zip(logits.tolist(), labels.tolist(), strict=True):
            log_p = beta * row[c] - math.log(sum(math.exp(beta * z) for z in row))
            total -= 20 / (3 * int((labels == c).sum())) * log_p
        return total

    best = min((0.01 * i for i in range(2, 300)), key=loss)
    assert fit_temperature(logits, labels, 0.6, 2.0) == pytest.approx(best, rel=0.05)  # half of a step of its grid


def test_wrong_held_out_images_lower_the_temperature_and_right_ones_raise_it() -> None:
    logits, labels = 5 * torch.eye(2).repeat(50, 1), torch.arange(2).repeat(50)
    assert fit_temperature(logits, 1 - labels, 0.5, 5.0) < 0.1 < 0.5 < fit_temperature(logits, labels, 0.5, 5.0)


def test_log_odds_of_outliers_are_a_linear_form() -> None:
    """Slow twin: one image at a time, by the terms as they are named."""
    made = torch.Generator().manual_seed(0)
    score, p = torch.randn(7, generator=made), torch.randn(7, 3, generator=made).softmax(-1)
    for n_known in (0, 4):
        terms = outlier_terms(score, p, 0.2, n_known)
        for row, s, q in zip(terms.tolist(), score.tolist(), p.tolist(), strict=True):
            m = math.log(1 + n_known)
            assert row == pytest.approx([1, s, math.log(0.2 / 0.8), m, s * m, math.log(1 - max(q))], abs=1e-5)


def test_a_certain_label_leaves_the_log_odds_of_outliers_finite() -> None:
    certain = torch.tensor([[1.0, 0.0]])
    assert outlier_terms(torch.zeros(1), certain, 0.2, 0).isfinite().all()

"""Calibration: the temperature's prior and its fit to held-out labeled images, and the log-odds of outliers."""

from __future__ import annotations

import math

import pytest
import torch

from sala.classifier import calibration, coefficients
from sala.classifier.calibration import (
    expected_accuracy,
    fit_temperature,
    mean_confidence,
    outlier_terms,
    temperature_prior,
)


def two_classes(n: int = 400) -> torch.Tensor:
    g = torch.Generator().manual_seed(0)
    return 8 * torch.randn(n, 2, generator=g, dtype=torch.float64)


def test_the_mean_confidence_at_the_prior_is_the_expected_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coefficients, "ACCURACY", (0.3, 0.8))
    monkeypatch.setattr(calibration, "TYPICAL_IMAGES", 0.0)
    logits, weights = two_classes(), torch.linspace(0.5, 1, 400, dtype=torch.float64)
    total, agreeing = sum(weights.tolist()), sum(w for i, w in enumerate(weights.tolist()) if i % 4)
    odds = math.exp(0.3 + 0.8 * math.log(agreeing / (total - agreeing)))
    beta = temperature_prior(agreeing / total, total, mean_confidence(logits, weights))
    confidence = sum(
        w * max(math.exp(beta * a), math.exp(beta * b)) / (math.exp(beta * a) + math.exp(beta * b))
        for w, (a, b) in zip(weights.tolist(), logits.tolist(), strict=True)
    )
    assert confidence / total == pytest.approx(odds / (1 + odds), abs=2e-3)


def test_a_pool_that_agrees_more_with_itself_has_sharper_probabilities() -> None:
    logits, weights = two_classes(), torch.ones(400, dtype=torch.float64)
    betas = [temperature_prior(share, 400, mean_confidence(logits, weights)) for share in (0.5, 0.8, 0.95)]
    assert betas == sorted(betas) and betas[0] < betas[-1]


def test_the_prior_does_not_depend_on_the_scale_of_the_logits() -> None:
    logits, weights = two_classes(), torch.ones(400, dtype=torch.float64)
    once, twice = (temperature_prior(0.8, 400, mean_confidence(f * logits, weights)) for f in (1, 2))
    assert once == pytest.approx(2 * twice, rel=0.03)


def test_the_prior_is_the_typical_one_where_there_is_no_pool_or_one_class() -> None:
    assert temperature_prior(0.0, 0.0, mean_confidence(torch.zeros(0, 3), torch.zeros(0))) == calibration.TYPICAL
    assert temperature_prior(1.0, 5.0, mean_confidence(torch.zeros(5, 1), torch.ones(5))) == calibration.TYPICAL


@pytest.mark.parametrize("agreement", [0.0, 1.0])
def test_an_expected_accuracy_is_never_certain(agreement: float) -> None:
    assert 0 < expected_accuracy(agreement) < 1


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
    evidence, p = torch.randn(7, 2, generator=made), torch.randn(7, 3, generator=made).softmax(-1)
    for n_known in (0, 4):
        terms = outlier_terms(evidence, p, n_known)
        for row, (e, likeness), q in zip(terms.tolist(), evidence.tolist(), p.tolist(), strict=True):
            m = math.log(1 + n_known)
            assert row == pytest.approx([1, e, likeness, m, e * m, math.log(1 - max(q))], abs=1e-5)


def test_a_certain_label_leaves_the_log_odds_of_outliers_finite() -> None:
    certain = torch.tensor([[1.0, 0.0]])
    assert outlier_terms(torch.zeros(1, 2), certain, 0).isfinite().all()

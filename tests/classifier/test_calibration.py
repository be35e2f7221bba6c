"""Temperature scaling: the statistics of a pool, the prior, and the fit to held-out labeled images."""

from __future__ import annotations

import math

import pytest
import torch

from sala.classifier import coefficients
from sala.classifier.calibration import RANGE, fit_temperature, pool_statistics, temperature_prior
from sala.classifier.config import ClassifierConfig
from sala.classifier.fit import fit_pool
from sala.classifier.pipeline import classify_pool
from sala.functional import unit_length
from tests.helpers.mixture_reference import dot
from tests.helpers.pools import blobs, task


def test_the_statistics_of_a_pool_equal_their_slow_twin() -> None:
    support, labels, pool, _ = task(noise=0.4)
    x, s = (unit_length(torch.from_numpy(part)) for part in (pool, support))
    found = classify_pool(x, s, torch.from_numpy(labels), x[:0], ClassifierConfig())
    directions = [unit_length(s[torch.from_numpy(labels) == c].sum(0)).tolist() for c in range(4)]  # whitened in place
    top = same = n_inliers = 0.0
    for u, w, row in zip(x.tolist(), found.posterior.weights, found.posterior.logits.tolist(), strict=True):
        to_labeled = [dot(u, c) for c in directions]
        top += float(w.sum()) * max(to_labeled)
        same += float(w.sum()) * (row.index(max(row)) == to_labeled.index(max(to_labeled)))
        n_inliers += float(w.sum())
    expected = 1.0, math.log((top + 0.3) / (n_inliers + 1)), math.log(1 + 105 / 4), (same + 0.7) / (n_inliers + 1)
    assert pool_statistics(found) == pytest.approx(expected, rel=1e-4)


def test_an_empty_pool_has_typical_statistics() -> None:
    labeled, labels = blobs([1, 1, 1, 1], seed=1)
    fitted = fit_pool(labeled, labels, labeled[:0])
    assert fitted.statistics == pytest.approx((1.0, math.log(0.3), 0.0, 0.7))
    assert fitted.model.inverse_temperature == pytest.approx(temperature_prior(fitted.statistics))


def test_the_prior_is_exp_of_a_linear_form_within_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coefficients, "TEMPERATURE", (-1.0, 0.5, -0.2, 0.1))
    assert temperature_prior((1.0, -1.0, 2.0, 0.5)) == pytest.approx(math.exp(-1.0 - 0.5 - 0.4 + 0.05))
    assert (temperature_prior((1.0, -99.0, 0.0, 0.0)), temperature_prior((1.0, 99.0, 0.0, 0.0))) == RANGE


def test_probabilities_of_one_shot_have_the_temperature_of_the_prior() -> None:
    (labeled, labels), (pool, _) = blobs([1, 1, 1], seed=1), blobs([30, 20, 10], n_outliers=10)
    fitted = fit_pool(labeled, labels, pool)
    assert fitted.model.inverse_temperature == pytest.approx(temperature_prior(fitted.statistics))


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

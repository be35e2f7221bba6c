"""The mixture model: against slow twins, closed forms and the exact density, and on clusters one sees."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import gammaln, ive
from torch import Tensor

from sala.classifier import mixture as module
from sala.classifier.linear import linear_classifier
from sala.classifier.mixture import (
    Mixture,
    Posterior,
    concentration,
    effective_dimension,
    fit_mixture,
    leave_one_out_similarities,
    log_partition,
    mean_similarity,
)
from sala.functional import unit_length
from tests.helpers import mixture_reference as slow

LABELS = torch.tensor([0, 1, 1, 2])


def random_units(n: int, d: int, seed: int = 0) -> Tensor:
    return unit_length(torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))


def clusters(sizes: list[int], d: int = 12, noise: float = 0.15, seed: int = 0) -> Tensor:
    """Images around the first axes, one cluster after another."""
    at = torch.eye(d, dtype=torch.float64)[: len(sizes)].repeat_interleave(torch.tensor(sizes), 0)
    g = torch.Generator().manual_seed(seed)
    return unit_length(at + noise * torch.randn(len(at), d, generator=g, dtype=torch.float64))


def fitted(
    pool: Tensor, support: Tensor, labels: Tensor = LABELS, known: Tensor | None = None, n_steps: int = 4
) -> Posterior:
    return fit_mixture(pool, support, labels, support[:0] if known is None else known, n_steps=n_steps)


def slow_steps(pool: Tensor, support: Tensor, labels: Tensor, known: Tensor, n_steps: int) -> slow.SlowStep:
    linear = linear_classifier(support, labels).tolist()
    n_way = int(labels.max()) + 1
    weights, share = [[0.0] * n_way for _ in pool], module.chosen.OUTLIER_SHARE
    for step in range(n_steps + 1):
        found = slow.SlowStep(
            pool.tolist(), support.tolist(), labels.tolist(), known.tolist(), linear, weights, share, is_first=step == 0
        )
        found.weights = weights  # type: ignore[attr-defined]
        weights, share = found.next_weights, found.next_share
    return found


@pytest.mark.parametrize("n_known", [0, 3])
@pytest.mark.parametrize("n_steps", [0, 1, 3])
def test_each_step_of_em_equals_its_slow_twin(n_steps: int, n_known: int) -> None:
    pool = torch.cat([clusters([9, 6, 3], noise=0.3), random_units(5, 12, seed=1)])
    pool[4] = 0.0  # an image exactly at the center
    support, known = clusters([1, 2, 1], noise=0.3, seed=2), random_units(n_known, 12, seed=3)
    found = fitted(pool, support, known=known, n_steps=n_steps)
    expected = slow_steps(pool, support, LABELS, known, n_steps)
    m = found.mixture
    numbers = m.concentration, m.dimension, m.similarity, m.outlier_share
    assert numbers == pytest.approx((expected.kappa, expected.dimension, expected.similarity, expected.share))
    for tensor, values in (
        (found.logits, expected.logits),
        (found.evidence, expected.evidence),
        (found.weights, expected.weights),  # type: ignore[attr-defined]
        (found.mixture.log_sizes, expected.log_sizes),
        (found.mixture.prototypes, expected.prototypes),
        (found.mixture.inlier_prototypes, expected.inlier_prototypes),
    ):
        torch.testing.assert_close(tensor, torch.tensor(values, dtype=torch.float64), rtol=1e-6, atol=1e-9)


def test_weights_of_an_earlier_fit_are_taken_up() -> None:
    """Two steps and two more are four."""
    pool, support = torch.cat([clusters([9, 6, 3]), random_units(5, 12, seed=1)]), clusters([1, 2, 1], seed=2)
    two, four = (fitted(pool, support, n_steps=n) for n in (2, 4))
    more = fit_mixture(
        pool, support, LABELS, pool[:0], n_steps=2, weights=two.weights, outlier_share=two.mixture.outlier_share
    )
    torch.testing.assert_close(more.weights, four.weights)
    assert more.mixture.outlier_share == pytest.approx(four.mixture.outlier_share)


def some_mixture(n_known: int) -> Mixture:
    prototypes, inlier_prototypes = 0.8 * random_units(3, 6), 0.9 * random_units(3, 6, seed=1)
    log_sizes = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()
    return Mixture(
        prototypes, inlier_prototypes, random_units(3, 6, seed=4), log_sizes, random_units(n_known, 6, seed=2),
        8.0, 15.0, 0.4, 0.25, -3.0, 2.0,
    )  # fmt: skip


@pytest.mark.parametrize("n_known", [0, 1, 4])
def test_the_posterior_of_new_images_equals_its_slow_twin(n_known: int) -> None:
    found, x = some_mixture(n_known), random_units(7, 6, seed=3)
    logits, evidence, weights = found.logits(x), found.evidence(x), found.weights(x)
    log_sizes, known, ratio = found.log_sizes.tolist(), found.known_outliers.tolist(), log_partition(8.0, 15.0)
    for i, u in enumerate(x.tolist()):
        expected = [8.0 * slow.dot(u, p) + size for p, size in zip(found.prototypes.tolist(), log_sizes, strict=True)]
        assert logits[i].tolist() == pytest.approx(expected)
        similarities = [slow.dot(u, p) for p in found.inlier_prototypes.tolist()]
        like = max(slow.dot(u, p) for p in found.labeled_prototypes.tolist())
        assert float(found.likeness(x)[i]) == pytest.approx(like)
        e = slow.evidence_of(similarities, log_sizes, u, known, 8.0, ratio)
        assert float(evidence[i]) == pytest.approx(e)
        inlier = 1 / (1 + math.exp(e) * 0.25 / 0.75)  # Bayes' rule
        assert weights[i].tolist() == pytest.approx([inlier * p for p in slow.softmax(expected)])
    torch.testing.assert_close(found.standardized(evidence), (evidence + 3.0) / 2.0)


def test_a_known_outlier_makes_its_own_place_an_outlier_and_leaves_the_opposite_one() -> None:
    without, known = some_mixture(0), some_mixture(1)
    at, opposite = known.known_outliers, -known.known_outliers
    assert float(known.evidence(at) - without.evidence(at)) > 1
    assert float(known.evidence(opposite) - without.evidence(opposite)) == pytest.approx(-math.log(2), abs=0.01)


def test_the_evidence_of_inliers_has_their_mean_and_deviation() -> None:
    """With many inliers; with none it is what the mixture expects of its own images."""
    pool, support = clusters([300, 300, 300]), clusters([1, 2, 1], seed=2)
    found = fitted(pool, support)
    w = found.weights.sum(-1)
    mean = float((w * found.evidence).sum() / w.sum())
    deviation = math.sqrt(float((w * (found.evidence - mean) ** 2).sum() / w.sum()))
    assert found.mixture.evidence_center == pytest.approx(mean, rel=0.01)
    assert found.mixture.evidence_scale == pytest.approx(deviation, rel=0.1)
    none = fitted(pool, support, n_steps=0).mixture
    kappa, dimension = none.concentration, none.dimension
    assert none.evidence_center == pytest.approx(log_partition(kappa, dimension) - kappa * none.similarity)
    assert none.evidence_scale == pytest.approx(kappa / math.sqrt(dimension))


def test_an_image_is_compared_with_sums_without_its_own_part() -> None:
    x, rest = random_units(6, 5), torch.randn(2, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weights = torch.rand(6, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    x[3], weights[3] = 0.0, 0.0  # an image exactly at the center
    sums = rest + weights.T @ x
    expected = [
        [slow.without_own_part(u, s, w) for s, w in zip(sums.tolist(), row, strict=True)]
        for u, row in zip(x.tolist(), weights.tolist(), strict=True)
    ]
    found = leave_one_out_similarities(x, sums, weights)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    alone = leave_one_out_similarities(x[:1], 0.7 * x[:1], torch.tensor([[0.7]], dtype=torch.float64))
    assert alone.isfinite().all()  # a class that is nothing but this image


def test_the_effective_dimension_equals_its_slow_twin() -> None:
    x = random_units(30, 8)
    x[3] = 0.0
    assert effective_dimension(x) == pytest.approx(slow.effective_dimension(x.tolist()))
    assert effective_dimension(x[:1]) == effective_dimension(x[:0]) == pytest.approx(module.TYPICAL_DIMENSION)
    assert effective_dimension(torch.ones(50, 1)) == 2.0  # all images alike


@pytest.mark.parametrize("filled", [5, 30])
def test_the_effective_dimension_is_that_of_the_subspace_that_images_fill(filled: int) -> None:
    x = torch.cat([random_units(2_000, filled), torch.zeros(2_000, 100, dtype=torch.float64)], 1)
    assert effective_dimension(x) == pytest.approx(filled, rel=0.03)


def exact_log_partition(kappa: float, d: float) -> float:
    """log Gamma(d / 2) (2 / kappa)^(d / 2 - 1) I_{d / 2 - 1}(kappa)."""
    v = d / 2 - 1
    return float(gammaln(d / 2) + v * math.log(2 / kappa) + math.log(ive(v, kappa)) + kappa)


@pytest.mark.parametrize(("dimension", "tolerance"), [(20, 0.012), (40, 0.006), (100, 0.0025)])
def test_the_log_partition_is_near_the_exact_one(dimension: int, tolerance: float) -> None:
    """Its leading term alone: at most 0.85 nats off, where the whole is 162 in 20 dimensions."""
    for similarity in np.linspace(0.05, 0.95, 19):
        kappa = concentration(float(similarity), dimension)
        assert log_partition(kappa, dimension) == pytest.approx(exact_log_partition(kappa, dimension), rel=tolerance)
        assert log_partition(kappa, dimension) == pytest.approx(exact_log_partition(kappa, dimension), abs=0.85)


def test_the_log_partition_vanishes_without_concentration_and_grows_by_the_mean_similarity() -> None:
    """A'(kappa) is the mean similarity of a component's images: the inverse of `concentration`."""
    assert log_partition(0.0, 30.0) == 0.0 and log_partition(1e-3, 30.0) == pytest.approx(1e-6 / 60, rel=1e-3)
    for similarity in (0.05, 0.3, 0.6, 0.95):
        kappa = concentration(similarity, 30.0)
        derivative = (log_partition(kappa * 1.0001, 30.0) - log_partition(kappa * 0.9999, 30.0)) / (0.0002 * kappa)
        assert derivative == pytest.approx(similarity, rel=1e-4)


def test_the_concentration_is_that_of_the_exact_density_in_many_dimensions() -> None:
    """The mean similarity I_{d / 2}(kappa) / I_{d / 2 - 1}(kappa) of its images is the given one."""
    assert concentration(0.5, 30.0) == pytest.approx(20.0)
    for dimension, tolerance in ((20, 0.013), (100, 0.0026)):
        for similarity in (0.1, 0.3, 0.6, 0.9):
            kappa = concentration(similarity, dimension)
            mean = ive(dimension / 2, kappa) / ive(dimension / 2 - 1, kappa)
            assert mean == pytest.approx(similarity, rel=tolerance)


def test_the_mean_similarity_counts_a_typical_image_and_stays_in_its_range() -> None:
    similarities, weights = torch.tensor([[0.8, 0.1], [0.2, 0.5]]), torch.tensor([[1.0, 0.0], [0.0, 0.5]])
    assert mean_similarity(similarities, weights) == pytest.approx((0.8 + 0.25 + module.TYPICAL_SIMILARITY) / 2.5)
    assert mean_similarity(similarities[:0], weights[:0]) == pytest.approx(module.TYPICAL_SIMILARITY)
    many = torch.ones(1_000, 1)
    assert (mean_similarity(many, many), mean_similarity(-many, many)) == (0.95, 0.05)


def test_images_at_the_center_say_nothing_of_the_dimension() -> None:
    x = unit_length(torch.randn(50, 8, generator=torch.Generator().manual_seed(0)))
    assert effective_dimension(torch.cat([x, torch.zeros(50, 8)])) == pytest.approx(effective_dimension(x))

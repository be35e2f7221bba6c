"""The engine on points whose answer one sees, against slow twins and closed forms, and on hostile shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from pools import blobs, task
from torch import Tensor

from sala.aside import none_threshold
from sala.engine import (
    USUAL_CONTRAST,
    USUAL_LIKENESS,
    USUAL_STRENGTH,
    EngineConfig,
    Fitted,
    contrast,
    fit_labels,
    likeness,
    temperature_prior,
)
from sala.errors import SalaError
from sala.points import FLOOR, USUAL_IMAGES, centre_of, mean_of, normalised, spread_of
from sala.refining import Refined, refine, refined_by


def test_classes_are_found_and_junk_scores_highest() -> None:
    support, labels, pool, truth = task()
    labelled = fit_labels(support, labels, pool).pool
    assert (labelled.label == truth)[truth >= 0].all()
    assert labelled.none_score[truth < 0].min() > labelled.none_score[truth >= 0].max()
    assert labelled.used[truth >= 0].mean() > 0.9 and labelled.used[truth < 0].mean() < 0.1
    np.testing.assert_allclose(labelled.probabilities.sum(1), 1, atol=1e-5)
    assert (labelled.runner_up != labelled.label).all()


def test_the_order_of_the_pool_does_not_matter() -> None:
    support, labels, pool, _ = task(noise=0.3)
    order = np.random.default_rng(0).permutation(len(pool))
    one, other = fit_labels(support, labels, pool).pool, fit_labels(support, labels, pool[order]).pool
    np.testing.assert_allclose(one.probabilities[order], other.probabilities, atol=1e-4)
    np.testing.assert_allclose(one.none_score[order], other.none_score, atol=1e-4)


def test_the_order_of_classes_does_not_matter() -> None:
    support, labels, pool, _ = task(noise=0.3)
    new = np.array([2, 0, 3, 1])
    one, other = fit_labels(support, labels, pool).pool, fit_labels(support, new[labels], pool).pool
    np.testing.assert_allclose(one.probabilities, other.probabilities[:, new], atol=1e-4)


def test_neither_scale_nor_place_of_features_matters() -> None:
    support, labels, pool, _ = task(noise=0.3)
    one, other = fit_labels(support, labels, pool).pool, fit_labels(7 * support + 3, labels, 7 * pool + 3).pool
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-3)


def test_without_steps_it_is_the_nearest_prototype() -> None:
    support, labels, pool, _ = task(noise=0.5)
    fitted = fit_labels(support, labels, pool, config=EngineConfig(n_steps=0, anchor=0.0, linear_weight=0.0))
    centre, spread = fitted.model.centre.numpy(), fitted.model.spread.numpy()
    x, s = ((p - centre) / spread for p in (pool, support))
    x, s = (p / np.linalg.norm(p, axis=1, keepdims=True) for p in (x, s))
    means = np.stack([s[labels == c].mean(0) for c in range(4)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    assert (fitted.pool.label == (x @ means.T).argmax(1)).all()
    assert not fitted.pool.used.any()


def test_an_anchor_that_is_given_is_kept() -> None:
    support, labels, pool, _ = task()
    given, found = (fit_labels(support, labels, pool, config=EngineConfig(anchor=a)).model.anchor for a in (0.4, None))
    assert given == 0.4 and 0.0 < found < 0.4


def test_spread_is_the_deviation_of_each_feature_steadied() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((9_000, 3)) * [0.5, 2.0, 0.0] + [1.0, -3.0, 5.0]).astype(np.float32)
    parts = [torch.from_numpy(x[:7]), torch.from_numpy(x[7:])]  # more than is looked at at a time
    centre = mean_of(parts)
    np.testing.assert_allclose(centre.numpy(), x.mean(0), rtol=1e-4)
    variance = (9_000 * x.var(0) + USUAL_IMAGES * x.var(0).mean()) / (9_000 + USUAL_IMAGES)
    slow = np.sqrt(variance) + FLOOR * np.sqrt(variance).mean()
    np.testing.assert_allclose(spread_of(parts, centre).numpy(), slow, rtol=1e-4)
    one = torch.tensor([[1.0, 2.0]])  # nothing differs
    assert normalised(one, one[0], spread_of([one], one[0])).tolist() == [[0.0, 0.0]]


def test_the_centre_is_the_mean_unless_the_pool_is_elsewhere_than_the_classes() -> None:
    g = torch.Generator().manual_seed(0)
    support, labels = 0.3 * torch.randn(4, 3, generator=g), torch.tensor([0, 0, 0, 1])
    pool = torch.randn(50, 3, generator=g)
    torch.testing.assert_close(centre_of(support, labels, pool), torch.cat([support, pool]).mean(0))
    torch.testing.assert_close(centre_of(support, labels, pool[:0]), support.mean(0))
    far = pool + torch.tensor([9.0, 0.0, 0.0])
    of_classes = (support[:3].mean(0) + support[3]) / 2
    variance = float(sum((u - far.mean(0)).square().sum() for u in far)) / 50
    trust = variance / 4 / float((of_classes - far.mean(0)).square().sum())
    slow = trust * torch.cat([support, far]).mean(0) + (1 - trust) * of_classes
    assert 0 < trust < 0.1
    torch.testing.assert_close(centre_of(support, labels, far), slow)


def test_a_pool_of_one_class_alone_is_labelled_as_well_as_without_a_pool() -> None:
    support, labels = blobs([3] * 6, noise=0.15, seed=1)
    for present in range(6):
        sizes = [60 if c == present else 0 for c in range(6)]
        pool, truth = blobs(sizes, noise=0.15, seed=2 + present)
        assert (fit_labels(support, labels, pool).pool.label == truth).mean() > 0.95


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_features_may_be_very_small_or_large(scale: float) -> None:
    support, labels, pool, _ = task(noise=0.3)
    one, other = fit_labels(support, labels, pool).pool, fit_labels(scale * support, labels, scale * pool).pool
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-3)


def test_no_feature_counts_for_more_because_its_numbers_are_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    support, labels, pool, truth = task(noise=0.2)
    scales = np.random.default_rng(0).permutation(np.geomspace(0.1, 10, 64)).astype(np.float32)

    def right() -> float:
        return float((fit_labels(scales * support, labels, scales * pool).pool.label == truth)[truth >= 0].mean())

    assert right() > 0.9
    monkeypatch.setattr("sala.engine.spread_of", lambda parts, centre: torch.ones_like(centre))
    assert right() < 0.8


def test_likeness_is_that_of_images_which_seem_to_be_of_a_class() -> None:
    similarities = torch.tensor([[0.8, 0.1], [0.2, 0.6], [0.1, 0.05]])
    usual = USUAL_STRENGTH * USUAL_LIKENESS
    slow = (1.0 * 0.8 + 0.5 * 0.6 + 0.1 * 0.1 + usual) / (1.0 + 0.5 + 0.1 + USUAL_STRENGTH)
    assert likeness(similarities, torch.tensor([1.0, 0.5, 0.1])) == pytest.approx(slow)
    many = similarities[:2].repeat(100_000, 1)
    assert likeness(many, torch.tensor([1.0, 0.5]).repeat(100_000)) == pytest.approx((0.8 + 0.5 * 0.6) / 1.5, rel=1e-3)


def test_contrast_is_the_deviation_between_classes() -> None:
    """Of 0.8 and 0.2 it is 0.3 sqrt 2; of images that are not known nothing is asked."""
    similarities = torch.tensor([[0.8, 0.2], [0.9, -0.9]]).repeat(100_000, 1)
    known = torch.tensor([1.0, 0.0]).repeat(100_000)
    assert contrast(similarities, known) == pytest.approx(0.3 * 2**0.5, rel=1e-3)
    assert contrast(similarities[:0], known[:0]) == USUAL_CONTRAST
    assert contrast(torch.ones(3, 1), torch.ones(3)) == pytest.approx(USUAL_CONTRAST / 4)


def test_a_pool_that_says_little_leaves_the_usual_temperature() -> None:
    labelled, labels = blobs([1, 1, 1, 1], seed=1, noise=0.2)
    pool, _ = blobs([1, 0, 0, 0], seed=2, noise=0.2)
    empty, one = (fit_labels(labelled, labels, part).model.inverse_temperature for part in (pool[:0], pool))
    assert empty == pytest.approx(temperature_prior(USUAL_LIKENESS, USUAL_CONTRAST, 4, EngineConfig()))
    assert 0.5 * empty < one < 2 * empty


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_features_that_are_no_numbers_are_refused(wrong: float) -> None:
    labelled, labels, pool, _ = task()
    pool[3, 2] = wrong
    with pytest.raises(SalaError, match="finite"):
        fit_labels(labelled, labels, pool)


def test_the_prior_of_the_temperature_is_its_formula_within_its_range() -> None:
    config = EngineConfig(prior=(3.0, 2.0, -1.0, -0.5))
    assert temperature_prior(0.5, 0.25, 4, config) == pytest.approx(math.exp(3.0) * 0.5**2 / 0.25 * 4**-0.5)
    assert temperature_prior(-1.0, 0.25, 4, config) == 3.0
    assert temperature_prior(1.0, 0.25, 2, EngineConfig(prior=(9.0, 0.0, 0.0, 0.0))) == 60.0


def found_again(fitted: Fitted, labelled: np.ndarray, labels: np.ndarray, pool: np.ndarray) -> tuple[Refined, Tensor]:
    """The refinement that classes are told by, and the pool's points in it: as they are first, and then without variation."""
    model, anchor = fitted.model, fitted.model.config.anchor
    x, s = (normalised(torch.from_numpy(part), model.centre, model.spread) for part in (pool, labelled))
    plain = refine(x, s, torch.from_numpy(labels), n_steps=4, sharpness=20.0, labelled_weight=2.0, anchor=anchor)
    x, s = (model.variation.taken_out_of(part) for part in (x, s))
    return refined_by(plain, x, s, 1 - torch.from_numpy(fitted.pool.none_score), sharpness=20.0), x


def test_probabilities_of_one_shot_have_the_temperature_of_the_prior() -> None:
    pool, _ = blobs([30, 20, 10, 5], n_junk=40, noise=0.2)
    labelled, labels = blobs([1, 1, 1, 1], seed=1, noise=0.2)
    fitted = fit_labels(labelled, labels, pool)
    model = fitted.model
    found, points = found_again(fitted, labelled, labels, pool)
    to_first = points @ model.first.T - model.hubs
    similarities = (1 - found.anchor) * found.to_refined(points) + found.anchor * to_first
    known = 1 - torch.from_numpy(fitted.pool.none_score)
    expected = temperature_prior(likeness(similarities, known), contrast(similarities, known), 4, EngineConfig())
    assert fitted.model.inverse_temperature == pytest.approx(expected, rel=1e-4)


def test_a_threshold_keeps_its_precision() -> None:
    score = np.array([0.9, 0.99, 0.5, 0.1])
    threshold = none_threshold(score, precision=0.94)
    assert (score > threshold).tolist() == [True, True, False, False]
    assert none_threshold(score, precision=0.999) == np.inf
    with pytest.raises(SalaError, match="precision"):
        none_threshold(score, precision=1.5)


@pytest.mark.parametrize("n_pool", [0, 1, 2, 3])
@pytest.mark.parametrize("n_way", [1, 2, 3])
def test_small_shapes_work(n_pool: int, n_way: int) -> None:
    rng = np.random.default_rng(0)
    support, pool = (rng.standard_normal((n, 3)).astype(np.float32) for n in (n_way, n_pool))
    labelled = fit_labels(support, np.arange(n_way), pool).pool
    assert labelled.probabilities.shape == (n_pool, n_way)
    assert np.isfinite(labelled.probabilities).all() and np.isfinite(labelled.none_score).all()


def test_equal_images_and_constant_features_are_no_trouble() -> None:
    labelled = fit_labels(np.ones((2, 4), np.float32), np.array([0, 1]), np.ones((10, 4), np.float32)).pool
    assert np.isfinite(labelled.probabilities).all() and np.isfinite(labelled.none_score).all()


@pytest.mark.parametrize(
    ("labels", "pool"), [([0, 2], (3, 4)), ([-1, 0], (3, 4)), ([0, 1], (3, 5)), ([0], (3, 4))]
)  # fmt: skip
def test_what_does_not_fit_is_refused(labels: list[int], pool: tuple[int, int]) -> None:
    with pytest.raises(SalaError):
        fit_labels(np.ones((2, 4), np.float32), np.array(labels), np.ones(pool, np.float32))


def test_left_out_images_speak_for_all_classes_or_for_none() -> None:
    pool, _ = blobs([30, 30, 30], n_junk=20)
    for counts, n in (([3, 2, 4], 9), ([3, 1, 4], 0), ([1, 1, 1], 0)):
        fitted = fit_labels(*blobs(counts, seed=1), pool)
        assert len(fitted.left_out_none) == n
        assert len(fitted.held_out.none_score) == sum(c for c in counts if c > 1)


def test_features_without_columns_are_refused() -> None:
    with pytest.raises(SalaError, match="no columns"):
        fit_labels(np.zeros((2, 0), np.float32), np.array([0, 1]), np.zeros((3, 0), np.float32))


def test_what_is_said_of_the_pool_counts_hubs() -> None:
    """With the first prototypes alone, so that hubs count in full."""
    support, labels, pool, _ = task(noise=0.5)
    fitted = fit_labels(support, labels, pool, config=EngineConfig(anchor=1.0, linear_weight=0.0))
    model = fitted.model
    _, points = found_again(fitted, support, labels, pool)
    logits = model.inverse_temperature * (points @ model.first.T - model.hubs)
    np.testing.assert_allclose(fitted.pool.probabilities, logits.softmax(-1).numpy(), atol=1e-5)
    assert model.hubs.abs().max() > 0.001


def test_the_runner_up_is_the_second_most_probable_class() -> None:
    support, labels, pool, _ = task()
    said = fit_labels(support, labels, pool).pool
    assert (said.runner_up == np.argsort(-said.probabilities, axis=1, kind="stable")[:, 1]).all()

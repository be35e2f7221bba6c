"""Outlier detection on embeddings before whitening, against a slow twin; and what a model keeps of it."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sala.classifier.fit import ClassifierConfig, LabelModel, fit_pool
from sala.classifier.normalize import normalized
from sala.classifier.outlier_model import outlier_weight_for, refined_weight_for
from sala.classifier.outliers import detect_outliers
from sala.classifier.prototypes import refine, refine_again
from sala.classifier.whitening import Whitening, fit_whitening
from sala.errors import SalaError
from tests.helpers.pools import blobs, task

STEPS = {"n_steps": 4, "sharpness": 20.0, "labeled_weight": 2.0}


def embedded(model: LabelModel, features: np.ndarray) -> torch.Tensor:
    return normalized(torch.from_numpy(features), model.center, model.scale)


def test_the_outlier_probability_of_each_image_equals_its_slow_twin() -> None:
    support, labels, pool, _ = task(noise=0.4)
    x, s = (normalized(torch.from_numpy(part), torch.zeros(64), torch.ones(64)) for part in (pool, support))
    found = refine(x, s, torch.from_numpy(labels), **STEPS)
    detector, p = detect_outliers(found, x, x[:0])
    model, first, outliers = detector.model, found.first, detector.outlier_prototypes
    w, v = model.refined_weight, model.outlier_weight
    assert w < 1 and v > 0.001 and len(outliers)  # else the test is empty

    def slow(to_first: list[float], to_refined: list[float], u: torch.Tensor) -> float:
        to_outliers = max(float(u @ other) for other in outliers)
        similarity = w * max(to_refined) + (1 - w) * max(to_first) - v * to_outliers
        return float(model.outlier_probability(torch.tensor(similarity)))

    for i, u in enumerate(x):
        rest = [found.sums[c] - found.weights[i, c] * u for c in range(4)]
        expected = slow([float(u @ f) for f in first], [float(u @ r / r.norm()) for r in rest], u)
        assert float(p[i]) == pytest.approx(expected, abs=1e-4)


def test_weights_follow_the_outlier_share() -> None:
    support, labels, pool, _ = task(noise=0.4)
    model = fit_pool(support, labels, pool).model
    assert 0 < model.outlier_detector.model.outlier_share < 1
    assert (refined_weight_for(0.0, 1), refined_weight_for(0.5, 1), refined_weight_for(0.5, 4)) == (1.0, 0.25, 0.125)
    assert (outlier_weight_for(0.5, 4), outlier_weight_for(0.5, 1)) == (0.125, 0.0)


def test_new_images_get_outlier_probabilities_before_whitening_and_classes_after_it() -> None:
    support, labels, pool, _ = task(noise=0.4)
    model = fit_pool(support, labels, pool).model
    assert float(model.whitening.shrinkage.max()) > 0.05  # else the test is empty
    embeddings = embedded(model, pool)
    found = model.predict(pool)
    expected = model.outlier_detector.outlier_probability(embeddings)
    np.testing.assert_array_equal(found.outlier_probability, expected.numpy())
    white = model.whitening.apply_(embeddings)
    to_first, to_refined = white @ model.first_prototypes.T - model.hubness, white @ model.refined_prototypes.T
    similarities = (1 - model.anchor) * to_refined + model.anchor * to_first
    expected = (model.inverse_temperature * (similarities + white @ model.linear.T)).softmax(-1)
    np.testing.assert_allclose(found.probabilities, expected.numpy(), atol=1e-5)


def test_whitening_is_that_of_the_pool_with_its_outlier_share() -> None:
    support, labels, pool, _ = task(noise=0.4)
    for n in (3, 16):
        model = fit_pool(support, labels, pool, config=ClassifierConfig(n_directions=n)).model
        x, s = (embedded(model, part) for part in (pool, support))
        weights = refine(x, s, torch.from_numpy(labels), **STEPS).weights
        expected = fit_whitening(x, weights, model.outlier_detector.model.outlier_share, n)
        assert len(model.whitening.shrinkage) == n
        torch.testing.assert_close(model.whitening.shrinkage, expected.shrinkage)


def test_whitening_takes_a_regular_sample_of_a_large_pool() -> None:
    """Images come sorted by class, as files in folders do: the first of them would be of one class."""
    (support, labels), (pool, _) = blobs([1, 1], seed=1, d=8), blobs([4_000, 4_000], d=8)
    model = fit_pool(support, labels, pool).model
    x, s = (embedded(model, part) for part in (pool, support))
    found = refine(x, s, torch.from_numpy(labels), **STEPS)
    expected = fit_whitening(x[::8], found.weights[::8], model.outlier_detector.model.outlier_share)
    torch.testing.assert_close(model.whitening.shrinkage, expected.shrinkage)


@pytest.mark.parametrize("options", [{"n_directions": 0}, {"n_steps": 0}, {"n_steps": np.int64(2)}])
def test_a_model_of_any_hyper_parameters_can_be_saved(tmp_path: Path, options: dict[str, int]) -> None:
    support, labels, pool, _ = task()
    model = fit_pool(support, labels, pool, config=ClassifierConfig(**options)).model
    model.save(tmp_path / "m.safetensors")
    loaded = LabelModel.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(pool).probabilities, model.predict(pool).probabilities)


@pytest.mark.parametrize("wrong", ["too much", "too long", "too many"])
def test_a_model_with_an_impossible_whitening_is_refused(tmp_path: Path, wrong: str) -> None:
    support, labels, pool, _ = task()
    model = fit_pool(support, labels, pool).model
    v = model.whitening
    changed = {
        "too much": Whitening(v.directions, v.shrinkage + 50),
        "too long": Whitening(1e18 * v.directions, v.shrinkage),
        "too many": Whitening(torch.eye(64).repeat(1, 2), torch.zeros(128)),
    }[wrong]
    replace(model, whitening=changed).save(tmp_path / "m.safetensors")
    with pytest.raises(SalaError, match="do not fit each other"):
        LabelModel.load(tmp_path / "m.safetensors")


def test_features_that_are_not_finite_are_refused_with_their_row() -> None:
    support, labels, pool, _ = task()
    model = fit_pool(support, labels, pool).model
    new = pool.copy()
    new[3, 5] = math.nan
    with pytest.raises(SalaError, match="row 3"):
        model.predict(new)


def test_read_only_arrays_and_numbers_too_large_give_no_warning() -> None:
    support, labels, pool, _ = task()
    locked = pool.copy()
    locked.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(
            fit_pool(support, labels, locked).pool.label, fit_pool(support, labels, pool).pool.label
        )
        with pytest.raises(SalaError, match="finite"):
            fit_pool(support, labels, pool.astype(np.float64) * 1e200)


def test_an_image_at_the_center_moves_no_prototype() -> None:
    support, labels, pool, _ = task()
    x, s = (normalized(torch.from_numpy(part), torch.zeros(64), torch.ones(64)) for part in (pool, support))
    found = refine(x, s, torch.from_numpy(labels), **STEPS)
    x[3] = 0
    again = refine_again(found, x, s, torch.ones(len(x)), sharpness=20.0)
    assert not again.weights[3].any() and again.weights.sum(-1)[4:].min() > 0.99 and not again.used[3]


def test_the_order_of_features_does_not_matter() -> None:
    """Though the subspace iteration starts at a fixed place, and eigenvalues differ little."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(5), 40)
    differing = 3 * rng.normal(size=(200, 300)) * np.logspace(0, -0.3, 300)
    x = (rng.normal(size=(5, 300))[truth] + differing).astype(np.float32)
    labels, shuffled = np.arange(5), rng.permutation(300)
    one, other = (fit_pool(x[::40, order], labels, x[:, order]).pool for order in (np.arange(300), shuffled))
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=0.004)

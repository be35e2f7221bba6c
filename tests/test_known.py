"""Which images are of any class: by points as they are, against a slow twin; and what a model keeps of it."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pools import blobs, task

from sala.belonging import Belonging, pulled, trusted
from sala.engine import EngineConfig, LabelModel, fit_labels
from sala.errors import SalaError
from sala.known import known_by
from sala.labelmodel import label_next
from sala.points import normalised
from sala.refining import refine, refined_by
from sala.variation import Variation, variation_of

STEPS = {"n_steps": 4, "sharpness": 20.0, "labelled_weight": 2.0}


def plain_points(model: LabelModel, features: np.ndarray) -> torch.Tensor:
    return normalised(torch.from_numpy(features), model.centre, model.spread)


def test_what_is_said_of_each_image_equals_its_slow_twin() -> None:
    support, labels, pool, _ = task(noise=0.4)
    x, s = (normalised(torch.from_numpy(part), torch.zeros(64), torch.ones(64)) for part in (pool, support))
    found = refine(x, s, torch.from_numpy(labels), **STEPS)
    known, none = known_by(found, x, x[:0])
    belonging, first, others = known.belonging, found.first, known.others
    assert belonging.trust < 1 and belonging.pull > 0.001 and len(others)  # else this says nothing of them

    def slow(to_first: list[float], to_refined: list[float], u: torch.Tensor) -> float:
        to_others = max(float(u @ other) for other in others)
        best = belonging.trust * max(to_refined) + (1 - belonging.trust) * max(to_first) - belonging.pull * to_others
        return float(belonging.none(torch.tensor(best)))

    for i, u in enumerate(x):
        rest = [found.sums[c] - found.weights[i, c] * u for c in range(4)]
        expected = slow([float(u @ f) for f in first], [float(u @ r / r.norm()) for r in rest], u)
        assert float(none[i]) == pytest.approx(expected, abs=1e-4)


def test_trust_and_pull_follow_the_share_of_junk() -> None:
    support, labels, pool, _ = task(noise=0.4)
    model = fit_labels(support, labels, pool).model
    belonging = model.known.belonging
    assert isinstance(belonging, Belonging) and 0 < belonging.none_share < 1
    assert (trusted(0.0, 1), trusted(0.5, 1), trusted(0.5, 4)) == (1.0, 0.25, 0.125)
    assert (pulled(0.5, 4), pulled(0.5, 1)) == (0.125, 0.0)


def test_new_images_are_known_by_points_as_they_are_and_told_apart_without_variation() -> None:
    support, labels, pool, _ = task(noise=0.4)
    model = fit_labels(support, labels, pool).model
    assert float(model.variation.removed.max()) > 0.05  # else this says nothing
    points = plain_points(model, pool)
    said = model.predict(pool)
    np.testing.assert_array_equal(said.none_score, model.known.none_of(points).numpy())
    turned = model.variation.taken_out_of(points)
    similarities = (1 - model.anchor) * turned @ model.refined.T + model.anchor * (turned @ model.first.T - model.hubs)
    expected = (model.inverse_temperature * (similarities + turned @ model.linear.T)).softmax(-1)
    np.testing.assert_allclose(said.probabilities, expected.numpy(), atol=1e-5)


def test_variation_is_that_of_the_pool_with_its_share_of_junk() -> None:
    support, labels, pool, _ = task(noise=0.4)
    for n in (3, 16):
        model = fit_labels(support, labels, pool, config=EngineConfig(n_directions=n)).model
        x, s = (plain_points(model, part) for part in (pool, support))
        weights = refine(x, s, torch.from_numpy(labels), **STEPS).weights
        expected = variation_of(x, weights, model.known.belonging.none_share, n)
        assert len(model.variation.removed) == n
        torch.testing.assert_close(model.variation.removed, expected.removed)


def test_a_large_pool_is_looked_at_here_and_there() -> None:
    """Sorted by class, as files in folders are: the first of them would be of one class."""
    (support, labels), (pool, _) = blobs([1, 1], seed=1, d=8), blobs([4_000, 4_000], d=8)
    model = fit_labels(support, labels, pool).model
    x, s = (plain_points(model, part) for part in (pool, support))
    found = refine(x, s, torch.from_numpy(labels), **STEPS)
    expected = variation_of(x[::8], found.weights[::8], model.known.belonging.none_share)
    torch.testing.assert_close(model.variation.removed, expected.removed)


@pytest.mark.parametrize("options", [{"n_directions": 0}, {"n_steps": 0}, {"n_steps": np.int64(2)}])
def test_a_model_of_any_knobs_can_be_saved(tmp_path: Path, options: dict[str, int]) -> None:
    support, labels, pool, _ = task()
    model = fit_labels(support, labels, pool, config=EngineConfig(**options)).model
    model.save(tmp_path / "m.safetensors")
    loaded = LabelModel.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(pool).probabilities, model.predict(pool).probabilities)


@pytest.mark.parametrize("wrong", ["too much", "too long", "too many"])
def test_a_model_that_takes_out_what_is_not_there_is_refused(tmp_path: Path, wrong: str) -> None:
    support, labels, pool, _ = task()
    model = fit_labels(support, labels, pool).model
    v = model.variation
    changed = {
        "too much": Variation(v.directions, v.removed + 50),
        "too long": Variation(1e18 * v.directions, v.removed),
        "too many": Variation(torch.eye(64).repeat(1, 2), torch.zeros(128)),
    }[wrong]
    replace(model, variation=changed).save(tmp_path / "m.safetensors")
    with pytest.raises(SalaError, match="do not fit each other"):
        LabelModel.load(tmp_path / "m.safetensors")


def test_features_that_are_no_numbers_are_refused_with_their_row() -> None:
    support, labels, pool, _ = task()
    model = fit_labels(support, labels, pool).model
    new = pool.copy()
    new[3, 5] = math.nan
    with pytest.raises(SalaError, match="row 3 has some"):
        model.predict(new)


def test_arrays_that_may_not_be_written_to_and_numbers_too_large_make_no_noise() -> None:
    support, labels, pool, _ = task()
    locked = pool.copy()
    locked.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(
            fit_labels(support, labels, locked).pool.label, fit_labels(support, labels, pool).pool.label
        )
        with pytest.raises(SalaError, match="finite"):
            fit_labels(support, labels, pool.astype(np.float64) * 1e200)


def test_no_image_is_to_be_labelled_twice() -> None:
    points = torch.eye(12).repeat(2, 1)  # each is there twice
    chosen = label_next(points, torch.full((24, 2), 0.5), torch.ones(24), 24).tolist()
    assert sorted(chosen) == list(range(24))


def test_an_image_at_the_centre_has_no_part_in_a_step() -> None:
    support, labels, pool, _ = task()
    x, s = (normalised(torch.from_numpy(part), torch.zeros(64), torch.ones(64)) for part in (pool, support))
    found = refine(x, s, torch.from_numpy(labels), **STEPS)
    x[3] = 0
    again = refined_by(found, x, s, torch.ones(len(x)), sharpness=20.0)
    assert not again.weights[3].any() and again.weights.sum(-1)[4:].min() > 0.99 and not again.used[3]


def test_the_order_of_features_does_not_matter() -> None:
    """Though directions are looked for from a fixed start, and differ little in strength."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(5), 40)
    differing = 3 * rng.normal(size=(200, 300)) * np.logspace(0, -0.3, 300)
    x = (rng.normal(size=(5, 300))[truth] + differing).astype(np.float32)
    labels, turned = np.arange(5), rng.permutation(300)
    one, other = (fit_labels(x[::40, order], labels, x[:, order]).pool for order in (np.arange(300), turned))
    np.testing.assert_allclose(one.probabilities, other.probabilities, atol=0.004)

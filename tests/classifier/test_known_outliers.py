"""Known outliers, and what they say of other images."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from sala.classifier.fit import LabelModel, fit_pool
from sala.classifier.normalize import normalized
from sala.classifier.outlier_coefficients import KNOWN_OUTLIERS
from sala.classifier.outlier_model import OutlierModel
from sala.classifier.outlier_prototypes import MAX_KNOWN_OUTLIERS, farthest_first
from sala.errors import SalaError
from sala.functional import unit_length
from tests.helpers.pools import blobs, directions


def like_a_class(n_outliers: int = 30):  # type: ignore[no-untyped-def]
    """Three classes, and outliers of one kind near the first: support, labels, pool, truth, and more such outliers."""
    (support, labels), (pool, truth) = blobs([2, 2, 2], seed=1, noise=0.15), blobs([40, 30, 20], noise=0.15)
    place, rng = directions(64), np.random.default_rng(3)
    outliers = 0.6 * place[0] + 0.8 * place[5] + 0.15 * rng.standard_normal((n_outliers + 200, 64))
    outliers = outliers.astype(np.float32)
    pool, truth = np.concatenate([pool, outliers[:n_outliers]]), np.concatenate([truth, np.full(n_outliers, -1)])
    return support, labels, pool, truth, outliers[n_outliers:]


def test_known_outliers_raise_the_outlier_probability_of_images_like_them() -> None:
    support, labels, pool, truth, more = like_a_class()
    before, after = (fit_pool(support, labels, pool, outliers=outliers).pool for outliers in (None, more[:5]))
    is_rejected = truth < 0
    assert 1 - after.outlier_probability[is_rejected].mean() < 0.6 * (
        1 - before.outlier_probability[is_rejected].mean()
    )
    assert after.outlier_probability[~is_rejected].mean() < before.outlier_probability[~is_rejected].mean() + 0.05
    assert roc_auc_score(is_rejected, after.outlier_probability) >= roc_auc_score(
        is_rejected, before.outlier_probability
    )


def test_their_evidence_equals_its_slow_twin_also_for_new_images() -> None:
    support, labels, pool, _, more = like_a_class()
    without, found = (fit_pool(support, labels, pool, outliers=outliers) for outliers in (more[:0], more[:7]))
    fit, model = found.model.outlier_detector.model, found.model
    assert fit == without.model.outlier_detector.model  # known outliers do not change the model of the pool
    place = {
        name: normalized(torch.from_numpy(x), model.center, model.scale)
        for name, x in (("pool", pool), ("outliers", more[:7]))
    }
    pairs = [1.0 if i == j else min(max(float(x @ y) / fit.high, 0), 1)
             for i, x in enumerate(place["outliers"]) for j, y in enumerate(place["outliers"])]  # fmt: skip
    (a, b, c, e), log_m = KNOWN_OUTLIERS, math.log(49 / sum(pairs))
    for i, u in enumerate(place["pool"]):
        nearest = max(float(u @ j) for j in place["outliers"])
        added = a + b * log_m + (c + e * log_m) * min(max(nearest / fit.high, -1), 2)
        for fitted, expected in ((found.pool, without.pool), (model.predict(pool), without.model.predict(pool))):
            p, q = float(fitted.outlier_probability[i]), float(expected.outlier_probability[i])
            assert math.log(p / (1 - p)) == pytest.approx(math.log(q / (1 - q)) + added, abs=2e-3)


def test_no_known_outliers_change_nothing() -> None:
    support, labels, pool, _, more = like_a_class()
    a, b = (fit_pool(support, labels, pool, outliers=outliers).pool for outliers in (None, more[:0]))
    np.testing.assert_array_equal(a.outlier_probability, b.outlier_probability)
    np.testing.assert_array_equal(a.probabilities, b.probabilities)


def test_their_order_does_not_matter() -> None:
    support, labels, pool, _, more = like_a_class()
    for n in (9, 150):
        shuffled = np.random.default_rng(0).permutation(n)
        a, b = (fit_pool(support, labels, pool, outliers=outliers) for outliers in (more[:n], more[:n][shuffled]))
        assert len(a.model.outlier_detector.known_outliers) == min(n, MAX_KNOWN_OUTLIERS)
        np.testing.assert_allclose(a.pool.outlier_probability, b.pool.outlier_probability, atol=1e-5)


def test_of_very_many_the_most_diverse_are_kept() -> None:
    middles = torch.eye(40)
    embeddings = unit_length(middles.repeat_interleave(20, 0)[: 19 * 20 + 1] + 0.01 * torch.randn(381, 40))
    kept = farthest_first(embeddings, 20)  # 19 kinds of 20 images, and one image of another kind
    assert sorted((embeddings[kept] @ middles.T).argmax(-1).tolist()) == list(range(20))
    assert farthest_first(embeddings[:5], 20).tolist() == list(range(5))
    assert len(farthest_first(embeddings[:3].repeat(40, 1), 20)) == 3  # and none twice


def test_images_of_one_kind_count_as_one() -> None:
    model = OutlierModel(0.1, 0.5, 0.4, None, 5, 1.0, 0.3)
    assert model.kinds(torch.ones(1, 1)) == 1
    assert model.kinds(torch.full((20, 20), 0.6)) == pytest.approx(1)
    assert model.kinds(torch.eye(20)) == pytest.approx(20) and model.kinds(-torch.ones(20, 20)) == pytest.approx(20)
    two = torch.block_diag(torch.full((6, 6), 0.7), torch.full((6, 6), 0.7))
    assert model.kinds(two) == pytest.approx(2)
    far = torch.zeros(1, 20)  # far from all: rather an inlier if the outliers are of many kinds
    assert float(model.known_outlier_evidence(far, torch.eye(20))) < float(
        model.known_outlier_evidence(far, torch.full((20, 20), 0.6))
    )
    near = model.known_outlier_evidence(torch.tensor([[0.5], [1.0], [5.0]]), torch.ones(1, 1))  # clamped to its range
    assert near[0] < near[1] == near[2]


def test_what_is_nearer_to_them_is_never_less_probably_an_outlier() -> None:
    to_known = torch.linspace(-1, 1, 201)
    for high in (-0.5, 0.05, 0.4, 0.99):
        model = OutlierModel(min(0.1, high - 0.01), high, 0.4, None, 5, 1.0, 0.3)
        for n in (1, 5, 64):
            assert (model.known_outlier_evidence(to_known[:, None].repeat(1, n), torch.eye(n)).diff() >= 0).all()


def test_held_out_images_are_compared_with_them_too() -> None:
    support, labels, pool, _, _ = like_a_class()
    nearly_a_copy = support[:1] + 0.01
    a, b = (
        fit_pool(support, labels, pool, outliers=outliers).held_out.outlier_probability
        for outliers in (None, nearly_a_copy)
    )
    assert b[0] > a[0] and a.shape == b.shape


def test_a_model_keeps_them(tmp_path: Path) -> None:
    support, labels, pool, _, more = like_a_class()
    model = fit_pool(support, labels, pool, outliers=more[:3]).model
    model.save(tmp_path / "m.safetensors")
    loaded = LabelModel.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(pool).outlier_probability, model.predict(pool).outlier_probability)
    wrong = replace(model, outlier_detector=replace(model.outlier_detector, known_outliers=torch.zeros(3, 5)))
    wrong.save(tmp_path / "wrong.safetensors")
    with pytest.raises(SalaError, match="do not fit each other"):
        LabelModel.load(tmp_path / "wrong.safetensors")


def test_their_features_must_have_the_width_of_the_pool() -> None:
    support, labels, pool, _, more = like_a_class()
    with pytest.raises(SalaError, match=r"\[120, 64\], \[3, 5\]"):
        fit_pool(support, labels, pool, outliers=more[:3, :5])
    broken = more[:3].copy()
    for wrong in (np.nan, np.inf, 3e38):
        broken[1, 2] = wrong
        with pytest.raises(SalaError, match="finite"):
            fit_pool(support, labels, pool, outliers=broken)


def test_their_coefficients_are_the_recorded_ones() -> None:
    found = json.loads((Path(__file__).parents[2] / "results" / "practice" / "known-outliers.json").read_text())
    assert tuple(found["coefficients"]) == KNOWN_OUTLIERS

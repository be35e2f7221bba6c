"""Known outliers, and what they say of other images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from sala.classifier.fit import LabelModel, fit_pool
from sala.classifier.known_outliers import MAX_KNOWN_OUTLIERS, farthest_first
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


@pytest.mark.parametrize("n_outliers", [3, 10, 60])
def test_known_outliers_raise_the_outlier_probability_of_images_like_them(n_outliers: int) -> None:
    support, labels, pool, truth, more = like_a_class(n_outliers)
    before, after = (fit_pool(support, labels, pool, outliers=outliers) for outliers in (None, more[:20]))
    is_outlier, new = truth < 0, more[100:]
    for one, other, rows in (
        (before.pool, after.pool, is_outlier),
        (before.model.predict(new), after.model.predict(new), slice(None)),
    ):
        assert 1 - other.outlier_probability[rows].mean() < 0.6 * (1 - one.outlier_probability[rows].mean())
    one, other = (fitted.pool.outlier_probability for fitted in (before, after))
    assert other[~is_outlier].mean() < one[~is_outlier].mean() + 0.05
    assert roc_auc_score(is_outlier, other) >= roc_auc_score(is_outlier, one) - 0.001


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
        assert len(a.model.mixture.known_outliers) == min(n, MAX_KNOWN_OUTLIERS)
        np.testing.assert_allclose(a.pool.outlier_probability, b.pool.outlier_probability, atol=1e-5)


def test_of_very_many_the_most_diverse_are_kept() -> None:
    middles = torch.eye(40)
    embeddings = unit_length(middles.repeat_interleave(20, 0)[: 19 * 20 + 1] + 0.01 * torch.randn(381, 40))
    kept = farthest_first(embeddings, 20)  # 19 kinds of 20 images, and one image of another kind
    assert sorted((embeddings[kept] @ middles.T).argmax(-1).tolist()) == list(range(20))
    assert farthest_first(embeddings[:5], 20).tolist() == list(range(5))
    assert len(farthest_first(embeddings[:3].repeat(40, 1), 20)) == 3  # and none twice


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
    wrong = replace(model, mixture=replace(model.mixture, known_outliers=torch.zeros(3, 5)))
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


def test_copies_of_a_known_outlier_count_once() -> None:
    support, labels, pool, _, more = like_a_class()
    once, often = (fit_pool(support, labels, pool, outliers=np.tile(more[:1], (n, 1))) for n in (1, 30))
    assert np.array_equal(once.pool.outlier_probability, often.pool.outlier_probability)


def test_images_at_the_center_are_chosen_once_each() -> None:
    assert farthest_first(torch.zeros(65, 4), 10).tolist() == sorted(
        set(farthest_first(torch.zeros(65, 4), 10).tolist())
    )

"""Images that are said to be of no class, and what they tell of others."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pools import blobs, directions
from sklearn.metrics import roc_auc_score

from sala.belonging import MARKED, MAX_MARKED, Belonging, of_all_sorts
from sala.engine import LabelModel, fit_labels
from sala.errors import SalaError
from sala.points import normalised, unit


def like_a_class(n_junk: int = 30):  # type: ignore[no-untyped-def]
    """Three classes, and junk of one kind beside the first: support, labels, pool, truth, and more of that junk."""
    (support, labels), (pool, truth) = blobs([2, 2, 2], seed=1, noise=0.15), blobs([40, 30, 20], noise=0.15)
    place, rng = directions(64), np.random.default_rng(3)
    junk = 0.6 * place[0] + 0.8 * place[5] + 0.15 * rng.standard_normal((n_junk + 200, 64))
    junk = junk.astype(np.float32)
    pool, truth = np.concatenate([pool, junk[:n_junk]]), np.concatenate([truth, np.full(n_junk, -1)])
    return support, labels, pool, truth, junk[n_junk:]


def test_what_is_said_to_be_junk_tells_of_what_is_like_it() -> None:
    support, labels, pool, truth, more = like_a_class()
    before, after = (fit_labels(support, labels, pool, junk=junk).pool for junk in (None, more[:5]))
    is_junk = truth < 0
    assert 1 - after.none_score[is_junk].mean() < 0.6 * (1 - before.none_score[is_junk].mean())
    assert after.none_score[~is_junk].mean() < before.none_score[~is_junk].mean() + 0.05
    assert roc_auc_score(is_junk, after.none_score) >= roc_auc_score(is_junk, before.none_score)


def test_it_equals_its_slow_twin_also_for_new_images() -> None:
    support, labels, pool, _, more = like_a_class()
    without, found = (fit_labels(support, labels, pool, junk=junk) for junk in (more[:0], more[:7]))
    told, model = found.model.known.belonging, found.model
    assert told == without.model.known.belonging  # the share of junk and all else of the pool is told without it
    place = {
        name: normalised(torch.from_numpy(x), model.centre, model.spread)
        for name, x in (("pool", pool), ("junk", more[:7]))
    }
    pairs = [1.0 if i == j else min(max(float(x @ y) / told.high, 0), 1)
             for i, x in enumerate(place["junk"]) for j, y in enumerate(place["junk"])]  # fmt: skip
    (a, b, c, e), log_m = MARKED, math.log(49 / sum(pairs))
    for i, u in enumerate(place["pool"]):
        nearest = max(float(u @ j) for j in place["junk"])
        added = a + b * log_m + (c + e * log_m) * min(max(nearest / told.high, -1), 2)
        for fitted, expected in ((found.pool, without.pool), (model.predict(pool), without.model.predict(pool))):
            p, q = float(fitted.none_score[i]), float(expected.none_score[i])
            assert math.log(p / (1 - p)) == pytest.approx(math.log(q / (1 - q)) + added, abs=2e-3)


def test_none_of_it_is_nothing() -> None:
    support, labels, pool, _, more = like_a_class()
    a, b = (fit_labels(support, labels, pool, junk=junk).pool for junk in (None, more[:0]))
    np.testing.assert_array_equal(a.none_score, b.none_score)
    np.testing.assert_array_equal(a.probabilities, b.probabilities)


def test_its_order_does_not_matter() -> None:
    support, labels, pool, _, more = like_a_class()
    for n in (9, 150):
        shuffled = np.random.default_rng(0).permutation(n)
        a, b = (fit_labels(support, labels, pool, junk=junk) for junk in (more[:n], more[:n][shuffled]))
        assert len(a.model.known.marked) == min(n, MAX_MARKED)
        np.testing.assert_allclose(a.pool.none_score, b.pool.none_score, atol=1e-5)


def test_of_very_many_those_are_kept_that_differ_most() -> None:
    middles = torch.eye(40)
    points = unit(middles.repeat_interleave(20, 0)[: 19 * 20 + 1] + 0.01 * torch.randn(381, 40))
    kept = of_all_sorts(points, 20)  # 19 kinds of 20 images, and one image of another kind
    assert sorted((points[kept] @ middles.T).argmax(-1).tolist()) == list(range(20))
    assert of_all_sorts(points[:5], 20).tolist() == list(range(5))
    assert len(of_all_sorts(points[:3].repeat(40, 1), 20)) == 3  # and none twice


def test_images_of_one_kind_count_as_one() -> None:
    told = Belonging(0.1, 0.5, 0.4, None, 5, 1.0, 0.3)
    assert told.kinds(torch.ones(1, 1)) == 1
    assert told.kinds(torch.full((20, 20), 0.6)) == pytest.approx(1)
    assert told.kinds(torch.eye(20)) == pytest.approx(20) and told.kinds(-torch.ones(20, 20)) == pytest.approx(20)
    two = torch.block_diag(torch.full((6, 6), 0.7), torch.full((6, 6), 0.7))
    assert told.kinds(two) == pytest.approx(2)
    far = torch.zeros(1, 20)  # what is far from all: told by many kinds, and by one kind not
    assert float(told.taught(far, torch.eye(20))) < float(told.taught(far, torch.full((20, 20), 0.6)))
    near = told.taught(torch.tensor([[0.5], [1.0], [5.0]]), torch.ones(1, 1))  # no more than its range
    assert near[0] < near[1] == near[2]


def test_what_is_nearer_to_it_is_never_less_surely_junk() -> None:
    to_marked = torch.linspace(-1, 1, 201)
    for high in (-0.5, 0.05, 0.4, 0.99):
        told = Belonging(min(0.1, high - 0.01), high, 0.4, None, 5, 1.0, 0.3)
        for n in (1, 5, 64):
            assert (told.taught(to_marked[:, None].repeat(1, n), torch.eye(n)).diff() >= 0).all()


def test_left_out_images_are_judged_beside_it_too() -> None:
    support, labels, pool, _, _ = like_a_class()
    nearly_a_copy = support[:1] + 0.01
    a, b = (fit_labels(support, labels, pool, junk=junk).held_out.none_score for junk in (None, nearly_a_copy))
    assert b[0] > a[0] and a.shape == b.shape


def test_a_model_keeps_it(tmp_path: Path) -> None:
    support, labels, pool, _, more = like_a_class()
    model = fit_labels(support, labels, pool, junk=more[:3]).model
    model.save(tmp_path / "m.safetensors")
    loaded = LabelModel.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(pool).none_score, model.predict(pool).none_score)
    wrong = replace(model, known=replace(model.known, marked=model.known.marked[:, :5].contiguous()))
    wrong.save(tmp_path / "wrong.safetensors")
    with pytest.raises(SalaError, match="do not fit each other"):
        LabelModel.load(tmp_path / "wrong.safetensors")


def test_features_of_it_must_be_as_the_others() -> None:
    support, labels, pool, _, more = like_a_class()
    with pytest.raises(SalaError, match=r"\[120, 64\], \[3, 5\]"):
        fit_labels(support, labels, pool, junk=more[:3, :5])
    spoiled = more[:3].copy()
    for wrong in (np.nan, np.inf, 3e38):
        spoiled[1, 2] = wrong
        with pytest.raises(SalaError, match="finite"):
            fit_labels(support, labels, pool, junk=spoiled)


def test_its_coefficients_are_those_that_were_fitted() -> None:
    found = json.loads((Path(__file__).parent.parent / "results" / "practice" / "marked.json").read_text())
    assert tuple(found["coefficients"]) == MARKED

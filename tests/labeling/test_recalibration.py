"""Recalibrated outlier probabilities: off without answers, right with many, and careful about what is rejected."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from sala.classifier.rejection import rejection_threshold
from sala.labeling.answers import Claim
from sala.labeling.recalibration import (
    LOG_SLOPE_DEVIATION,
    N_DECISIVE,
    SHIFT_DEVIATION,
    Recalibration,
    borne_out,
    fit_recalibration,
    recalibrated_threshold,
)


def claim(p: float, is_outlier: bool) -> Claim:
    return Claim(p, is_outlier, p, is_outlier)


def drawn_pool(rng: np.random.Generator, n: int, overconfidence: float) -> tuple[np.ndarray, np.ndarray]:
    """A fifth are outliers, mostly well apart; the log-odds that the classifier claims are too high by `overconfidence`."""
    x = np.where(rng.random(n) < 0.2, rng.normal(3, 1.5, n), rng.normal(-3, 1.5, n))
    return expit(x + overconfidence).astype(np.float32), rng.random(n) < expit(x)


def test_without_answers_nothing_changes() -> None:
    p = np.array([0.0, 0.2, 0.93, 1.0], np.float32)
    unchanged = fit_recalibration([])
    assert unchanged == Recalibration() and unchanged(p) is p
    held_out = np.full(9, 0.1, np.float32)
    assert recalibrated_threshold(unchanged, p, 0.9, held_out) == rejection_threshold(p, 0.9, held_out)


def test_the_inverse_is_what_the_classifier_said() -> None:
    p = np.array([0.01, 0.2, 0.93], np.float32)
    there = Recalibration(-1.3, 0.7, 5)
    np.testing.assert_allclose(there.inverse(there(p)), p, rtol=1e-5)


def test_many_answers_give_what_maximum_likelihood_does() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 3, 300)
    is_outlier = rng.random(300) < expit(-1.0 + 0.6 * x)
    found = fit_recalibration([claim(float(expit(x_i)), bool(o)) for x_i, o in zip(x, is_outlier, strict=True)])

    def loss(v: np.ndarray) -> float:
        margin = (v[0] + np.exp(v[1]) * x) * np.where(is_outlier, 1, -1)
        prior = (v[0] / SHIFT_DEVIATION) ** 2 / 2 + (v[1] / LOG_SLOPE_DEVIATION) ** 2 / 2
        return float(np.logaddexp(0, -margin).sum() + prior)

    best = minimize(loss, np.zeros(2)).x
    assert (found.shift, np.log(found.slope)) == pytest.approx(best, abs=0.1)


def test_the_answer_of_one_image_moves_probabilities_a_little() -> None:
    once = fit_recalibration([claim(0.9, False)])
    assert -0.8 < once.shift < 0
    assert abs(logit(once(np.array([0.95], np.float32))[0]) - logit(0.95)) < 1.2


def test_rejected_images_that_were_no_outliers_raise_the_threshold_above_them() -> None:
    pool = np.linspace(0.5, 0.999, 200).astype(np.float32)
    identity = Recalibration(0.0, 1.0, 6)
    none, wrong = [claim(0.99, True)] * 6, [claim(0.9, False)] * 3 + [claim(0.99, True)] * 3
    low = borne_out(identity, pool, 0.9, none)
    assert borne_out(identity, pool, 0.9, wrong) > max(low, 0.9)
    assert borne_out(identity, pool, 0.9, [claim(1.0, False)] * 6) > 0.999  # then nothing is rejected


@pytest.mark.parametrize("overconfidence", [0.0, 2.0])
def test_the_asked_precision_is_kept_on_what_follows_thirty_answers(overconfidence: float) -> None:
    """Half of the answers are about rejected images, half about images that chance draws."""
    n_before, right_before, n_after, right_after = np.zeros(4)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p, is_outlier = drawn_pool(rng, 600, overconfidence)
        rejected = np.flatnonzero(p > rejection_threshold(p, 0.9))
        asked = rng.choice(rejected, min(N_DECISIVE // 2, len(rejected)), replace=False)
        asked = np.union1d(asked, rng.choice(600, N_DECISIVE - len(asked), replace=False))
        claims = [claim(float(p[i]), bool(is_outlier[i])) for i in rng.permutation(asked)]
        rest = np.setdiff1d(np.arange(600), asked)
        found = fit_recalibration(claims)
        q = found(p)[rest]
        is_rejected = q > recalibrated_threshold(found, q, 0.9, None, claims)
        was_rejected = p[rest] > rejection_threshold(p[rest], 0.9)
        n_before, right_before = n_before + was_rejected.sum(), right_before + is_outlier[rest][was_rejected].sum()
        n_after, right_after = n_after + is_rejected.sum(), right_after + is_outlier[rest][is_rejected].sum()
    assert right_after / n_after >= 0.9  # 0.905 and 0.926
    if overconfidence:
        assert right_before / n_before < 0.8
        assert right_after > 0.4 * right_before
    else:
        assert right_after > 0.7 * right_before  # where the claims hold, most stays rejected


def test_the_weight_of_held_out_images_fades_without_a_jump() -> None:
    rng = np.random.default_rng(0)
    p, is_outlier = drawn_pool(rng, 400, 0.0)
    held_out = expit(rng.normal(-5, 1, 20)).astype(np.float32)
    claims = [claim(float(p[i]), bool(is_outlier[i])) for i in range(40)]
    sets = []
    for n in range(41):
        found = fit_recalibration(claims[:n])
        q = found(p)
        sets.append(q > recalibrated_threshold(found, q, 0.9, found(held_out), claims[:n]))
    moved = [int((a != b).sum()) for a, b in pairwise(sets)]
    assert np.median(moved) <= 3 and max(moved) <= 0.05 * len(p)

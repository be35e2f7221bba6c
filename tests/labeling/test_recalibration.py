"""The rejection threshold after answers: the classifier's own without any, never lower, and careful with many."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

from sala.classifier.rejection import rejection_threshold
from sala.labeling.answers import Claim
from sala.labeling.recalibration import N_DECISIVE, answered_threshold

POOL = np.linspace(0.0, 0.999, 1000).astype(np.float32)


def claim(p: float, is_outlier: bool) -> Claim:
    return Claim(p, is_outlier, p, is_outlier)


def drawn_pool(rng: np.random.Generator, n: int, overconfidence: float) -> tuple[np.ndarray, np.ndarray]:
    """A fifth are outliers, mostly well apart; the log-odds that the classifier claims are too high by `overconfidence`."""
    x = np.where(rng.random(n) < 0.2, rng.normal(3, 1.5, n), rng.normal(-3, 1.5, n))
    return expit(x + overconfidence).astype(np.float32), rng.random(n) < expit(x)


def test_without_answers_the_threshold_is_the_classifiers() -> None:
    assert answered_threshold(0.8, POOL, 0.9, []) == 0.8
    assert answered_threshold(1.0, POOL, 0.9, []) == 1.0
    assert answered_threshold(1.0, POOL[:0], 0.9, []) == 1.0


def test_answers_that_agree_or_are_about_other_images_reject_the_same_images() -> None:
    for claims in ([claim(0.95, True)] * 40, [claim(0.3, False)] * 40):
        np.testing.assert_array_equal(answered_threshold(0.8, POOL, 0.9, claims) < POOL, POOL > 0.8)


def test_rejected_images_that_were_no_outliers_raise_the_threshold_above_them() -> None:
    wrong = [claim(0.9, False)] * 15 + [claim(0.99, True)] * 15
    found = answered_threshold(0.8, POOL, 0.9, wrong)
    assert 0.9 <= found < 0.99
    assert answered_threshold(0.8, POOL, 0.9, [claim(1.0, False)] * 30) > 0.999  # then nothing is rejected


def test_one_wrong_rejection_does_not_switch_the_threshold() -> None:
    found = [answered_threshold(0.8, POOL, 0.9, [claim(0.95, False)] * n) for n in range(N_DECISIVE + 1)]
    assert found[0] == 0.8 < found[1] < 0.83
    assert all(a <= b for a, b in pairwise(found)) and found[-1] >= 0.95


def test_where_nothing_could_be_rejected_only_many_answers_allow_it() -> None:
    right = [claim(0.9, True)] * 10 + [claim(0.1, False)] * 20
    assert answered_threshold(1.0, POOL, 0.9, right[1:]) == 1.0
    found = answered_threshold(1.0, POOL, 0.9, right)
    assert 0.5 <= found < 0.9
    assert answered_threshold(1.0, POOL, 0.9, right[5:] + right[-5:]) == 1.0  # too few of the kind to be rejected
    assert answered_threshold(1.0, POOL, 0.9, [claim(0.9, True)] * 10 + [claim(0.95, False)] * 20) == 1.0


@pytest.mark.parametrize("overconfidence", [0.0, 2.0])
def test_thirty_answers_bring_rejection_near_the_asked_precision(overconfidence: float) -> None:
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
        own = rejection_threshold(p[rest], 0.9)
        was_rejected, is_rejected = p[rest] > own, p[rest] > answered_threshold(own, p[rest], 0.9, claims)
        n_before, right_before = n_before + was_rejected.sum(), right_before + is_outlier[rest][was_rejected].sum()
        n_after, right_after = n_after + is_rejected.sum(), right_after + is_outlier[rest][is_rejected].sum()
    assert right_after / n_after > max(right_before / n_before, 0.8)
    assert right_after > 0.75 * right_before  # most outliers stay rejected
    if overconfidence == 0:
        assert right_after / n_after >= 0.9 and right_after > 0.9 * right_before

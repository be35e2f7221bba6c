"""Rejection thresholds, by the outlier probabilities themselves and by those of held-out labeled images."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as student

from sala.classifier.coefficients import CAUTION
from sala.classifier.rejection import (
    MIN_HELD_OUT,
    expected_threshold,
    obstacle,
    rejection_threshold,
    tail_threshold,
)


def test_equal_scores_are_rejected_together_or_not_at_all() -> None:
    scores = np.array([1.0] * 9 + [0.0] * 91, np.float32)
    assert (scores > expected_threshold(scores, 0.9)).sum() == 9
    assert (scores > expected_threshold(scores, 0.05)).sum() == 100
    assert (np.ones(5, np.float32) > expected_threshold(np.ones(5, np.float32), 0.9)).all()
    assert not (np.full(5, 0.5, np.float32) > expected_threshold(np.full(5, 0.5, np.float32), 0.9)).any()


def test_probable_inliers_are_not_rejected_on_the_word_of_probable_outliers() -> None:
    """At a precision of 0.9, ninety certain outliers would allow for ten inliers."""
    scores = np.array([1.0] * 90 + [0.1] * 10, np.float32)
    assert (scores > expected_threshold(scores, 0.9)).all()
    assert (scores > rejection_threshold(scores, 0.9)).sum() == 90
    assert (np.array([0.93, 0.2], np.float32) > rejection_threshold(np.array([0.93, 0.2], np.float32), 0.9)).sum() == 1


def test_nothing_is_rejected_where_no_image_is_certain_enough() -> None:
    assert rejection_threshold(np.full(50, 0.6, np.float32), 0.9) == 1
    assert rejection_threshold(np.zeros(0, np.float32), 0.9, np.zeros(0, np.float32)) == 1


def scores(odds: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-odds))).astype(np.float32)


def test_held_out_images_tell_how_many_inliers_score_high() -> None:
    """200 inliers score as the 100 held-out images do, 50 outliers score higher."""
    rng = np.random.default_rng(0)
    inliers, outliers, held_out = (scores(rng.normal(mean, 1.0, n)) for mean, n in ((-2, 200), (2.5, 50), (-2, 100)))
    pool = np.concatenate([inliers, outliers])

    def slow(theirs: np.ndarray) -> float:
        """The lowest score that is good enough, one score at a time."""
        m, good = len(theirs), []
        odds = np.log(theirs / (1 - theirs.astype(np.float64)))
        for s in pool.astype(np.float64):
            z = (math.log(s / (1 - s)) - odds.mean()) / (odds.std(ddof=1) * math.sqrt(1 + 1 / m))
            if 1 - CAUTION * 250 * float(student.sf(z, m - 1)) / sum(pool >= s) >= 0.8:
                good.append(s)
        return min(good, default=math.inf)

    for m in (100, 40, MIN_HELD_OUT):
        assert (pool > tail_threshold(pool, held_out[:m], 0.8)).sum() == (pool >= slow(held_out[:m])).sum()
    is_rejected = pool > rejection_threshold(pool, 0.9, held_out)
    assert is_rejected[200:].mean() > 0.6 and is_rejected[200:].sum() >= 0.9 * is_rejected.sum()
    assert is_rejected.sum() > (pool > rejection_threshold(pool, 0.9)).sum()
    assert tail_threshold(inliers, held_out, 0.9) == np.inf  # no outliers
    assert tail_threshold(pool, held_out[: MIN_HELD_OUT - 1], 0.9) == np.inf  # too few to tell
    assert tail_threshold(pool[:0], held_out, 0.9) == np.inf
    assert (pool > tail_threshold(pool, np.full(MIN_HELD_OUT, 0.1, np.float32), 0.9))[200:].any()  # all equal


def test_a_higher_precision_never_rejects_more() -> None:
    rng = np.random.default_rng(1)
    pool, held_out = scores(np.r_[rng.normal(-1, 1, 150), rng.normal(3, 1, 60)]), scores(rng.normal(-1, 1, 40))
    found = [rejection_threshold(pool, p, held_out) for p in (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)]
    assert found == sorted(found)


def test_pools_without_outliers_are_left_alone() -> None:
    """Pool and held-out images drawn alike: at most one pool in ten may have a rejected image, with caution far fewer."""
    rng = np.random.default_rng(2)
    n = 0
    for _ in range(200):
        pool, held_out = scores(rng.normal(0, 1, 200)), scores(rng.normal(0, 1, 50))
        n += bool((pool > tail_threshold(pool, held_out, 0.9)).any())
    assert n <= 12


def test_why_nothing_is_rejected_is_told() -> None:
    assert "fewer than 8 images" in obstacle(70, 10, 50, 3)
    assert "example of an outlier" in obstacle(500, 10, 0, 0)
    assert obstacle(500, 10, 0, 1) == obstacle(500, 10, MIN_HELD_OUT, 0) == ""


def score(odds: float) -> float:
    return 1 / (1 + math.exp(-odds))


def slow_tail(odds: float, held_out: list[float]) -> float:
    """The probability that one image more, drawn as those were, has these log-odds or higher: it differs from their mean
    by its own chance and by that of the mean."""
    m = len(held_out)
    mean = sum(held_out) / m
    variance_of_one = sum((x - mean) ** 2 for x in held_out) / (m - 1)
    variance_of_mean = variance_of_one / m
    return float(student.sf((odds - mean) / math.sqrt(variance_of_one + variance_of_mean), m - 1))


@pytest.mark.parametrize("odds", [0.5, 1.0, 1.5])
def test_the_mean_of_few_held_out_images_is_itself_uncertain(odds: float) -> None:
    """Log-odds of -3 ten times and of -1 ten times: their mean is -2, their variance 20/19, and that of one image more 21/19.
    An image alone in the pool is rejected at every precision up to 1 less CAUTION times the probability of such a one."""
    held_out = [-3.0, -1.0] * 10
    tail = slow_tail(odds, held_out)
    assert tail == pytest.approx(float(student.sf((odds + 2) / math.sqrt(21 / 19), 19)))
    pool, theirs = np.array([score(odds)]), np.array([score(x) for x in held_out])
    assert tail_threshold(pool, theirs, 1 - CAUTION * tail - 1e-4) == pytest.approx(score(odds), abs=1e-6)
    assert tail_threshold(pool, theirs, 1 - CAUTION * tail + 1e-4) == math.inf

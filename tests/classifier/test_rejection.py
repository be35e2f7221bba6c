"""Rejection thresholds, by the outlier probabilities themselves and by those of held-out labeled images."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t as student

from sala.classifier.rejection import MIN_HELD_OUT, conformal_threshold, expected_threshold, rejection_threshold


def test_equal_scores_are_rejected_together_or_not_at_all() -> None:
    scores = np.array([1.0] * 9 + [0.0] * 91, np.float32)
    assert (scores > expected_threshold(scores, 0.9)).sum() == 9
    assert (scores > expected_threshold(scores, 0.05)).sum() == 100
    assert (np.ones(5, np.float32) > expected_threshold(np.ones(5, np.float32), 0.9)).all()
    assert not (np.full(5, 0.5, np.float32) > expected_threshold(np.full(5, 0.5, np.float32), 0.9)).any()


def test_probable_inliers_are_never_rejected() -> None:
    """At a precision of 0.9, ninety certain outliers would allow for ten inliers."""
    scores = np.array([1.0] * 90 + [0.1] * 10, np.float32)
    assert (scores > expected_threshold(scores, 0.9)).all()
    assert (scores > rejection_threshold(scores, 0.9)).sum() == 90
    assert (np.array([0.93, 0.2], np.float32) > rejection_threshold(np.array([0.93, 0.2], np.float32), 0.9)).sum() == 1


def test_held_out_images_tell_how_many_inliers_score_high() -> None:
    """200 inliers score as the 100 held-out images do, 50 outliers score higher."""
    rng = np.random.default_rng(0)

    def scores(odds: np.ndarray) -> np.ndarray:
        return (1 / (1 + np.exp(-odds))).astype(np.float32)

    inliers, outliers, held_out = (scores(rng.normal(mean, 1.0, n)) for mean, n in ((-2, 200), (1.5, 50), (-2, 100)))
    pool = np.concatenate([inliers, outliers])

    def slow(theirs: np.ndarray) -> float:
        """The lowest score that is good enough, one score at a time."""
        m, good = len(theirs), []
        odds = np.log(theirs / (1 - theirs.astype(np.float64)))
        for s in pool.astype(np.float64):
            z = (math.log(s / (1 - s)) - odds.mean()) / (odds.std(ddof=1) * math.sqrt(1 + 1 / m))
            tail = max(float(student.sf(z, m - 1)), (sum(theirs >= s) + 1) / (m + 1))
            if 1 - 250 * tail / sum(pool >= s) >= 0.8:
                good.append(s)
        return min(good, default=math.inf)

    for m in (100, 40, 30):
        assert (pool > conformal_threshold(pool, held_out[:m], 0.8)).sum() == (pool >= slow(held_out[:m])).sum()
    few = scores(np.linspace(-5.0, -3.5, 30))  # of which the tail alone decides
    assert (pool > conformal_threshold(pool, few, 0.8)).sum() == (pool >= slow(few)).sum()
    is_rejected = pool > rejection_threshold(pool, 0.9, held_out)
    assert is_rejected[200:].mean() > 0.6 and is_rejected[200:].sum() >= 0.85 * is_rejected.sum()
    assert is_rejected.sum() > (pool > rejection_threshold(pool, 0.9)).sum()
    assert conformal_threshold(inliers, held_out, 0.9) == np.inf  # no outliers
    assert conformal_threshold(pool, held_out[:7], 0.9) == np.inf  # too few to tell
    assert conformal_threshold(pool[:0], held_out, 0.9) == np.inf
    assert (pool > conformal_threshold(pool, np.full(20, 0.1, np.float32), 0.9))[200:].any()  # all equal


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


@pytest.mark.parametrize("odds", [-0.9, -0.8, -0.7])
def test_the_mean_of_few_held_out_images_is_itself_uncertain(odds: float) -> None:
    """Log-odds of -3 four times and of -1 four times: their mean is -2, their variance 8/7, and that of one image more
    9/7. An image alone in the pool is rejected at every precision up to the probability that it is not such a one."""
    held_out = [-3.0, -1.0] * 4
    tail = slow_tail(odds, held_out)
    assert tail == pytest.approx(float(student.sf((odds + 2) / math.sqrt(9 / 7), 7)))
    assert tail > 1 / 9  # so that the tail decides, and not the number of images
    pool, theirs = np.array([score(odds)]), np.array([score(x) for x in held_out])
    assert conformal_threshold(pool, theirs, 1 - tail - 1e-4) == pytest.approx(score(odds), abs=1e-6)
    assert conformal_threshold(pool, theirs, 1 - tail + 1e-4) == math.inf


def test_few_held_out_images_cannot_vouch_for_a_high_precision() -> None:
    """However far an image is from eight others, a ninth of their kind would be the farthest of all once in nine times."""
    pool, theirs = np.array([0.999]), np.full(MIN_HELD_OUT, 0.1)
    assert conformal_threshold(pool, theirs, 8 / 9 - 1e-6) < 0.999
    assert conformal_threshold(pool, theirs, 8 / 9 + 1e-6) == math.inf

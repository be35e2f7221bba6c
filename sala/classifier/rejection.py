"""The rejection threshold: from which outlier probability on an image is rejected as an outlier, at a chosen precision.

Other classes of the same kind look much like unusual inliers, and an outlier probability that is right on average over many
pools is not right in each of them. So images are rejected only where known outliers or enough held-out labeled images vouch
for it; elsewhere nothing is, and the images most probably outliers are only shown first.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtr

from sala.classifier import coefficients as chosen
from sala.classifier.normalize import Floats
from sala.errors import SalaError

MIN_HELD_OUT = 20  # labeled images: fewer do not show how the scores of inliers are distributed
MIN_POOL = 8  # images of the pool for each class: in fewer, an unusual inlier has no others like it beside it


def rejection_threshold(outlier_probability: Floats, precision: float = 0.9, held_out: Floats | None = None) -> float:
    """The outlier probability above which images are rejected, so that the share `precision` of them are outliers.

    The lower of two thresholds: one takes the outlier probabilities at their word (`expected_threshold`), one compares them
    with those of held-out labeled images (`tail_threshold`).

    Parameters
    ----------
    outlier_probability : array of shape (n,)
        Of the images of a pool, as `PoolPredictions.outlier_probability`.
    precision : float, default 0.9
        The wanted share of outliers among rejected images, above 0 and up to 1.
    held_out : array of shape (m,), optional
        Outlier probabilities of held-out labeled images, as `Fitted.held_out_outlier_probability`.

    Returns
    -------
    float
        1 where no image can be rejected at this precision.

    Raises
    ------
    SalaError
        If `precision` is not a share.

    Examples
    --------
    >>> import numpy as np
    >>> from sala import rejection_threshold
    >>> scores = np.array([0.99, 0.95, 0.85, 0.2, 0.01], np.float32)
    >>> scores > rejection_threshold(scores, precision=0.9)
    array([ True,  True,  True, False, False])
    >>> scores > rejection_threshold(scores, precision=0.98)
    array([ True, False, False, False, False])
    """
    lowest = max(expected_threshold(outlier_probability, precision), min(0.5, precision))
    if held_out is not None:
        lowest = min(lowest, tail_threshold(outlier_probability, held_out, precision))
    return min(lowest, 1.0)


def expected_threshold(outlier_probability: Floats, precision: float = 0.9) -> float:
    """The lowest threshold above which the mean outlier probability is at least `precision`; infinite if there is none."""
    if not 0 < precision <= 1:
        raise SalaError(f"precision must be above 0 and at most 1: got {precision:g}; the default is 0.9")
    falling = np.sort(np.asarray(outlier_probability, np.float64))[::-1]
    expected = np.cumsum(falling) / np.arange(1, len(falling) + 1)
    n_rejected = int((expected >= precision).sum())  # expected falls: a running mean of falling numbers
    if n_rejected == 0:
        return math.inf
    last = float(falling[n_rejected - 1])
    if n_rejected < len(falling) and falling[n_rejected] == last:  # equals go together, and together they are too many
        return last
    return just_below(last)


def tail_threshold(outlier_probability: Floats, held_out: Floats, precision: float = 0.9) -> float:
    """The lowest threshold at which the false discovery rate is at most 1 - `precision`; infinite if there is none.

    The Benjamini-Hochberg procedure (JRSS B 1995): of N images, n(s) score s or more, and N F(s) of these are expected to be
    inliers, where F is the tail of Student's t-distribution for one more of the held-out images, by log-odds. Labeled images
    are more typical than the pool's inliers, so `CAUTION` times as many are reckoned with.
    """
    n, m = len(outlier_probability), len(held_out)
    if m < MIN_HELD_OUT or not n:
        return math.inf
    scores = np.unique(np.asarray(outlier_probability, np.float64))  # rising
    n_above = n - np.searchsorted(np.sort(outlier_probability), scores)
    theirs = log_odds(held_out)
    deviation = max(float(theirs.std(ddof=1)) * math.sqrt(1 + 1 / m), 1e-6)
    tail = stdtr(m - 1, (theirs.mean() - log_odds(scores)) / deviation)
    is_precise = 1 - chosen.CAUTION * n * tail / n_above >= precision
    return just_below(float(scores[is_precise.argmax()])) if is_precise.any() else math.inf


def obstacle(n_pool: int, n_way: int, n_held_out: int, n_known: int) -> str:
    """Why nothing can be rejected in a pool, in one sentence; empty where something can."""
    if n_pool < MIN_POOL * n_way:
        return (
            f"No image is rejected: in a pool of fewer than {MIN_POOL} images of a class, outliers are not told from unusual "
            "images."
        )
    if n_known or n_held_out >= MIN_HELD_OUT:
        return ""
    return (
        f"No image is rejected: that takes an example of an outlier, or {MIN_HELD_OUT} labeled images with two or more of "
        "each class."
    )


def log_odds(p: Floats | np.ndarray) -> np.ndarray:
    """log(p / (1 - p)), finite also at 0 and 1."""
    p = np.clip(np.asarray(p, np.float64), 1e-9, 1 - 1e-9)
    odds: np.ndarray = np.log(p / (1 - p))
    return odds


def just_below(score: float) -> float:
    """The next smaller float32, the type of the scores that are compared with it."""
    return float(np.nextafter(np.float32(score), np.float32(-math.inf)))

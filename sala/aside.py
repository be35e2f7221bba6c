"""Which images of a pool are set aside as junk: those of which a chosen share is expected to be junk."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtr

from sala.errors import SalaError
from sala.points import Floats

MIN_LEFT_OUT = 8  # labelled images that are left out in turn: fewer say nothing of how scores of a class spread


def aside_threshold(none_score: Floats, precision: float = 0.9, left_out: Floats | None = None) -> float:
    """What scores higher is set aside as junk, so that the share `precision` of it is junk: as the scores themselves say
    (`none_threshold`), or the scores of labelled images that were `left_out` in turn (`left_out_threshold`), whichever
    sets more aside. Always an image whose score is above the precision by itself, and never one that is more probably of
    a class."""
    lowest = none_threshold(none_score, precision)
    if left_out is not None:
        lowest = min(lowest, left_out_threshold(none_score, left_out, precision))
    return max(min(lowest, precision), 0.5)


def none_threshold(none_score: Floats, precision: float = 0.9) -> float:
    """The lowest score such that of the images which score higher the wanted share is expected to be of no class.

    Infinite where no image is that surely junk.
    """
    if not 0 < precision <= 1:
        raise SalaError(f"precision is a share above 0 and up to 1; got {precision:g}")
    falling = np.sort(np.asarray(none_score, np.float64))[::-1]
    expected = np.cumsum(falling) / np.arange(1, len(falling) + 1)
    n_aside = int((expected >= precision).sum())  # expected falls: a running mean of falling numbers
    if n_aside == 0:
        return math.inf
    last = float(falling[n_aside - 1])
    if n_aside < len(falling) and falling[n_aside] == last:  # equals go together, and together they are too many
        return last
    return just_below(last)


def left_out_threshold(none_score: Floats, left_out: Floats, precision: float = 0.9) -> float:
    """The lowest score such that, of the images which score higher, no more than the rest can be of a class, if these score
    as labelled images do that are left out in turn: of N images N F(s) at most are of classes and score s or more, of n(s)
    in all (Benjamini and Hochberg 1995).

    F is the p-value of conformal tests (Bates et al. 2023, arXiv:2104.08279): the share of left-out images that score as
    high, and one image more; but never less than the tail of Student's distribution for one more image after them, by
    the log-odds of the scores.
    """
    if len(left_out) < MIN_LEFT_OUT or not len(none_score):
        return math.inf
    scores = np.unique(np.asarray(none_score, np.float64))  # rising
    n_above = len(none_score) - np.searchsorted(np.sort(none_score), scores)
    m = len(left_out)
    seen = m - np.searchsorted(np.sort(left_out), scores)
    odds, theirs = log_odds(scores), log_odds(left_out)
    spread = max(float(theirs.std(ddof=1)) * math.sqrt(1 + 1 / m), 1e-6)
    tail = np.maximum(stdtr(m - 1, (theirs.mean() - odds) / spread), (seen + 1) / (m + 1))
    is_good = 1 - len(none_score) * tail / n_above >= precision
    return just_below(float(scores[is_good.argmax()])) if is_good.any() else math.inf


def log_odds(p: Floats | np.ndarray) -> np.ndarray:
    p = np.clip(np.asarray(p, np.float64), 1e-9, 1 - 1e-9)
    odds: np.ndarray = np.log(p / (1 - p))
    return odds


def just_below(score: float) -> float:
    """In float32, as the scores that are compared with it."""
    return float(np.nextafter(np.float32(score), np.float32(-math.inf)))

"""Outlier probabilities that agree with what the user has said, so that rejected images are outliers as often as asked.

Whether the classifier's outlier probability can be taken at its word depends on the images. Each image that the user labels
tells: it had a probability, and is an outlier or not. From these answers the log-odds x are corrected to a + b x (Platt's
scaling), with a prior at a = 0, b = 1. Without answers nothing changes; with 30 they decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sala.classifier.normalize import Floats
from sala.classifier.rejection import just_below, log_odds, rejection_threshold
from sala.labeling.answers import Claim

N_DECISIVE = 30  # answers after which they alone decide about the threshold
N_NEWEST = 300  # answers that count: older ones judged a classifier that knew less
# The prior's deviations. Over the 36 pools named in progress.py, a fitted to 300 images is off 0 by 1.1, and log b by 0.3.
SHIFT_DEVIATION, LOG_SLOPE_DEVIATION = 1.0, 0.3
PRIOR_ANSWERS = 4.0  # answers that the mean probability of the rejected images is worth
DOUBT = 0.1  # of an answer, for each answer
LIMIT = 9.2  # of log-odds: answers are recorded in 1/10,000
GRID = np.linspace(-4, 4, 81)  # deviations at which the posterior is summed up


@dataclass(frozen=True)
class Recalibration:
    """Log-odds x become shift + slope x. As made without arguments it changes nothing."""

    shift: float = 0.0
    slope: float = 1.0
    n_answers: int = 0

    def __call__(self, outlier_probability: Floats) -> Floats:
        """The same array if nothing changes, so that pools without answers are as the classifier says, to the bit."""
        if not self.n_answers:
            return outlier_probability
        recalibrated: Floats = expit(self.shift + self.slope * log_odds(outlier_probability)).astype(np.float32)
        return recalibrated

    def inverse(self, outlier_probability: Floats | NDArray[np.float64]) -> NDArray[np.float64]:
        """What the classifier itself said."""
        raw: NDArray[np.float64] = expit((log_odds(outlier_probability) - self.shift) / self.slope)
        return raw


NO_ANSWERS = Recalibration()


def fit_recalibration(claims: Sequence[Claim]) -> Recalibration:
    """The posterior mean of shift and log slope after the newest answers, by a sum over a grid."""
    claims = claims[-N_NEWEST:]
    if not claims:
        return NO_ANSWERS
    x = np.clip(log_odds(np.array([claim.outlier_probability for claim in claims])), -LIMIT, LIMIT)
    sign = np.array([1.0 if claim.is_outlier else -1.0 for claim in claims])
    shift, log_slope = GRID[:, None] * SHIFT_DEVIATION, GRID[None, :] * LOG_SLOPE_DEVIATION
    log_posterior = -(GRID[:, None] ** 2 + GRID[None, :] ** 2) / 2
    for x_i, sign_i in zip(x, sign, strict=True):
        log_posterior = log_posterior - np.logaddexp(0, -sign_i * (shift + np.exp(log_slope) * x_i))
    weight = np.exp(log_posterior - log_posterior.max())
    weight /= weight.sum()
    return Recalibration(
        float((weight * shift).sum()), float(np.exp((weight * log_slope).sum())), n_answers=len(claims)
    )


def recalibrated_threshold(
    recalibration: Recalibration,
    outlier_probability: Floats,
    precision: float,
    held_out: Floats | None = None,
    claims: Sequence[Claim] = (),
) -> float:
    """The rejection threshold for recalibrated probabilities.

    Before there are answers, held-out labeled images vouch for it too. They are easier than the pool, so with each answer
    they count less, and after N_DECISIVE not at all: the change is gradual, and no single answer switches it. Where answers
    above the threshold were outliers less often than asked, it rises until they are not (`borne_out`).
    """
    n, both = recalibration.n_answers, rejection_threshold(outlier_probability, precision, held_out)
    if n == 0:
        return both
    raw = recalibration.inverse(outlier_probability).astype(np.float32)
    claimed = recalibration(np.array([rejection_threshold(raw, precision)], np.float32))[0]
    alone = max(
        float(claimed),  # answers about other images do not make up for some about images like these
        rejection_threshold(outlier_probability, precision),
        borne_out(recalibration, outlier_probability, precision, claims),
    )
    share = min(1.0, n / N_DECISIVE)
    return float(expit((1 - share) * log_odds(np.array(both)) + share * log_odds(np.array(alone))))


def borne_out(
    recalibration: Recalibration, outlier_probability: Floats, precision: float, claims: Sequence[Claim]
) -> float:
    """The lowest threshold above which the expected share of outliers is `precision`, answers included; else just below 1.

    The mean probability of the images above it counts as PRIOR_ANSWERS answers, beside those that the user gave of images
    above it (the mean of a beta distribution). Of many thresholds the lowest that looks precise is taken, which is too
    often one that was lucky: for that, up to one answer more counts
    against it.
    """
    claims = claims[-N_NEWEST:]
    theirs = recalibration(np.array([claim.outlier_probability for claim in claims], np.float32))
    falling = np.sort(np.asarray(outlier_probability, np.float64))[::-1]
    if not len(falling):
        return just_below(1)
    mean = np.cumsum(falling) / np.arange(1, len(falling) + 1)
    order = np.argsort(-theirs, kind="stable")
    n_above = np.searchsorted(-theirs[order], -falling, side="right")  # answers that score as high
    n_outliers = np.concatenate([[0], np.cumsum([claims[i].is_outlier for i in order])])[n_above]
    n_doubted = np.minimum(DOUBT * n_above, 1.0)
    is_precise = (PRIOR_ANSWERS * mean + n_outliers) / (PRIOR_ANSWERS + n_above + n_doubted) >= precision
    return just_below(float(falling[np.flatnonzero(is_precise)[-1]])) if is_precise.any() else just_below(1)

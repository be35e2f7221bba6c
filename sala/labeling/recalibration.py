"""The rejection threshold after the user's answers: among rejected images, outliers are to be as frequent as asked.

Whether outlier probabilities can be taken at their word depends on the images. Each image that the user labels tells: it had
a probability, and is an outlier or not. Where labeled images above the threshold were outliers too seldom, it rises. Where
nothing else vouches for rejections, many answers can. The probabilities stay as they are: the classifier learns from the same
labels already, and images that somebody chose to label are not like the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sala.classifier.normalize import Floats
from sala.classifier.rejection import just_below, log_odds
from sala.labeling.answers import Claim

N_DECISIVE = 30  # answers after which they decide; chosen, not measured
N_NEWEST = 300  # answers that count: older ones judged a classifier that knew less
N_PRIOR = 2.0  # answers that the expectation before them is worth, as in Laplace's rule of succession


def answered_threshold(
    threshold: float, outlier_probability: Floats, precision: float, claims: Sequence[Claim]
) -> float:
    """The rejection threshold in place of the classifier's own, which is 1 where nothing can be rejected.

    Answers raise a threshold, and never lower it; below N_DECISIVE they do so in part, so that no single answer switches it.
    From N_DECISIVE on they may also allow rejections where there were none.
    """
    if not claims:
        return threshold
    claims = claims[-N_NEWEST:]
    share = min(1.0, len(claims) / N_DECISIVE)
    falling = np.sort(np.asarray(outlier_probability, np.float64))[::-1]
    if threshold >= 1:
        if share < 1:
            return threshold
        found = lowest_precise(falling, np.full(len(falling), 0.5), precision, claims)  # outliers or not: nothing tells
        return max(found, min(0.5, precision))
    falling = falling[falling > threshold]
    mean = np.cumsum(falling) / np.arange(1, len(falling) + 1)
    risen = lowest_precise(falling, np.maximum(mean, precision), precision, claims)
    return max(threshold, float(expit((1 - share) * log_odds(np.array(threshold)) + share * log_odds(np.array(risen)))))


def lowest_precise(
    falling: NDArray[np.float64], expected: NDArray[np.float64], precision: float, claims: Sequence[Claim]
) -> float:  # [n], [n]
    """The lowest threshold above which the share of outliers is `precision`; 1 if there is none.

    `expected` is the share among the images that score as high, before answers. It counts as N_PRIOR answers beside those
    that the user gave of such images: the mean of a beta distribution.
    """
    rising = np.sort([claim.outlier_probability for claim in claims])
    outliers = np.sort([claim.outlier_probability for claim in claims if claim.is_outlier])
    n_above = len(rising) - np.searchsorted(rising, falling)  # answers that score as high
    n_outliers = len(outliers) - np.searchsorted(outliers, falling)
    is_precise = (N_PRIOR * expected + n_outliers) / (N_PRIOR + n_above) >= precision - 1e-9
    return just_below(float(falling[np.flatnonzero(is_precise)[-1]])) if is_precise.any() else 1.0

"""How much of a pool is right by now, as a range, and how many labels a goal still takes.

The classifier claims a chance for each label. How many labels are wrong is the number that these claims add up to, times a
factor: 1 if the claims hold. What the factor is, the user's own answers tell, for claims of each size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from sala.labeling.answers import Claim

# Claims below, between and above these are judged apart: confident ones may be worse than others.
EDGES = np.array([0.5, 0.9])
# Wrong labels that the claims of each size are worth before any answer; the factor varies over pools by 1 / sqrt(PRIOR).
# Chosen, not measured: the more confident the claims, the sooner answers outweigh them.
PRIOR = np.array([8.0, 4.0, 1.0])
CONFIDENCE = 0.95
SMOOTHING = 0.3  # share of the newest fit in the range that is shown
PACE_LABELS = 10  # labels that a pace is estimated from, at least
Floats64 = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """A share of right labels: what is expected, and between what it lies with 95 % probability."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True)
class Factors:
    """By how much labels are wrong more often than claimed: a gamma distribution for claims of each size."""

    shape: Floats64  # [3]
    rate: Floats64  # [3]

    @property
    def mean(self) -> Floats64:
        return self.shape / self.rate


def error_factors(claims: Sequence[Claim]) -> Factors:
    """The factors after answers. With k wrong labels where w were claimed, the mean is (prior + k) / (prior + w)."""
    chance = np.array([claim.chance for claim in claims], np.float64)
    is_wrong = np.array([not claim.is_right for claim in claims], bool)
    bins = np.digitize(chance, EDGES)
    n = len(EDGES) + 1
    return Factors(PRIOR + np.bincount(bins, is_wrong.astype(np.float64), n), PRIOR + np.bincount(bins, 1 - chance, n))


def wrong_probability(chance: Floats64, factors: Factors) -> Floats64:
    """[n]: the probability that each label is wrong. A given label, of chance 1, is right."""
    return np.minimum(factors.mean[np.digitize(chance, EDGES)] * (1 - chance), 1.0)


def expected_right(chance: Floats64, factors: Factors) -> Range:
    """The share of right labels among n images, from their claimed chances.

    The number of wrong ones varies since the factors are not known, and by chance. A gamma distribution of the same mean and
    variance gives the range.
    """
    n = len(chance)
    if not n:
        return Range(1.0, 1.0, 1.0)
    wrong = wrong_probability(chance, factors)
    by_size = np.bincount(np.digitize(chance, EDGES), wrong, len(EDGES) + 1)
    mean, variance = wrong.sum(), (by_size**2 / factors.shape).sum() + (wrong * (1 - wrong)).sum()
    if mean <= 0:
        return Range(1.0, 1.0, 1.0)
    shape = mean**2 / variance
    few, many = (float(gammaincinv(shape, q)) * variance / mean for q in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return Range(max(0.0, 1 - many / n), 1 - float(mean) / n, 1 - few / n)


def smoothed(before: Range | None, now: Range) -> Range:
    """A range that follows the fits slowly, so that no single label makes it jump. What is certain is told at once."""
    if before is None or now.low == now.high:
        return now
    low, mean, high = (
        (1 - SMOOTHING) * old + SMOOTHING * new
        for old, new in ((before.low, now.low), (before.mean, now.mean), (before.high, now.high))
    )
    return Range(low, mean, high)


def labels_needed(chance: Floats64, factors: Factors, goal: float) -> int:
    """How many labels reach the goal at most: if nothing is learned from them, and the least certain come first."""
    wrong = np.sort(wrong_probability(chance, factors))[::-1]
    left = wrong.sum() - np.concatenate([[0.0], np.cumsum(wrong)])
    return int((left > (1 - goal) * len(chance) + 1e-9).sum())


def labels_at_pace(history: Sequence[tuple[int, float]], goal: float) -> int | None:
    """How many more labels at the pace so far: (labels given, expected share right) of each fit. None where it is unknown."""
    if not history:
        return None
    n_now, now = history[-1]
    earlier = [(n, share) for n, share in history if n_now - n >= PACE_LABELS]
    if not earlier:
        return None
    n_then, then = earlier[-1]
    gain = (now - then) / (n_now - n_then)
    return math.ceil(max(0.0, goal - now) / gain) if gain > 1e-6 else None


@dataclass(frozen=True)
class Estimate:
    """One fit: the claimed chance of each image, 1 where the user gave the label, and the factors then."""

    chance: Floats64
    is_given: NDArray[np.bool_]
    factors: Factors


@dataclass(frozen=True)
class Parts:
    """What moved the expected share, in shares of the pool."""

    by_labels: float  # images that have a label of the user's now
    by_predictions: float  # predictions that changed with them
    by_answers: float  # the user's answers: right more or less often than claimed

    @property
    def total(self) -> float:
        return self.by_labels + self.by_predictions + self.by_answers


def parts_of_move(before: Estimate, after: Estimate) -> Parts:
    """Why the expected share of right labels is another than before. The parts add up to the difference."""
    n = max(len(after.chance), 1)
    old, same_factors = (wrong_probability(e.chance, before.factors) for e in (before, after))
    new = wrong_probability(after.chance, after.factors)
    is_labeled = after.is_given & ~before.is_given
    gained = old - same_factors
    return Parts(
        float(gained[is_labeled].sum()) / n,
        float(gained[~is_labeled].sum()) / n,
        float((same_factors - new).sum()) / n,
    )


def told_move(parts: Parts) -> str:
    """One sentence for a move of half a point or more; empty for a smaller one."""
    if abs(parts.total) < 0.005:
        return ""
    reasons = [
        (parts.by_labels, "from the images that you labeled"),
        (parts.by_predictions, "from predictions that changed with them"),
        (
            parts.by_answers,
            f"since predictions were right {'more' if parts.by_answers > 0 else 'less'} often than claimed",
        ),
    ]
    told = [f"{100 * share:+.1f} {why}" for share, why in reasons if abs(share) >= 0.0005]
    return f"{'Up' if parts.total > 0 else 'Down'} {abs(100 * parts.total):.1f} points: {', '.join(told)}."

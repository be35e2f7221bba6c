"""Is an image of any of the classes at all? What its similarities to their prototypes say about that.

`belonging` describes a pool without a label: the probability of each image to be of a class, and the share of those that
are of none. During refinement it decides how much an image may move the prototypes, and in the end what is junk,
which `none_threshold` sets aside at a chosen precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sala.errors import SalaError

# Of `Belonging.evidence`, fitted on other data (docs/practice.md): of 1; u, h, k, s, q, l; and their products uu, uh, ... ll
ONE_CLASS: tuple[float, ...] = (
    -0.958, -1.385, 0.748, 0.0, -0.634, -0.733, 0.0, -0.217, -3.556, 0.0, -0.642, -0.412, 0.0, 5.14, 0.0,
    0.297, 0.836, 0.0, 0.0, 0.0, 0.0, 0.0, 0.046, 0.176, 0.0, -0.066, 0.0, 0.0,
)  # fmt: skip
ONE_SHOT: tuple[float, ...] = (
    1.166, -1.088, 0.876, -0.211, 0.0, -0.184, 0.0, -0.804, -5.946, 0.849, 0.0, -2.817, 0.0, 2.015, -0.432,
    0.0, 1.478, 0.0, 0.05, 0.0, -0.824, 0.0, 0.0, 0.0, 0.0, 3.233, 0.0, 0.0,
)  # fmt: skip
SHOTS: tuple[float, ...] = (
    0.527, -0.819, 0.301, -0.179, -0.312, 0.651, 0.699, -0.897, -4.194, 0.807, -0.158, -2.037, -3.83, 0.061,
    -0.197, -0.003, -0.157, 2.407, 0.069, -0.023, -0.692, -0.144, 0.053, -0.087, 0.275, 2.328, 1.059, 1.28,
)  # fmt: skip
MIN_HELD_OUT = 4  # labelled images of classes with two or more
EXPECTED, STRENGTH = 0.1, 10.0  # junk where nothing is known, and how many images that counts for


def second_best(similarities: Tensor) -> Tensor:  # [n, k] -> [n]
    """How similar an image is to the best of the classes that it does not belong to; 0, the mean, where there is one class."""
    if similarities.shape[1] < 2:
        return torch.zeros(len(similarities))
    return similarities.topk(2, -1).values[:, 1]


def known_similarity(to_first: Tensor, to_refined: Tensor, trust: float) -> Tensor:  # [n, k], [n, k] -> [n]
    """To the best refined prototype and to the best first one, between the two: junk that was let in has moved only the
    former."""
    return trust * to_refined.amax(-1) + (1 - trust) * to_first.amax(-1)


@dataclass(frozen=True)
class Belonging:
    """The probability to be of a known class as a function of `known_similarity`; it never falls.

    u = (similarity - low) / (high - low) is 0 for an image as similar as to classes that it is not of, and 1 for the better
    known images. How much u says depends on how alike the images of a class are (h = high), on the logarithms of the
    number of classes (k: among many, some class is always near) and of labelled images a class (s), on where the pool's
    median is (q), and on where labelled images are when they are left out of their prototypes (l). That was learned on
    tasks from other images, as log p(u | none) / p(u | known), a quadratic form in (u, h, k, s, q, l). The share of
    junk is estimated from the pool itself.
    """

    low: float
    high: float
    middle: float  # u of the pool's median
    left_out: float | None  # u of labelled images, each left out in turn, on average; None where there are too few
    n_way: int
    n_shot: float
    none_share: float
    trust: float = 0.0  # in the refined prototypes against the first ones, in `known_similarity`

    def __post_init__(self) -> None:
        numbers = [self.low, self.high, self.middle, self.n_shot, self.none_share, self.trust, self.left_out or 0.0]
        if not all(map(math.isfinite, numbers)) or self.n_way < 1 or self.n_shot <= 0 or not 0 < self.none_share < 1:
            raise ValueError(f"{vars(self)} describes no pool")

    def of(self, to_first: Tensor, to_refined: Tensor) -> Tensor:  # [n, k], [n, k] -> [n]
        return self.known(known_similarity(to_first, to_refined, self.trust))

    def evidence(self, similarity: Tensor) -> Tensor:
        """log p(similarity | none) / p(similarity | known)"""
        c = np.array(ONE_CLASS if self.n_way == 1 else ONE_SHOT if self.left_out is None else SHOTS)
        pool = (self.high, math.log(self.n_way), math.log(self.n_shot), self.middle, self.left_out or 0.0)
        products = [a * b for i, a in enumerate(pool) for b in pool[i:]]
        base, slope = float(c[0] + c[2:7] @ pool + c[13:] @ products), float(c[1] + c[8:13] @ pool)
        curvature = float(c[7])
        u = self.position(similarity)
        if curvature:  # beyond its turn the form would rise with similarity: it stays where it is
            turn = -slope / (2 * curvature)
            u = u.clamp_max(turn) if curvature > 0 else u.clamp_min(turn)
        return base + slope * u + curvature * u * u

    def position(self, similarity: Tensor) -> Tensor:
        """u"""
        return ((similarity - self.low) / max(self.high - self.low, 1e-3)).clamp(-1, 2)

    def known(self, similarity: Tensor) -> Tensor:
        return torch.sigmoid(math.log((1 - self.none_share) / self.none_share) - self.evidence(similarity))


@dataclass(frozen=True)
class Similarities:
    """To prototypes: of the pool's images, and of labelled ones that were left out in turn, which may be none."""

    pool: Tensor  # [n, k]
    held_out: Tensor  # [m, k]


def belonging(first: Similarities, refined: Similarities, n_shot: float) -> Belonging:
    """Of a pool: first by the first prototypes, which junk cannot have moved. The less junk there seems to be, the more the
    refined ones are trusted then."""
    trust = trusted(belonging_by(first, n_shot).none_share)
    similarity, held_out = (
        known_similarity(a, b, trust) for a, b in ((first.pool, refined.pool), (first.held_out, refined.held_out))
    )
    second = trust * second_best(refined.pool) + (1 - trust) * second_best(first.pool)
    return fitted_to(similarity, second, held_out, first.pool.shape[1], n_shot, trust)


def belonging_by(found: Similarities, n_shot: float) -> Belonging:
    """By one kind of prototypes alone."""
    best, held_out = found.pool.amax(-1), found.held_out.amax(-1)
    return fitted_to(best, second_best(found.pool), held_out, found.pool.shape[1], n_shot)


def trusted(none_share: float) -> float:
    """How much the refined prototypes count where so much of the pool is junk. The square was chosen with the coefficients."""
    return (1 - none_share) ** 2


def fitted_to(
    similarity: Tensor,
    second: Tensor,
    held_out: Tensor,
    n_way: int,
    n_shot: float,
    trust: float = 0.0,
    n_steps: int = 200,
) -> Belonging:
    """To similarities to the best and to the second best prototype: their range, and the share of junk with the highest
    likelihood, drawn to a few images' worth of what is usual (expectation-maximisation, as Saerens et al., Neural
    Computation 2002)."""
    if len(similarity) < 2:
        return Belonging(0.0, 0.6, 0.7, None, n_way, n_shot, EXPECTED, trust)
    high, median = (at(similarity, q) for q in (0.9, 0.5))
    found = Belonging(float(second.mean()), high, 0.0, None, n_way, n_shot, EXPECTED, trust)
    found = replace(found, middle=float(found.position(torch.tensor(median))))
    if n_way > 1 and len(held_out) >= MIN_HELD_OUT:
        found = replace(found, left_out=float(found.position(held_out.mean())))
    evidence, share = found.evidence(similarity), found.none_share
    for _ in range(n_steps):
        none = torch.sigmoid(evidence + math.log(share / (1 - share)))
        before, share = share, (float(none.sum()) + STRENGTH * EXPECTED) / (len(none) + STRENGTH)
        if abs(share - before) < 1e-5:
            break
    return replace(found, none_share=share)


def at(values: Tensor, quantile: float) -> float:
    return float(values.kthvalue(1 + int(quantile * (len(values) - 1))).values)


def none_threshold(none_score: NDArray[np.float32], precision: float = 0.9) -> float:
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
    return float(
        np.nextafter(np.float32(last), np.float32(-math.inf))
    )  # float32, as the scores that are compared with it

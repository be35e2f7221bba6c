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

# Of `Belonging.evidence`, fitted on other data (docs/practice.md): of 1; u, h, k, s, q; and their products uu, uh, uk, ... qq
ONE_CLASS: tuple[float, ...] = (
    -0.971, -1.391, 0.764, 0.0, -0.618, -0.732, -0.205, -3.541, 0.0, -0.611, -0.412, 5.091, 0.0, 0.266, 0.848,
    0.0, 0.0, 0.0, 0.054, 0.18, -0.062,
)  # fmt: skip
CLASSES: tuple[float, ...] = (
    1.551, -1.25, 0.354, -0.359, 0.273, -0.232, -1.068, -5.683, 0.867, -0.554, -2.584, 2.395, -0.235, 0.143,
    0.67, 0.058, -0.056, -0.867, 0.033, -0.106, 3.671,
)  # fmt: skip
EXPECTED, STRENGTH = 0.1, 10.0  # junk where nothing is known, and how many images that counts for


def second_best(similarities: Tensor) -> Tensor:  # [n, k] -> [n]
    """How similar an image is to the best of the classes that it does not belong to; 0, the mean, where there is one class."""
    if similarities.shape[1] < 2:
        return torch.zeros(len(similarities))
    return similarities.topk(2, -1).values[:, 1]


def known_similarity(to_first: Tensor, to_refined: Tensor, trust: float = 0.5) -> Tensor:  # [n, k], [n, k] -> [n]
    """To the best refined prototype and to the best first one, between the two: junk that was let in has moved only the
    former."""
    return trust * to_refined.amax(-1) + (1 - trust) * to_first.amax(-1)


@dataclass(frozen=True)
class Belonging:
    """The probability to be of a known class as a function of `known_similarity`; it never falls.

    u = (similarity - low) / (high - low) is 0 for an image as similar as to classes that it is not of, and 1 for the better
    known images. How much u says depends on how alike the images of a class are (h = high), on the logarithms of the
    number of classes (k: among many, some class is always near) and of labelled images a class (s), and on where the
    pool's median is (q). That was learned on tasks from other images, as log p(u | none) / p(u | known), a quadratic
    form in (u, h, k, s, q). The share of junk is estimated from the pool itself.
    """

    low: float
    high: float
    middle: float  # u of the pool's median
    n_way: int
    n_shot: float
    none_share: float
    trust: float = 0.0  # in the refined prototypes against the first ones, in `known_similarity`

    def of(self, to_first: Tensor, to_refined: Tensor) -> Tensor:  # [n, k], [n, k] -> [n]
        return self.known(known_similarity(to_first, to_refined, self.trust))

    def evidence(self, similarity: Tensor) -> Tensor:
        """log p(similarity | none) / p(similarity | known)"""
        c = np.array(CLASSES if self.n_way > 1 else ONE_CLASS)
        pool = (self.high, math.log(self.n_way), math.log(self.n_shot), self.middle)
        products = [a * b for i, a in enumerate(pool) for b in pool[i:]]
        base, slope = float(c[0] + c[2:6] @ pool + c[11:] @ products), float(c[1] + c[7:11] @ pool)
        curvature = float(c[6])
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


def belonging(to_first: Tensor, to_refined: Tensor, n_shot: float) -> Belonging:  # [n, k], [n, k]
    """Of a pool: first by the first prototypes, which junk cannot have moved. The less junk there seems to be, the more the
    refined ones are trusted then."""
    n_way = to_first.shape[1]
    before = fitted_to(to_first.amax(-1), second_best(to_first), n_way, n_shot)
    trust = trusted(before.none_share)
    second = trust * second_best(to_refined) + (1 - trust) * second_best(to_first)
    return fitted_to(known_similarity(to_first, to_refined, trust), second, n_way, n_shot, trust)


def trusted(none_share: float) -> float:
    """How much the refined prototypes count where so much of the pool is junk. The square was chosen with the coefficients."""
    return (1 - none_share) ** 2


def fitted_to(
    similarity: Tensor, second: Tensor, n_way: int, n_shot: float, trust: float = 0.0, n_steps: int = 200
) -> Belonging:
    """To similarities to the best and to the second best prototype: their range, and the share of junk with the highest
    likelihood, drawn to a few images' worth of what is usual (expectation-maximisation, as Saerens et al., Neural
    Computation 2002)."""
    if len(similarity) < 2:
        return Belonging(0.0, 0.6, 0.7, n_way, n_shot, EXPECTED, trust)
    high, median = (at(similarity, q) for q in (0.9, 0.5))
    found = Belonging(float(second.mean()), high, 0.0, n_way, n_shot, EXPECTED, trust)
    found = replace(found, middle=float(found.position(torch.tensor(median))))
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

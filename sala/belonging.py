"""Is an image of any of the classes at all? What its similarities to their prototypes say about that.

`belonging` describes a pool without a label: the probability of each image to be of a class, and the share of those that
are of none. During refinement it decides how much an image may move the prototypes. In the end what seems to be junk gets
prototypes of its own (`other_prototypes`), and with them `belonging_beside` says what is junk, which sala/aside.py sets
aside at a chosen precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

# Of `Belonging.evidence`, fitted on other data (docs/practice.md): of 1; u, h, k, s, q, l; and their products uu, uh, ... ll
ONE_CLASS: tuple[float, ...] = (
    -1.141, -2.212, 2.096, 0.0, -0.809, -0.785, 0.0, 0.155, -7.098, 0.0, -0.527, 0.375, 0.0, 5.758, 0.0, -0.78,
    3.619, 0.0, 0.0, 0.0, 0.0, 0.0, -0.015, -0.129, 0.0, -1.493, 0.0, 0.0,
)  # fmt: skip
ONE_SHOT: tuple[float, ...] = (
    1.231, -2.147, 0.828, -0.245, 5.478, 0.221, 0.0, -0.293, -3.348, 0.623, -4.674, -2.489, 0.0, -0.048, -0.107,
    1.922, 1.012, 0.0, 0.017, -4.262, -0.419, 0.0, 3.533, -0.821, 0.0, 2.738, 0.0, 0.0,
)  # fmt: skip
SHOTS: tuple[float, ...] = (
    1.509, -1.274, -0.756, -0.308, -0.133, 0.262, -0.052, -0.27, -2.486, 0.731, -0.687, -4.051, -1.841, 0.444,
    -0.077, -0.213, 0.401, 1.868, 0.067, -0.071, -0.701, -0.161, 0.054, 0.112, 0.781, 3.146, 0.952, 0.13,
)  # fmt: skip
MARKED: tuple[float, ...] = (0.23, -0.93, 0.6, 1.85)  # of `Belonging.taught`: of 1, log m, d, d log m
MAX_MARKED = 64  # images that are said to be junk; of more, those that differ most
RANGE = (-1.0, 2.0)  # of u and d in the forms
ALIKE = 0.9999  # similarity of images that are one
MIN_HIGH = 0.05  # where images of a class are hardly alike
MIN_HELD_OUT = 4  # labelled images of classes with two or more
EXPECTED, STRENGTH = 0.1, 10.0  # junk where nothing is known, and how many images that counts for


def second_best(similarities: Tensor) -> Tensor:  # [n, k] -> [n]
    """How similar an image is to the best of the classes that it does not belong to; 0, the mean, where there is one class."""
    if similarities.shape[1] < 2:
        return torch.zeros(len(similarities))
    best = similarities.argmax(-1, keepdim=True)  # much faster than topk
    return similarities.scatter(1, best, -torch.inf).amax(-1)


def known_similarity(
    to_first: Tensor, to_refined: Tensor, to_others: Tensor, trust: float, pull: float
) -> Tensor:  # [n, k], [n, k], [n, j] -> [n]
    """To the best refined prototype and to the best first one, between the two: junk that was let in has moved only the
    former. Less what is owed to the best of the others, the prototypes of junk."""
    return trust * to_refined.amax(-1) + (1 - trust) * to_first.amax(-1) - pull * best_other(to_others)


def best_other(to_others: Tensor) -> Tensor:  # [n, j] -> [n]
    return to_others.amax(-1) if to_others.shape[1] else torch.zeros(len(to_others))


def of_all_sorts(points: Tensor, n: int = MAX_MARKED) -> Tensor:  # [m, d] -> rows
    """All, or so many that differ most: each the one that is the least similar to those before it."""
    if len(points) <= n:
        return torch.arange(len(points))
    chosen = [int((points @ points.mean(0)).argmax())]
    nearest_yet = points @ points[chosen[0]]
    while len(chosen) < n and float(nearest_yet.min()) < ALIKE:
        chosen.append(int(nearest_yet.argmin()))
        nearest_yet = torch.maximum(nearest_yet, points @ points[chosen[-1]])
    return torch.tensor(chosen)


def other_prototypes(points: Tensor, none: Tensor, n: int = 16, n_steps: int = 8) -> Tensor:  # [n, d], [n] -> [j, d]
    """Prototypes of junk: k-means over a pool in which each image counts as much as it seems to be junk.

    They start at images that are junk and far from each other. Of a large pool a regular sample is looked at.
    """
    rows = slice(None, None, max(1, len(points) // 2_000))
    x, weight = points[rows].contiguous(), none[rows]
    n = min(n, int(float(weight.sum()) / 4))  # of several images each
    if not n:
        return x.new_zeros(0, x.shape[1])  # not a part of the pool, which it would keep in memory
    chosen, nearest_yet = [], torch.full_like(weight, -1.0)
    for _ in range(n):
        chosen.append(int((weight * (1 - nearest_yet)).argmax()))
        nearest_yet = torch.maximum(nearest_yet, x @ x[chosen[-1]])
    centres, weighted = x[chosen], weight[:, None] * x
    for _ in range(n_steps):
        sums = torch.zeros_like(centres).index_add_(0, (x @ centres.T).argmax(-1), weighted)
        lengths: Tensor = torch.linalg.vector_norm(sums, dim=-1, keepdim=True)
        centres = torch.where(lengths > 0, sums / lengths.clamp_min(1e-12), centres)  # one that lost all stays
    return centres


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
    pull: float = 0.0  # of the prototypes of junk

    def __post_init__(self) -> None:
        numbers = [
            self.low,
            self.high,
            self.middle,
            self.n_shot,
            self.none_share,
            self.trust,
            self.pull,
            self.left_out or 0.0,
        ]
        if (
            not all(abs(number) < 1e6 for number in numbers)
            or self.n_way < 1
            or self.n_shot <= 0
            or not 0 < self.none_share < 1
        ):
            raise ValueError(f"{vars(self)} describes no pool")

    def none_of(
        self, to_first: Tensor, to_refined: Tensor, to_others: Tensor, taught: Tensor | float = 0.0
    ) -> Tensor:  # [n, k], [n, k], [n, j], [n] -> [n]
        return self.none(known_similarity(to_first, to_refined, to_others, self.trust, self.pull), taught)

    def evidence(self, similarity: Tensor) -> Tensor:
        """log p(similarity | none) / p(similarity | known)"""
        c = np.array(ONE_CLASS if self.n_way == 1 else ONE_SHOT if self.left_out is None else SHOTS)
        pool = (self.high, math.log(self.n_way), math.log(self.n_shot), self.middle, self.left_out or 0.0)
        products = [a * b for i, a in enumerate(pool) for b in pool[i:]]
        base, slope = float(c[0] + c[2:7] @ pool + c[13:] @ products), float(c[1] + c[8:13] @ pool)
        curvature = float(c[7])
        u = self._unbounded_position(similarity)
        within = u.clamp(*RANGE)
        if curvature:  # beyond its turn the form would rise with similarity
            turn = -slope / (2 * curvature)
            within = within.clamp_max(turn) if curvature > 0 else within.clamp_min(turn)
        rest = u - within
        beyond = rest.sign() * rest.abs().log1p()  # there it falls so slowly that it only tells who is first
        return base + slope * within + curvature * within * within - 0.1 * beyond

    def taught(self, to_marked: Tensor, among: Tensor) -> Tensor:  # [n, m], [m, m] -> [n]
        """What it adds to the evidence how similar an image is to the nearest of some that are said to be junk: with d that
        similarity, where 1 is as similar as the better known images are to their class, and m the number of their
        `kinds`, a + b log m + (c + e log m) d. What is far from junk of many kinds is rather no junk; of junk that is all
        of one kind that cannot be said. Learned on such tasks, with 1 to 32 images of their junk; its share is told without
        them, since they were not drawn from the pool by chance. 0 where none is said to be junk."""
        if not len(among):
            return torch.zeros(len(to_marked))
        (a, b, c, e), log_m = MARKED, math.log(self.kinds(among))
        return a + b * log_m + (c + e * log_m) * self.nearness(to_marked)

    def nearness(self, to_marked: Tensor) -> Tensor:  # [n, m] -> [n]
        return (to_marked.amax(-1) / max(self.high, MIN_HIGH)).clamp(*RANGE)

    def kinds(self, among: Tensor) -> float:  # [m, m] similarities
        """1 for m images that are as alike as those of a class, m for images that are not alike at all."""
        alike = (among / max(self.high, MIN_HIGH)).clamp(0, 1).fill_diagonal_(1)
        return len(among) ** 2 / float(alike.sum())

    def position(self, similarity: Tensor) -> Tensor:
        """u, within its range"""
        return self._unbounded_position(similarity).clamp(*RANGE)

    def _unbounded_position(self, similarity: Tensor) -> Tensor:
        return (similarity - self.low) / max(self.high - self.low, 1e-3)

    def known(self, similarity: Tensor) -> Tensor:
        return torch.sigmoid(math.log((1 - self.none_share) / self.none_share) - self.evidence(similarity))

    def none(self, similarity: Tensor, taught: Tensor | float = 0.0) -> Tensor:
        """1 - known, but small ones keep their digits, and with them their order; and with more evidence."""
        evidence = self.evidence(similarity) + taught
        return torch.sigmoid(evidence - math.log((1 - self.none_share) / self.none_share))


@dataclass(frozen=True)
class Similarities:
    """To prototypes: of the pool's images, and of labelled ones that were left out in turn, which may be none."""

    pool: Tensor  # [n, k]
    held_out: Tensor  # [m, k]


def belonging(first: Similarities, refined: Similarities, n_shot: float) -> Belonging:
    """Of a pool: first by the first prototypes, which junk cannot have moved. The less junk there seems to be, the more the
    refined ones are trusted then."""
    nothing = Similarities(first.pool[:, :0], first.held_out[:, :0])
    return _belonging(first, refined, nothing, n_shot, trusted(belonging_by(first, n_shot).none_share, n_shot), 0.0)


def belonging_beside(before: Belonging, first: Similarities, refined: Similarities, others: Similarities) -> Belonging:
    """The same with prototypes of junk, that `before` told apart: the more junk there seemed to be, the more they count."""
    return _belonging(first, refined, others, before.n_shot, before.trust, pulled(before.none_share, before.n_way))


def _belonging(
    first: Similarities, refined: Similarities, others: Similarities, n_shot: float, trust: float, pull: float
) -> Belonging:
    similarity, held_out = (
        known_similarity(a, b, c, trust, pull)
        for a, b, c in ((first.pool, refined.pool, others.pool), (first.held_out, refined.held_out, others.held_out))
    )
    second = trust * second_best(refined.pool) + (1 - trust) * second_best(first.pool) - pull * best_other(others.pool)
    return fitted_to(similarity, second, held_out, first.pool.shape[1], n_shot, trust, pull)


def belonging_by(found: Similarities, n_shot: float) -> Belonging:
    """By one kind of prototypes alone."""
    best, held_out = found.pool.amax(-1), found.held_out.amax(-1)
    return fitted_to(best, second_best(found.pool), held_out, found.pool.shape[1], n_shot)


def trusted(none_share: float, n_shot: float) -> float:
    """How much the refined prototypes count where so much of the pool is junk, and so many images of a class are labelled: the
    first ones are the better the more these are. The powers were chosen with the coefficients."""
    return (1 - none_share) ** 2 / math.sqrt(n_shot)


def pulled(none_share: float, n_way: int) -> float:
    """How much the prototypes of junk count; with one class alone they were of no use. Chosen on tasks from other images."""
    return none_share**3 if n_way > 1 else 0.0


def fitted_to(
    similarity: Tensor,
    second: Tensor,
    held_out: Tensor,
    n_way: int,
    n_shot: float,
    trust: float = 0.0,
    pull: float = 0.0,
    n_steps: int = 200,
) -> Belonging:
    """To similarities to the best and to the second best prototype: their range, and the share of junk with the highest
    likelihood, drawn to a few images' worth of what is usual (expectation-maximisation, as Saerens et al., Neural
    Computation 2002)."""
    if len(similarity) < 2:
        return Belonging(0.0, 0.6, 0.7, None, n_way, n_shot, EXPECTED, trust, pull)
    high, median = (at(similarity, q) for q in (0.9, 0.5))
    found = Belonging(float(second.mean()), high, 0.0, None, n_way, n_shot, EXPECTED, trust, pull)
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

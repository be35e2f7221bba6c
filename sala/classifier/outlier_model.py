"""The probability that an image is an outlier, given its similarities to the prototypes.

`fit_outlier_model` describes a pool without labels: which images are inliers, and the share of outliers. During refinement it
limits how much an image moves the prototypes. Afterwards the outliers get prototypes of their own (outlier_prototypes.py),
with which `add_outlier_prototypes` gives the final probabilities. rejection.py turns these into a decision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sala.classifier import outlier_coefficients as fitted

RANGE = (-1.0, 2.0)  # of u and d in the fitted forms
MIN_HIGH = 0.05  # where images of a class are hardly similar
MIN_HELD_OUT = 4  # labeled images of classes with two or more, to learn from their similarities
PRIOR_SHARE, PRIOR_IMAGES = 0.1, 10.0  # expected share of outliers, and how many images that counts for
LARGEST = 1e6  # beyond it a number in a model file is damage


@dataclass(frozen=True)
class OutlierModel:
    """Outlier probability as a function of `class_similarity`; more similar never means more probably an outlier.

    u = (similarity - low) / (high - low) is 0 for an image as similar as to the classes it does not belong to, and 1 for a
    typical inlier. The evidence log p(u | outlier) / p(u | inlier) is a quadratic form in (u, h, k, s, q, l): h = high, the
    logarithms k and s of the numbers of classes and of shots (among many classes, one is always near), q = median, and
    l = held_out. Its coefficients were fitted on tasks of other images (outlier_coefficients.py). The share of outliers is
    estimated from the pool itself.
    """

    low: float
    high: float
    median: float  # u of the pool's median similarity
    held_out: float | None  # mean u of held-out labeled images; None where they are too few
    n_way: int
    n_shot: float
    outlier_share: float
    refined_weight: float = 0.0  # of the refined prototypes against the first ones
    outlier_weight: float = 0.0  # of the outlier prototypes

    def __post_init__(self) -> None:
        floats = [value or 0.0 for name, value in vars(self).items() if name != "n_way"]
        if not all(abs(value) < LARGEST for value in floats):
            raise ValueError(f"{vars(self)} has a number that is not finite or too large")
        if self.n_way < 1 or self.n_shot <= 0 or not 0 < self.outlier_share < 1:
            raise ValueError(f"{vars(self)} describes no pool")

    def similarity(self, to_first: Tensor, to_refined: Tensor, to_outliers: Tensor) -> Tensor:  # -> [n]
        """`class_similarity` with this model's weights."""
        return class_similarity(to_first, to_refined, to_outliers, self.refined_weight, self.outlier_weight)

    def evidence(self, similarity: Tensor) -> Tensor:
        """log p(similarity | outlier) / p(similarity | inlier)."""
        c = np.array(self._coefficients())
        pool = (self.high, math.log(self.n_way), math.log(self.n_shot), self.median, self.held_out or 0.0)
        products = [a * b for i, a in enumerate(pool) for b in pool[i:]]
        base, slope = float(c[0] + c[2:7] @ pool + c[13:] @ products), float(c[1] + c[8:13] @ pool)
        curvature = float(c[7])
        u = self._unbounded_position(similarity)
        within = u.clamp(*RANGE)
        if curvature:  # beyond its turning point the parabola would rise with similarity
            turn = -slope / (2 * curvature)
            within = within.clamp_max(turn) if curvature > 0 else within.clamp_min(turn)
        rest = u - within
        beyond = rest.sign() * rest.abs().log1p()  # falls so slowly that it only keeps the order
        return base + slope * within + curvature * within * within - 0.1 * beyond

    def _coefficients(self) -> tuple[float, ...]:
        if self.n_way == 1:
            return fitted.ONE_CLASS
        return fitted.ONE_SHOT if self.held_out is None else fitted.FEW_SHOT

    def known_outlier_evidence(self, to_known: Tensor, among: Tensor) -> Tensor:  # [n, m], [m, m] -> [n]
        """Additional evidence from the similarities to m known outliers, and of these among each other; 0 without any.

        a + b log m + (c + e log m) d, with d the `nearness` to the nearest of them and m their number of `kinds`: far from
        outliers of many kinds an image is rather an inlier; outliers of one kind cannot say that. The share of outliers is
        estimated without known ones, since they were not drawn from the pool at random.
        """
        if not len(among):
            return torch.zeros(len(to_known))
        (a, b, c, e), log_m = fitted.KNOWN_OUTLIERS, math.log(self.kinds(among))
        return a + b * log_m + (c + e * log_m) * self.nearness(to_known)

    def nearness(self, to_known: Tensor) -> Tensor:  # [n, m] -> [n]
        """Similarity to the nearest known outlier; 1 is that of a typical inlier to its class."""
        return (to_known.amax(-1) / max(self.high, MIN_HIGH)).clamp(*RANGE)

    def kinds(self, among: Tensor) -> float:  # [m, m] similarities
        """Effective number of kinds of m images: 1 if they are as similar as images of one class, m if not similar at all."""
        alike = (among / max(self.high, MIN_HIGH)).clamp(0, 1).fill_diagonal_(1)
        return len(among) ** 2 / float(alike.sum())

    def position(self, similarity: Tensor) -> Tensor:
        """u, within its range."""
        return self._unbounded_position(similarity).clamp(*RANGE)

    def _unbounded_position(self, similarity: Tensor) -> Tensor:
        return (similarity - self.low) / max(self.high - self.low, 1e-3)

    def inlier_probability(self, similarity: Tensor) -> Tensor:
        """The posterior probability that an image is of any of the classes."""
        return torch.sigmoid(math.log((1 - self.outlier_share) / self.outlier_share) - self.evidence(similarity))

    def outlier_probability(self, similarity: Tensor, more_evidence: Tensor | float = 0.0) -> Tensor:
        """1 - inlier probability, computed so that small values keep their digits and their order."""
        evidence = self.evidence(similarity) + more_evidence
        return torch.sigmoid(evidence - math.log((1 - self.outlier_share) / self.outlier_share))


@dataclass(frozen=True)
class Similarities:
    """Similarities to prototypes, of the pool and of held-out labeled images (there may be none)."""

    pool: Tensor  # [n, k]
    held_out: Tensor  # [m, k]


def class_similarity(
    to_first: Tensor, to_refined: Tensor, to_outliers: Tensor, refined_weight: float, outlier_weight: float
) -> Tensor:  # [n, k], [n, k], [n, j] -> [n]
    """Similarity to the nearest class, between its first and refined prototype, less that to the nearest outlier prototype.

    Outliers that took part in the refinement have moved only the refined prototypes.
    """
    to_classes = refined_weight * to_refined.amax(-1) + (1 - refined_weight) * to_first.amax(-1)
    return to_classes - outlier_weight * nearest_outlier(to_outliers)


def nearest_outlier(to_outliers: Tensor) -> Tensor:  # [n, j] -> [n]
    """Similarity to the nearest outlier prototype; 0 without any."""
    return to_outliers.amax(-1) if to_outliers.shape[1] else torch.zeros(len(to_outliers))


def runner_up_similarity(similarities: Tensor) -> Tensor:  # [n, k] -> [n]
    """Similarity to the second nearest class; 0, the mean, where there is one class."""
    if similarities.shape[1] < 2:
        return torch.zeros(len(similarities))
    best = similarities.argmax(-1, keepdim=True)  # much faster than topk
    return similarities.scatter(1, best, -torch.inf).amax(-1)


def fit_outlier_model(first: Similarities, refined: Similarities, n_shot: float) -> OutlierModel:
    """The model of a pool without outlier prototypes. The fewer outliers the first prototypes see, which outliers cannot have
    moved, the more the refined ones count."""
    nothing = Similarities(first.pool[:, :0], first.held_out[:, :0])
    weight = refined_weight_for(fit_to_prototypes(first, n_shot).outlier_share, n_shot)
    return _fit(first, refined, nothing, n_shot, weight, 0.0)


def add_outlier_prototypes(
    model: OutlierModel, first: Similarities, refined: Similarities, outliers: Similarities
) -> OutlierModel:
    """The model with similarities to outlier prototypes, which count more the more outliers `model` found."""
    weight = outlier_weight_for(model.outlier_share, model.n_way)
    return _fit(first, refined, outliers, model.n_shot, model.refined_weight, weight)


def _fit(
    first: Similarities, refined: Similarities, outliers: Similarities, n_shot: float, refined_weight: float,
    outlier_weight: float,
) -> OutlierModel:  # fmt: skip
    weights = (refined_weight, outlier_weight)
    pool = class_similarity(first.pool, refined.pool, outliers.pool, *weights)
    held_out = class_similarity(first.held_out, refined.held_out, outliers.held_out, *weights)
    to_refined, to_first = (runner_up_similarity(to.pool) for to in (refined, first))
    runner_up = refined_weight * to_refined + (1 - refined_weight) * to_first
    runner_up = runner_up - outlier_weight * nearest_outlier(outliers.pool)
    return estimate(pool, runner_up, held_out, first.pool.shape[1], n_shot, *weights)


def fit_to_prototypes(to: Similarities, n_shot: float) -> OutlierModel:
    """The model by the similarities to one set of prototypes alone."""
    best, held_out = to.pool.amax(-1), to.held_out.amax(-1)
    return estimate(best, runner_up_similarity(to.pool), held_out, to.pool.shape[1], n_shot)


def refined_weight_for(outlier_share: float, n_shot: float) -> float:
    """The weight of the refined prototypes. The first ones are better with more shots, the refined ones worse with more
    outliers; the powers were chosen with the coefficients."""
    return (1 - outlier_share) ** 2 / math.sqrt(n_shot)


def outlier_weight_for(outlier_share: float, n_way: int) -> float:
    """The weight of the outlier prototypes; with one class they did not help. Chosen on tasks of other images."""
    return outlier_share**3 if n_way > 1 else 0.0


def estimate(
    similarity: Tensor, runner_up: Tensor, held_out: Tensor, n_way: int, n_shot: float, refined_weight: float = 0.0,
    outlier_weight: float = 0.0, n_steps: int = 200,
) -> OutlierModel:  # [n], [n], [m]  # fmt: skip
    """The model of a pool with these similarities: their range, and the most likely share of outliers.

    The share comes from expectation-maximization (Saerens et al., Neural Computation 2002), regularized by `PRIOR_IMAGES`.
    """
    weights = (refined_weight, outlier_weight)
    if len(similarity) < 2:
        return OutlierModel(0.0, 0.6, 0.7, None, n_way, n_shot, PRIOR_SHARE, *weights)
    high, median = (quantile(similarity, q) for q in (0.9, 0.5))
    found = OutlierModel(float(runner_up.mean()), high, 0.0, None, n_way, n_shot, PRIOR_SHARE, *weights)
    found = replace(found, median=float(found.position(torch.tensor(median))))
    if n_way > 1 and len(held_out) >= MIN_HELD_OUT:
        found = replace(found, held_out=float(found.position(held_out.mean())))
    evidence, share = found.evidence(similarity), found.outlier_share
    for _ in range(n_steps):
        posterior = torch.sigmoid(evidence + math.log(share / (1 - share)))
        before, share = share, (float(posterior.sum()) + PRIOR_IMAGES * PRIOR_SHARE) / (len(posterior) + PRIOR_IMAGES)
        if abs(share - before) < 1e-5:
            break
    return replace(found, outlier_share=share)


def quantile(values: Tensor, q: float) -> float:
    """The value below which the share q lies, without interpolation."""
    return float(values.kthvalue(1 + int(q * (len(values) - 1))).values)

"""Slow twins of the classifier's mixture: one image, one class and one number at a time, in plain Python."""

from __future__ import annotations

import math

from sala.classifier import coefficients as chosen
from sala.classifier import linear, mixture

Vector = list[float]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def unit(a: Vector) -> Vector:
    length = math.sqrt(dot(a, a))
    return [x / length for x in a] if length else a


def combined(a: float, x: Vector, b: float, y: Vector) -> Vector:
    return [a * s + b * t for s, t in zip(x, y, strict=True)]


def log_sum_exp(values: Vector) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values))


def softmax(values: Vector) -> Vector:
    total = log_sum_exp(values)
    return [math.exp(v - total) for v in values]


def log_odds(share: float) -> float:
    return math.log(share) - math.log(1 - share)


def without_own_part(u: Vector, total: Vector, w: float) -> float:
    """The similarity of u to the direction of total - w u."""
    return dot(u, unit(combined(1.0, total, -w, u)))


def effective_dimension(embeddings: list[Vector]) -> float:
    some = [u for u in embeddings if any(u)]  # those at the center have no direction
    squares = [dot(u, v) ** 2 for i, u in enumerate(some) for j, v in enumerate(some) if i != j]
    pairs = len(squares) + mixture.DIMENSION_PAIRS
    return max(2.0, pairs / (sum(squares) + mixture.DIMENSION_PAIRS / mixture.TYPICAL_DIMENSION))


def pair_similarity(support: list[Vector], labels: list[int]) -> float:
    pairs = [dot(support[i], support[j])
             for i in range(len(labels)) for j in range(len(labels)) if i != j and labels[i] == labels[j]]  # fmt: skip
    total = sum(pairs) + linear.PRIOR_PAIRS * linear.PRIOR_PAIR_SIMILARITY
    return min(max(total / (len(pairs) + linear.PRIOR_PAIRS), 0.05), 0.95)


def known_evidence(u: Vector, known: list[Vector], kappa: float, ratio: float) -> float:
    """log p(u | outlier) / U(u): each of m known outliers is a component of weight 1 / (m + 1), U is another."""
    densities = [1.0] + [math.exp(kappa * dot(u, v) - ratio) for v in known]
    return math.log(sum(densities) / len(densities))


def evidence_of(
    similarities: Vector, log_sizes: Vector, u: Vector, known: list[Vector], kappa: float, ratio: float
) -> float:
    """log p(u | outlier) - log p(u | inlier), both as ratios to the uniform density."""
    inlier = log_sum_exp([kappa * s + size for s, size in zip(similarities, log_sizes, strict=True)]) - ratio
    return known_evidence(u, known, kappa, ratio) - inlier


class SlowStep:
    """The mixture of given weights, and what it says of each image of the pool."""

    def __init__(
        self, pool: list[Vector], support: list[Vector], labels: list[int], known: list[Vector], linear: list[Vector],
        weights: list[Vector], share: float, is_first: bool,
    ):  # fmt: skip
        n_way, self.share = max(labels) + 1, share
        classes = range(n_way)
        totals = []
        for c in classes:
            total = [0.0] * len(support[0])
            for x, label in zip(support, labels, strict=True):
                total = combined(1.0, total, chosen.LABELED_WEIGHT * (label == c), x)
            for u, w in zip(pool, weights, strict=True):
                total = combined(1.0, total, w[c], u)
            totals.append(total)
        alone = [[without_own_part(u, totals[c], w[c]) for c in classes] for u, w in zip(pool, weights, strict=True)]
        assigned = [[float(c == row.index(max(row))) for c in classes] for row in alone] if is_first else weights
        a = chosen.LINEAR_SHARE * (1 - n_way / len(labels))
        b = a + chosen.INLIER_SHARE * (1 - a)
        response = [[dot(u, linear[c]) for c in classes] for u in pool]
        scale = self.ratio(assigned, alone, response)
        to_classes, to_inliers = (
            [[(1 - s) * alone[i][c] + s * scale * response[i][c] for c in classes] for i in range(len(pool))]
            for s in (a, b)
        )
        total = sum(assigned[i][c] * to_classes[i][c] for i in range(len(pool)) for c in classes)
        r = (total + mixture.TYPICAL_SIMILARITY) / (sum(map(sum, assigned)) + 1)
        self.similarity = min(max(r, mixture.SIMILARITIES[0]), mixture.SIMILARITIES[1])
        self.dimension = effective_dimension(pool if len(pool) > 1 else support)
        self.kappa = self.similarity * self.dimension / (1 - self.similarity**2)
        sizes = [sum(w[c] for w in weights) + chosen.SIZE_PRIOR for c in classes]
        self.log_sizes = [math.log(size / sum(sizes)) for size in sizes]
        self.prototypes, self.inlier_prototypes = (
            [combined(1 - s, unit(totals[c]), s * scale, linear[c]) for c in classes] for s in (a, b)
        )
        ratio = mixture.log_partition(self.kappa, self.dimension)
        self.logits = [[self.kappa * row[c] + self.log_sizes[c] for c in classes] for row in to_classes]
        self.evidence = [
            evidence_of(row, self.log_sizes, u, known, self.kappa, ratio)
            for row, u in zip(to_inliers, pool, strict=True)
        ]
        inlier = [1 / (1 + math.exp(e + log_odds(share))) for e in self.evidence]
        self.next_weights = [
            [p * g * any(u) for p in softmax(row)] for row, g, u in zip(self.logits, inlier, pool, strict=True)
        ]
        prior = chosen.OUTLIER_SHARE_PRIOR
        self.next_share = (sum(1 - g for g in inlier) + prior * chosen.OUTLIER_SHARE) / (len(pool) + prior)

    @staticmethod
    def ratio(assigned: list[Vector], alone: list[Vector], response: list[Vector]) -> float:
        typical = mixture.TYPICAL_SIMILARITY
        top = sum(dot(w, s) for w, s in zip(assigned, alone, strict=True)) + typical
        return max(top, 0.0) / max(sum(dot(w, s) for w, s in zip(assigned, response, strict=True)) + typical, typical)

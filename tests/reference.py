"""Slow twins, with for-loops, written from the papers. Float64 lists and scalars; no call into the package."""

from __future__ import annotations

import math

Vector = list[float]


def class_mean(points: list[Vector], labels: list[int], c: int) -> Vector:
    """SALA eq. 1 / Snell eq. 1."""
    members = [x for x, y in zip(points, labels, strict=True) if y == c]
    return [sum(x[j] for x in members) / len(members) for j in range(len(points[0]))]


def distance(x: Vector, c: Vector, a: Vector | None = None) -> float:
    """SALA eq. 3, and eq. 4 with weights."""
    total = 0.0
    for j in range(len(x)):
        total += (1.0 if a is None else a[j]) * (x[j] - c[j]) ** 2
    return total


def softmax_of_negatives(distances: Vector) -> Vector:
    """SALA eq. 5."""
    exps = [math.exp(-d) for d in distances]
    return [e / sum(exps) for e in exps]


def metric_weights(c: Vector, w1: list[Vector], b1: Vector, w2: list[Vector], b2: Vector) -> Vector:
    """The SE network on one prototype: reduce, ReLU, expand, sigmoid."""
    hidden = [max(0.0, b + sum(w * x for w, x in zip(row, c, strict=True))) for row, b in zip(w1, b1, strict=True)]
    outs = [b + sum(w * h for w, h in zip(row, hidden, strict=True)) for row, b in zip(w2, b2, strict=True)]
    return [1 / (1 + math.exp(-o)) for o in outs]


def soft_kmeans_prototypes(
    support: list[Vector], labels: list[int], unlabeled: list[Vector], n_way: int,
    weights: list[Vector] | None = None, n_selected: int | None = None,
) -> list[Vector]:  # fmt: skip
    """SALA eqs. 5 to 10; without weights and selection, Ren et al.'s soft k-means."""
    prototypes = [class_mean(support, labels, c) for c in range(n_way)]
    table = [
        [distance(u, prototypes[c], None if weights is None else weights[c]) for c in range(n_way)] for u in unlabeled
    ]
    order = sorted(range(len(unlabeled)), key=lambda u: min(table[u]))
    chosen = order[: len(order) if n_selected is None else n_selected]
    refined = []
    for c in range(n_way):
        numerator = [0.0] * len(support[0])
        denominator = 0.0
        for x, y in zip(support, labels, strict=True):
            if y == c:
                numerator = [n + v for n, v in zip(numerator, x, strict=True)]
                denominator += 1.0
        for u in chosen:
            p = softmax_of_negatives(table[u])[c]
            numerator = [n + p * v for n, v in zip(numerator, unlabeled[u], strict=True)]
            denominator += p
        refined.append([n / denominator for n in numerator])
    return refined


def logits(queries: list[Vector], prototypes: list[Vector], weights: list[Vector] | None = None) -> list[Vector]:
    """Minus the distance of each query to each prototype."""
    return [
        [-distance(q, p, None if weights is None else weights[c]) for c, p in enumerate(prototypes)] for q in queries
    ]


def ramp(t: float, eta: float) -> float:
    """SALA eq. 8."""
    return math.exp(-eta * (1 - t) ** 2)

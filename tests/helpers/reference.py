"""Slow twins, with for-loops, written from the papers. Float64 lists and scalars; no call into the package."""

from __future__ import annotations

import math
from collections.abc import Callable

Vector = list[float]


def class_mean(embeddings: list[Vector], labels: list[int], c: int) -> Vector:
    """SALA eq. 1 / Snell eq. 1."""
    members = [x for x, y in zip(embeddings, labels, strict=True) if y == c]
    return [sum(x[j] for x in members) / len(members) for j in range(len(embeddings[0]))]


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


def cluster_log_density(x: Vector, center: Vector, radius: float, half: float) -> float:
    """Ren et al., sec. 3.1.2: -D / r^2 - A(r); the released code has 2 r^2 (half = 1/2)."""
    return -half * distance(x, center) / radius**2 - math.log(radius) - 0.5 * math.log(2 * math.pi)


def cluster_logits(
    support: list[Vector], labels: list[int], unlabeled: list[Vector], queries: list[Vector], n_way: int,
    radius: float, released: bool, n_steps: int = 1,
) -> list[Vector]:  # fmt: skip
    """Ren et al., sec. 3.1.2: N classes of radius 1 and one cluster at the origin; all centers move in each step."""
    half = 0.5 if released else 1.0
    radii = [1.0] * n_way + [radius if unlabeled else 1e5]  # released code
    centers = [class_mean(support, labels, c) for c in range(n_way)] + [[0.0] * len(support[0])]
    for _ in range(n_steps):
        centers = moved_centers(support, labels, unlabeled, centers, radii, half)
    if released:
        return [[cluster_log_density(q, p, r, half) for p, r in zip(centers, radii, strict=True)] for q in queries]
    return logits(queries, centers[:n_way])


def moved_centers(
    support: list[Vector], labels: list[int], unlabeled: list[Vector], centers: list[Vector], radii: Vector, half: float
) -> list[Vector]:
    """One step of the N + 1 clusters. The last has no support, and stays at the origin if nothing falls to it."""
    table = []
    for u in unlabeled:
        exps = [math.exp(cluster_log_density(u, p, r, half)) for p, r in zip(centers, radii, strict=True)]
        table.append([e / sum(exps) for e in exps])
    moved = []
    for c in range(len(centers)):
        total = sum(1.0 for y in labels if y == c) + sum(z[c] for z in table)
        point = []
        for j in range(len(support[0])):
            value = sum(x[j] for x, y in zip(support, labels, strict=True) if y == c)
            value += sum(z[c] * u[j] for z, u in zip(table, unlabeled, strict=True))
            point.append(value / (total or 1.0))
        moved.append(point)
    return moved


def mask_statistics(column: Vector) -> Vector:
    """Ren et al., sec. 3.1.3: min, max, variance, skewness, excess kurtosis of one class's normalized distances."""
    n = len(column)
    mean = sum(column) / n
    variance = sum((d - mean) ** 2 for d in column) / n or 1.0
    skewness = sum((d - mean) ** 3 for d in column) / n / math.sqrt(variance) ** 3
    kurtosis = sum((d - mean) ** 4 for d in column) / n / variance**2 - 3
    return [min(column), max(column), variance, skewness, kurtosis]


def masked_weights(
    unlabeled: list[Vector], prototypes: list[Vector],
    w1: list[Vector], b1: Vector, w2: list[Vector], b2: Vector, power: int = 1,
) -> list[Vector]:  # fmt: skip
    """Ren et al., sec. 3.1.3: z_jc m_jc, m_jc = sigmoid(gamma_c (beta_c - d_jc))."""
    table = [[distance(u, p) for p in prototypes] for u in unlabeled]
    weights = [[0.0] * len(prototypes) for _ in unlabeled]
    for c in range(len(prototypes)):
        mean = sum(row[c] for row in table) / len(table)
        column = [row[c] / mean for row in table]
        features = mask_statistics(column)
        hidden = [
            math.tanh(b + sum(w * f for w, f in zip(ws, features, strict=True))) for ws, b in zip(w1, b1, strict=True)
        ]
        outs = [b + sum(w * h for w, h in zip(ws, hidden, strict=True)) for ws, b in zip(w2, b2, strict=True)]
        beta, gamma = math.exp(outs[0]), math.exp(outs[2])
        for j, d in enumerate(column):
            m = 1 / (1 + math.exp(-gamma * (beta - d)))
            weights[j][c] = softmax_of_negatives(table[j])[c] * m**power
    return weights


def weighted_prototypes(
    support: list[Vector], labels: list[int], unlabeled: list[Vector], weights: list[Vector]
) -> list[Vector]:
    """Class means of the support together with weighted unlabeled images."""
    refined = []
    for c in range(len(weights[0])):
        total = sum(1.0 for y in labels if y == c) + sum(w[c] for w in weights)
        refined.append([
            (sum(x[j] for x, y in zip(support, labels, strict=True) if y == c)
             + sum(w[c] * u[j] for w, u in zip(weights, unlabeled, strict=True))) / total
            for j in range(len(support[0]))
        ])  # fmt: skip
    return refined


def soft_weights(
    unlabeled: list[Vector], prototypes: list[Vector], a: list[Vector] | None = None, n_selected: int | None = None,
) -> list[Vector]:  # fmt: skip
    """SALA eqs. 4 to 6: the soft labels of the n images that are nearest to any prototype, and 0 for the others."""
    table = [[distance(u, p, None if a is None else a[c]) for c, p in enumerate(prototypes)] for u in unlabeled]
    order = sorted(range(len(unlabeled)), key=lambda u: min(table[u]))
    chosen = order[: len(order) if n_selected is None else n_selected]
    return [softmax_of_negatives(row) if u in chosen else [0.0] * len(row) for u, row in enumerate(table)]


def prototypes_of_steps(
    support: list[Vector], labels: list[int], unlabeled: list[Vector], n_way: int, n_steps: int,
    weights_of: Callable[[list[Vector]], list[Vector]],
) -> list[Vector]:  # fmt: skip
    """Several refinement steps: the weights of each come from the prototypes before it; the support stays labeled."""
    prototypes = [class_mean(support, labels, c) for c in range(n_way)]
    for _ in range(n_steps):
        prototypes = weighted_prototypes(support, labels, unlabeled, weights_of(prototypes))
    return prototypes


def numeric_gradient(function: Callable[[list[Vector]], float], x: list[Vector], step: float = 1e-5) -> list[Vector]:
    """Central differences, one number at a time."""
    gradient = [[0.0] * len(row) for row in x]
    for i in range(len(x)):
        for j in range(len(x[i])):
            up, down = ([row[:] for row in x] for _ in range(2))
            up[i][j] += step
            down[i][j] -= step
            gradient[i][j] = (function(up) - function(down)) / (2 * step)
    return gradient


def swapped(
    support: list[Vector], labels: list[int], query: list[Vector], query_labels: list[int]
) -> tuple[list[Vector], list[int], list[Vector], list[int]]:
    """The first queries of each class, as many as it has shots, for the support; the support before the other queries."""
    wanted = {c: labels.count(c) for c in labels}
    first, rest = [], []
    for x, y in zip(query, query_labels, strict=True):
        (first if wanted[y] > 0 else rest).append((x, y))
        wanted[y] -= 1
    asked = [*zip(support, labels, strict=True), *rest]
    return [x for x, _ in first], [y for _, y in first], [x for x, _ in asked], [y for _, y in asked]


def mean_cross_entropy(scores: list[Vector], labels: list[int]) -> float:
    return sum(log_sum_exp(row) - row[y] for row, y in zip(scores, labels, strict=True)) / len(labels)


def propagation_graph(embeddings: list[Vector], sigmas: Vector, k: int) -> list[Vector]:
    """Liu et al., eqs. 2 and 3: S of the graph of k nearest neighbors, a point being its own neighbor."""
    n = len(embeddings)
    scaled = [[v / s for v in x] for x, s in zip(embeddings, sigmas, strict=True)]
    full = [[math.exp(-distance(a, b) / len(a) / 2) for b in scaled] for a in scaled]
    near = [sorted(range(n), key=lambda j: -row[j])[:k] for row in full]
    graph = [[full[i][j] if j in near[i] or i in near[j] else 0.0 for j in range(n)] for i in range(n)]
    degree = [sum(row) for row in graph]
    return [[graph[i][j] / math.sqrt(degree[i] * degree[j]) for j in range(n)] for i in range(n)]


def propagate_by_iteration(graph: list[Vector], seeds: list[Vector], alpha: float, n_steps: int) -> list[Vector]:
    """Zhou et al., NeurIPS 2003: F <- alpha S F + Y, from F = Y."""
    n, ways = len(graph), len(seeds[0])
    state = [row[:] for row in seeds]
    for _ in range(n_steps):
        state = [
            [seeds[i][c] + alpha * sum(graph[i][j] * state[j][c] for j in range(n)) for c in range(ways)]
            for i in range(n)
        ]
    return state


def swish(x: float) -> float:
    return x / (1 + math.exp(-x))


def log_sigmoid(x: float) -> float:
    return -math.log(1 + math.exp(-x))


def log_sum_exp(values: Vector) -> float:
    return math.log(sum(math.exp(v) for v in values))


def covariance_around_means(embeddings: list[Vector], labels: list[int], weights: Vector, n_way: int) -> list[Vector]:
    """W = sum_i w_i (x_i - m_y(i)) (x_i - m_y(i))^T / sum_i w_i, where m_c are the weighted means of classes."""
    d, total = len(embeddings[0]), sum(weights)
    means = []
    for c in range(n_way):
        of_class = sum(w for w, y in zip(weights, labels, strict=True) if y == c)
        rows = [(x, w) for x, w, y in zip(embeddings, weights, labels, strict=True) if y == c]
        means.append([sum(w * x[j] for x, w in rows) / of_class for j in range(d)])
    covariance = [[0.0] * d for _ in range(d)]
    for x, y, w in zip(embeddings, labels, weights, strict=True):
        for i in range(d):
            for j in range(d):
                covariance[i][j] += w / total * (x[i] - means[y][i]) * (x[j] - means[y][j])
    return covariance


def silhouette(points: list[Vector], labels: list[int]) -> float:
    """Rousseeuw, 1987: the mean of (b - a) / max(a, b); a point that is alone in its class has 0."""
    widths = []
    for i, x in enumerate(points):
        means = {}
        for c in set(labels):
            others = [distance(x, y) ** 0.5 for j, y in enumerate(points) if labels[j] == c and j != i]
            if others:
                means[c] = sum(others) / len(others)
        if labels[i] not in means:
            widths.append(0.0)
            continue
        a, b = means[labels[i]], min(mean for c, mean in means.items() if c != labels[i])
        widths.append((b - a) / max(a, b))
    return sum(widths) / len(widths)


def neighbor_share(points: list[Vector], labels: list[int]) -> float:
    """The share of points whose nearest other point is of their class."""
    right = 0
    for i, x in enumerate(points):
        others = [j for j in range(len(points)) if j != i]
        right += labels[min(others, key=lambda j: distance(x, points[j]))] == labels[i]
    return right / len(points)

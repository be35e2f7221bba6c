"""Slow twins of the heads, with for-loops, written from the papers. Float64 lists and scalars; no call into the package.

Each takes embeddings that are prepared already: the first step of most heads, `centered_unit` or `powered_unit`, is apart.
"""

from __future__ import annotations

import math

Vector = list[float]
Matrix = list[Vector]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def unit(a: Vector) -> Vector:
    length = math.sqrt(dot(a, a))
    return [x / length for x in a]


def minus(a: Vector, b: Vector) -> Vector:
    return [x - y for x, y in zip(a, b, strict=True)]


def plus(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


def mean(rows: Matrix, weights: Vector | None = None) -> Vector:
    weights = [1.0] * len(rows) if weights is None else weights
    return [sum(w * row[j] for w, row in zip(weights, rows, strict=True)) / sum(weights) for j in range(len(rows[0]))]


def square(a: Vector, b: Vector) -> float:
    return dot(minus(a, b), minus(a, b))


def cos(a: Vector, b: Vector) -> float:
    return dot(unit(a), unit(b))


def softmax(a: Vector) -> Vector:
    exps = [math.exp(x - max(a)) for x in a]
    return [e / sum(exps) for e in exps]


def largest(a: Vector) -> int:
    return max(range(len(a)), key=lambda i: a[i])


def means_of(x: Matrix, y: list[int], k: int) -> Matrix:
    return [mean([row for row, label in zip(x, y, strict=True) if label == c]) for c in range(k)]


def centered_unit(rows: Matrix, support: Matrix, pool: Matrix) -> Matrix:
    center = mean(support + pool)
    return [unit(minus(row, center)) for row in rows]


def powered_unit(rows: Matrix, beta: float = 0.5) -> Matrix:
    return [unit([(x + 1e-6) ** beta for x in row]) for row in rows]


def simpleshot(s: Matrix, y: list[int], u: Matrix, q: Matrix, k: int) -> Matrix:
    prototypes = means_of(centered_unit(s, s, u), y, k)
    return [softmax([-square(x, m) for m in prototypes]) for x in centered_unit(q, s, u)]


def rectified(s: Matrix, y: list[int], u: Matrix, k: int, epsilon: float = 10.0) -> tuple[Matrix, Vector]:
    """BD-CSPN's prototypes and the shift."""
    shift = minus(mean(s), mean(u))
    shifted = [plus(x, shift) for x in u]
    basic = means_of(s, y, k)
    labels = y + [largest([cos(x, m) for m in basic]) for x in shifted]
    prototypes = []
    for c in range(k):
        members = [x for x, label in zip(s + shifted, labels, strict=True) if label == c]
        prototypes.append(mean(members, [math.exp(epsilon * cos(x, basic[c])) for x in members]))
    return prototypes, shift


def bd_cspn(s: Matrix, y: list[int], u: Matrix, q: Matrix, k: int) -> Matrix:
    s, u, q = ([unit(x) for x in part] for part in (s, u, q))
    prototypes, shift = rectified(s, y, u, k)
    return [softmax([10 * cos(plus(x, shift), m) for m in prototypes]) for x in q]


def laplacianshot(s: Matrix, y: list[int], u: Matrix, q: Matrix, k: int) -> Matrix:
    s_, u_, q_ = (centered_unit(part, s, u) for part in (s, u, q))
    prototypes, shift = rectified(s_, y, u_, k)
    nodes, queries = ([plus(x, shift) for x in part] for part in (u_, q_))
    unary = [[square(x, m) for m in prototypes] for x in nodes]
    near = []
    for i, x in enumerate(nodes):
        others = [j for j in range(len(nodes)) if j != i]
        near.append(sorted(others, key=lambda j, x=x: square(x, nodes[j]))[:3])
    assigned = [softmax([-a for a in row]) for row in unary]
    for _ in range(20):
        assigned = [
            softmax([-unary[i][c] + sum(assigned[j][c] for j in near[i]) for c in range(k)]) for i in range(len(nodes))
        ]
    answers = []
    for x in queries:
        nearest = sorted(range(len(nodes)), key=lambda j: square(x, nodes[j]))[:3]
        answers.append(softmax([-square(x, prototypes[c]) + sum(assigned[j][c] for j in nearest) for c in range(k)]))
    return answers


def tim(s: Matrix, y: list[int], u: Matrix, q: Matrix, k: int, n_steps: int) -> Matrix:
    """TIM-ADM, with tau = 15, lambda = alpha = 0.1."""
    s, u, q = ([unit(x) for x in part] for part in (s, u, q))
    w = means_of(s, y, k)

    def p(x: Vector) -> Vector:
        return softmax([-15 / 2 * square(m, x) for m in w])

    for _ in range(n_steps):
        p_s, p_u = [p(x) for x in s], [p(x) for x in u]
        mass = [sum(row[c] ** 1.1 for row in p_u) for c in range(k)]
        soft = [[row[c] ** 1.1 / math.sqrt(mass[c]) for c in range(k)] for row in p_u]
        soft = [[v / sum(row) for v in row] for row in soft]
        new = []
        for c in range(k):
            top, bottom = [0.0] * len(w[c]), 0.0
            for x, label, row in zip(s, y, p_s, strict=True):
                t = float(label == c)
                top = plus(top, [0.1 / 1.1 * (t * a + row[c] * (b - a)) for a, b in zip(x, w[c], strict=True)])
                bottom += 0.1 / 1.1 * t
            for x, r, row in zip(u, soft, p_u, strict=True):
                share = len(s) / len(u)
                top = plus(top, [share * (r[c] * a + row[c] * (b - a)) for a, b in zip(x, w[c], strict=True)])
                bottom += share * r[c]
            new.append([a / bottom for a in top])
        w = new
    return [p(x) for x in q]


def balanced(weights: Matrix, capacities: Vector, n_steps: int) -> Matrix:
    """Sinkhorn: rows to 1, columns to their capacities, in turn."""
    k = len(capacities)
    for _ in range(n_steps):
        weights = [[v / sum(row) for v in row] for row in weights]
        sums = [sum(row[c] for row in weights) for c in range(k)]
        weights = [[row[c] * capacities[c] / sums[c] for c in range(k)] for row in weights]
    return weights


def pt_map(s: Matrix, y: list[int], u: Matrix, k: int, n_steps: int) -> Matrix:
    """The pool's rows of the last transport plan."""
    s, u = powered_unit(s), powered_unit(u)
    s, u = [unit(minus(x, mean(s))) for x in s], [unit(minus(x, mean(u))) for x in u]
    centers = means_of(s, y, k)

    def plan() -> Matrix:
        return balanced([[math.exp(-10 * square(x, c)) for c in centers] for x in u], [len(u) / k] * k, 2_000)

    for _ in range(n_steps):
        P = plan()
        for c in range(k):
            weights = [float(label == c) for label in y] + [row[c] for row in P]
            centers[c] = plus(centers[c], [0.2 * d for d in minus(mean(s + u, weights), centers[c])])
    return plan()


def oslo(s: Matrix, y: list[int], u: Matrix, q: Matrix, k: int) -> tuple[Matrix, Vector]:
    """Probabilities and inlier scores of queries that follow the pool's prototypes, two rounds."""
    s_, u_, q_ = (centered_unit(part, s, u) for part in (s, u, q))
    mu = means_of(s_, y, k)
    z = {"u": [[1 / k] * k for _ in u], "q": [[1 / k] * k for _ in q]}
    inlier: dict[str, Vector] = {}
    for _ in range(2):
        for part, images in (("u", u_), ("q", q_)):
            similar = [[cos(x, m) for m in mu] for x in images]
            inlier[part] = [1 / (1 + math.exp(-dot(a, b) / 0.05)) for a, b in zip(z[part], similar, strict=True)]
            z[part] = [softmax([xi * v / 0.1 for v in row]) for xi, row in zip(inlier[part], similar, strict=True)]
        weights = [[float(label == c) for c in range(k)] for label in y]
        weights += [[xi * v for v in row] for xi, row in zip(inlier["u"], z["u"], strict=True)]
        mu = [mean(s_ + u_, [row[c] for row in weights]) for c in range(k)]
    return [softmax([cos(x, m) / 0.1 for m in mu]) for x in q_], inlier["q"]


def propagated(v: Matrix, y: list[int], k: int, n_neighbors: int, alpha: float) -> Matrix:
    """iLPC's Z, by iteration to the fixed point Z = alpha S Z + Y."""
    n = len(v)
    W = [[0.0] * n for _ in v]
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: -dot(v[i], v[j]))[:n_neighbors]
        for j in others:
            w = max(0.0, dot(v[i], v[j])) ** 3
            W[i][j] += w
            W[j][i] += w
    degree = [sum(row) or 1.0 for row in W]
    Y = [[float(i < len(y) and y[i] == c) for c in range(k)] for i in range(n)]
    Z = Y
    for _ in range(300):
        Z = [
            [
                alpha * sum(W[i][j] / math.sqrt(degree[i] * degree[j]) * Z[j][c] for j in range(n)) + Y[i][c]
                for c in range(k)
            ]
            for i in range(n)
        ]
    return Z


def training_losses(x: Matrix, labels: list[int], n_support: int, k: int, n_epochs: int) -> Vector:
    """iLPC's mean losses: a linear layer trained by SGD with momentum, on all images at once, weights and bias as they are."""
    weights = [unit(m) for m in means_of(x[:n_support], labels[:n_support], k)]
    layer = [[*w, 0.0] for w in weights]
    speed = [[0.0] * len(row) for row in layer]
    total = [0.0] * len(x)
    for _ in range(n_epochs):
        gradient = [[5e-4 * v for v in row] for row in layer]
        for i, row in enumerate(x):
            p = softmax([dot([*row, 1.0], w) for w in layer])
            total[i] -= math.log(p[labels[i]]) / n_epochs
            for c in range(k):
                error = (p[c] - float(labels[i] == c)) / len(x)
                gradient[c] = [g + error * v for g, v in zip(gradient[c], [*row, 1.0], strict=True)]
        speed = [[0.9 * a + b for a, b in zip(r, g, strict=True)] for r, g in zip(speed, gradient, strict=True)]
        layer = [[a - 0.1 * b for a, b in zip(r, v, strict=True)] for r, v in zip(layer, speed, strict=True)]
    return total


def cleaned(s: Matrix, y: list[int], u: Matrix, k: int, n_selected: int, n_epochs: int) -> Matrix:
    """iLPC's probabilities of the pool, round by round, with alpha = 0.8, 20 neighbors and tau = 3."""
    found: dict[int, Vector] = {}
    left, room = list(range(len(u))), [len(u) / k] * k
    while left:
        Z = propagated(s + [u[i] for i in left], y, k, 20, 0.8)[len(s) :]
        free = [max(0.0, r) for r in room]
        free = [r * len(left) / sum(free) for r in free]
        P = balanced([[(max(0.0, v) / sum(row)) ** 3 for v in row] for row in Z], free, 1_000)
        found |= dict(zip(left, P, strict=True))
        chosen = [largest(row) for row in P]
        losses = training_losses(s + [u[i] for i in left], y + chosen, len(s), k, n_epochs)[len(s) :]
        moves = []
        for c in range(k):
            mine = [j for j in range(len(left)) if chosen[j] == c]
            moves += sorted(mine, key=lambda j: losses[j])[:n_selected]
        if len(moves) < k:
            break
        s, y = s + [u[left[j]] for j in moves], y + [chosen[j] for j in moves]
        room = [r - sum(chosen[j] == c for j in moves) for c, r in enumerate(room)]
        left = [i for j, i in enumerate(left) if j not in moves]
    return [found[i] for i in range(len(u))]

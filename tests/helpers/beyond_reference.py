"""Slow twins of the methods beyond the paper's comparison, with for-loops, written from their papers."""

from __future__ import annotations

import math

Vector = list[float]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def plus(*vectors: Vector) -> Vector:
    return [sum(values) for values in zip(*vectors, strict=True)]


def softmax(values: Vector) -> Vector:
    exps = [math.exp(v) for v in values]
    return [e / sum(exps) for e in exps]


def mixed(weights: Vector, vectors: list[Vector]) -> Vector:
    """sum_i w_i x_i"""
    return plus(*([w * v for v in x] for w, x in zip(weights, vectors, strict=True)))


def matching_probabilities(query: Vector, support: list[Vector], labels: list[int], n_way: int, scale: float) -> Vector:
    """Vinyals et al., eq. 1 with the attention of sec. 2.1.1."""
    cosines = [dot(query, x) / math.sqrt(dot(query, query) * dot(x, x)) for x in support]
    a = softmax([scale * c for c in cosines])
    return [sum(weight for weight, y in zip(a, labels, strict=True) if y == c) for c in range(n_way)]


class Cell:
    """An LSTM's equations, from PyTorch's weights: gates in the order i, f, g, o."""

    def __init__(self, w_x: list[Vector], w_h: list[Vector], b_x: Vector, b_h: Vector):
        self.w_x, self.w_h, self.b = w_x, w_h, plus(b_x, b_h)

    def step(self, x: Vector, h: Vector, c: Vector) -> tuple[Vector, Vector]:
        rows = zip(self.w_x, self.w_h, self.b, strict=True)
        gates = [dot(w_x, x) + dot(w_h, h) + b for w_x, w_h, b in rows]
        d = len(c)
        i, f, o = ([1 / (1 + math.exp(-v)) for v in gates[k * d : (k + 1) * d]] for k in (0, 1, 3))
        g = [math.tanh(v) for v in gates[2 * d : 3 * d]]
        c = [f[j] * c[j] + i[j] * g[j] for j in range(d)]
        return [o[j] * math.tanh(c[j]) for j in range(d)], c


def context_of_support(support: list[Vector], forward: Cell, backward: Cell) -> list[Vector]:
    """Vinyals et al., appendix A.2: g(x_i) = h_i + h'_i + g'(x_i)."""

    def states(sequence: list[Vector], cell: Cell) -> list[Vector]:
        h, c, found = [0.0] * len(support[0]), [0.0] * len(support[0]), []
        for x in sequence:
            h, c = cell.step(x, h, c)
            found.append(h)
        return found

    there, back = states(support, forward), states(support[::-1], backward)[::-1]
    return [plus(h, h_back, x) for h, h_back, x in zip(there, back, support, strict=True)]


def context_of_query(query: Vector, support: list[Vector], reader: Cell, n_reads: int) -> Vector:
    """Vinyals et al., eqs. 3 to 6, on the support's context embeddings."""
    h, c = [0.0] * len(query), [0.0] * len(query)
    for _ in range(n_reads):
        r = mixed(softmax([dot(h, g) for g in support]), support)
        out, c = reader.step(query + r, h, c)
        h = plus(out, query)
    return h


def softmax_regression(
    support: list[Vector], labels: list[int], W: list[Vector], b: Vector, n_steps: int, step_size: float
) -> tuple[list[Vector], Vector]:
    """Finn et al., algorithm 2, line 7, for a linear layer alone: gradient descent on the mean cross-entropy."""
    for _ in range(n_steps):
        p = [softmax([dot(w, x) + shift for w, shift in zip(W, b, strict=True)]) for x in support]
        new_W, new_b = [], []
        for c in range(len(W)):
            errors = [row[c] - float(y == c) for row, y in zip(p, labels, strict=True)]
            slope = [sum(e * x[j] for e, x in zip(errors, support, strict=True)) for j in range(len(W[0]))]
            new_W.append([w - step_size * s / len(support) for w, s in zip(W[c], slope, strict=True)])
            new_b.append(b[c] - step_size * sum(errors) / len(support))
        W, b = new_W, new_b
    return W, b


def set_to_set(
    x: list[Vector],
    attended: list[Vector],
    W_q: list[Vector],
    W_k: list[Vector],
    W_v: list[Vector],
    W: list[Vector],
    b: Vector,
    eps: float,
) -> list[Vector]:
    """Ye et al.: attention with one head, a linear layer, a skip connection, and layer norm with gain 1."""
    q = [[dot(row, one) for row in W_q] for one in x]
    k, v = ([[dot(row, one) for row in weights] for one in attended] for weights in (W_k, W_v))
    adapted = []
    for i, one in enumerate(x):
        a = softmax([dot(q[i], key) / math.sqrt(len(one)) for key in k])
        read = mixed(a, v)
        moved = plus(one, [dot(row, read) for row in W], b)
        mean = sum(moved) / len(moved)
        variance = sum((m - mean) ** 2 for m in moved) / len(moved)
        adapted.append([(m - mean) / math.sqrt(variance + eps) for m in moved])
    return adapted

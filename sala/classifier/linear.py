"""A linear classifier of the labeled images (class-balanced ridge regression).

The classes may differ in only a few of the directions in which images vary; class means do not know which ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sala.functional import one_hot

RIDGE = 0.1  # for embeddings of length 1
PRIOR_PAIR_SIMILARITY, PRIOR_PAIRS = 0.3, 4.0  # similarity of two images of a class, and how many pairs that counts for


def linear_classifier(embeddings: Tensor, labels: Tensor) -> Tensor:  # [s, d], [s] -> [k, d]
    """The rows of A that minimize sum_s w_s |A x_s - t_s|^2 + RIDGE |A|^2, comparable between classes of unequal shots.

    t_s is one-hot less 1 / k (one class: 1), and w_s balances the classes. With r the similarity of two images of a class, n
    labeled images give a new image of it the expected response n r / (1 + (n - 1) r). Each row is scaled to the response of
    the mean number of shots: else a class of few images would hardly be predicted.
    """
    counts, r = labels.bincount().to(embeddings.dtype), pair_similarity(embeddings, labels)
    lengths = _expected_response(counts.mean(), r) / _expected_response(counts, r)
    return lengths[:, None] * _ridge_regression(embeddings, labels, counts)


def pair_similarity(support: Tensor, labels: Tensor) -> float:  # [s, d], [s]
    """The mean similarity of two labeled images of a class, regularized by `PRIOR_PAIRS` of a typical similarity."""
    counts = labels.bincount()
    sums = one_hot(labels, len(counts), like=support).T @ support
    total = float(sums.square().sum()) - len(support) + PRIOR_PAIRS * PRIOR_PAIR_SIMILARITY
    return min(max(total / (float((counts * (counts - 1)).sum()) + PRIOR_PAIRS), 0.05), 0.95)


def _expected_response(n: Tensor, r: float) -> Tensor:
    return n * r / (1 + (n - 1) * r)


def _ridge_regression(embeddings: Tensor, labels: Tensor, counts: Tensor) -> Tensor:  # [s, d], [s], [k] -> [k, d]
    targets = one_hot(labels, len(counts), like=embeddings) - (1 / len(counts) if len(counts) > 1 else 0)
    w = (len(labels) / (len(counts) * counts))[labels]
    n, d = embeddings.shape
    if n <= d:  # the dual form, whose system is the smaller one
        dual: Tensor = torch.linalg.solve(embeddings @ embeddings.T + torch.diag(RIDGE / w), targets)
        return dual.T @ embeddings
    weighted, ridge = w[:, None] * embeddings, RIDGE * torch.eye(d, dtype=w.dtype)
    primal: Tensor = torch.linalg.solve(weighted.T @ embeddings + ridge, weighted.T @ targets)
    return primal.T

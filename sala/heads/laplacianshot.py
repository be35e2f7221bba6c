"""LaplacianShot: the nearest prototype, with a penalty on neighbors that disagree."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sala.functional import class_means, squared_distances
from sala.heads.base import FittedHead, Head, Scores
from sala.heads.bdcspn import Rectified, rectify
from sala.heads.normalize import centered

BOUND_TOLERANCE = 1e-6  # released code: the relative change of the bound at which the updates end


@dataclass(frozen=True)
class LaplacianShot(Head):
    """Distances to prototypes plus a Laplacian term that draws neighbors in the pool to the same class.

    Ziko et al., ICML 2020, arXiv:2006.15486.

    1. a_qc = |x_q - m_c|^2, on centered embeddings of length 1 and rectified prototypes m
    2. w_qp = 1 if p is among the k nearest neighbors of q in the pool
    3. y_q = softmax(-a_q + lambda sum_p w_qp y_p), from y_q = softmax(-a_q) on    (bound updates)

    A query takes step 3 once: its neighbors are images of the pool, with the assignments that these have in the end.

    Deviations: centered by the mean of the task's support and pool, as in SimpleShot. The paper tunes lambda on validation
    classes, from 0.1 to 1.5; ours is the released code's default. The released code counts an image among its own k neighbors,
    and weighs the images of a rectified prototype by their class probabilities; we weigh as BD-CSPN does.

    Parameters
    ----------
    laplacian_weight : float, default 1.0
        The paper's lambda.
    n_neighbors : int, default 3
        The paper's k.
    n_steps : int, default 20
        Bound updates at most.
    is_rectified : bool, default True
        Whether prototypes are rectified as in BD-CSPN.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(
    ...     support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 1.0]], unlabeled=[[2.0, 1.0], [1.0, 2.0]]
    ... )
    >>> sala.HEADS["laplacianshot"]().scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper = "Ziko et al., ICML 2020"
    is_transductive = True

    laplacian_weight: float = 1.0  # released code
    n_neighbors: int = 3  # released code
    n_steps: int = 20  # released code
    is_rectified: bool = True  # released commands

    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:
        normalized = centered(support, pool)
        z = normalized(support)
        if self.is_rectified:
            found = rectify(z, labels, normalized(pool), n_way, epsilon=10.0)
        else:
            found = Rectified(class_means(z, labels, n_way), torch.zeros_like(z[0]))
        nodes = normalized(pool) + found.shift
        distances = squared_distances(nodes, found.prototypes)
        W = neighbors(squared_distances(nodes, nodes).fill_diagonal_(torch.inf), self.n_neighbors)
        assigned = bound_updates(distances, W, self.laplacian_weight, self.n_steps)

        def classify(query: Tensor) -> Scores:
            x = normalized(query) + found.shift
            to_pool = neighbors(squared_distances(x, nodes), self.n_neighbors)
            return Scores(updated(squared_distances(x, found.prototypes), to_pool @ assigned, self.laplacian_weight))

        return FittedHead(Scores(assigned.log()), classify)


def bound_updates(distances: Tensor, W: Tensor, weight: float, n_steps: int) -> Tensor:  # [n, k], [n, n] -> [n, k]
    """The assignments y, updated until the bound stops to fall."""
    y = (-distances).softmax(-1)
    before = torch.nan  # no bound yet: nothing compares with it
    for _ in range(n_steps):
        y = updated(distances, W @ y, weight).exp()
        bound = float((y * (y.clamp_min(1e-20).log() + distances - weight * (W @ y))).sum())
        if abs(bound - before) <= BOUND_TOLERANCE * abs(before):
            break
        before = bound
    return y.clamp_min(torch.finfo(y.dtype).tiny)


def updated(distances: Tensor, of_neighbors: Tensor, weight: float) -> Tensor:  # [n, k], [n, k] -> [n, k]
    """log y_q = log softmax(-a_q + lambda sum_p w_qp y_p)"""
    return (weight * of_neighbors - distances).log_softmax(-1)


def neighbors(distances: Tensor, k: int) -> Tensor:  # [q, n] -> [q, n]
    """1 where a column is among the k nearest of its row; at infinite distance nothing is."""
    W = torch.zeros_like(distances)
    if distances.numel():
        near = distances.topk(min(k, distances.shape[1]), largest=False)
        W.scatter_(1, near.indices, near.values.isfinite().to(W.dtype))
    return W

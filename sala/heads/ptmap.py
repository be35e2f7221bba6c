"""PT-MAP: a power transform makes embeddings Gaussian-like; class centers and balanced assignments are found in turn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sala.functional import class_means, one_hot, squared_distances, unit_length, weighted_means
from sala.heads.base import FittedHead, Head, fitted
from sala.heads.normalize import powered
from sala.heads.sinkhorn import sinkhorn


@dataclass(frozen=True)
class PTMAP(Head):
    """Optimal transport of the pool to equally large classes, whose centers follow in small steps.

    Hu et al., ICANN 2021, arXiv:2006.03806.

    1. f = (x + epsilon)^beta, length 1, centered, length 1
    2. P = Sinkhorn(exp(-lambda |f_i - c_j|^2)): rows of the pool sum to 1, columns to u / k
    3. c_j <- c_j + alpha (mu_j - c_j), mu_j the mean of support and pool with weights y and P

    A query's probabilities are exp(-lambda |f - c_j|^2) times the column factors of the last Sinkhorn iteration: an image of
    the pool would get the row of P that it has. Equally large classes are an assumption; distractors break it.

    Deviations: the power of a negative number keeps its sign (the paper's embeddings are not negative). The released code's
    QR decomposition is omitted: it keeps all distances. Sinkhorn starts from the column factors of the step before, which is
    faster. As in that code, the support is centered by its own mean, the pool and queries by the pool's; without a pool, all
    by the support's.

    Parameters
    ----------
    beta : float, default 0.5
        The power.
    inverse_temperature : float, default 10.0
        The paper's lambda.
    step_size : float, default 0.2
        The paper's alpha.
    n_steps : int, default 20
        How often centers move.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(
    ...     support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 1.0]], unlabeled=[[2.0, 1.0], [1.0, 2.0]]
    ... )
    >>> sala.HEADS["pt-map"]().scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper = "Hu et al., ICANN 2021"
    is_transductive = True

    beta: float = 0.5  # released code
    inverse_temperature: float = 10.0  # released code
    step_size: float = 0.2  # released code
    n_steps: int = 20  # released code

    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:
        f_s, f_u, y = powered(support, self.beta), powered(pool, self.beta), one_hot(labels, n_way, like=support)
        origin = (f_u if len(pool) else f_s).mean(0)
        f_s, f_u = unit_length(f_s - f_s.mean(0)), unit_length(f_u - origin)
        capacities = torch.full_like(y[0], len(pool) / n_way)
        centers, factors = class_means(f_s, labels, n_way), torch.ones_like(capacities)
        for _ in range(self.n_steps):
            P, factors = sinkhorn(self.kernel(f_u, centers), capacities, factors)
            estimate = weighted_means(torch.cat([f_s, f_u]), torch.cat([y, P]))
            centers = centers + self.step_size * (estimate - centers)
        factors = sinkhorn(self.kernel(f_u, centers), capacities, factors).columns
        return fitted(
            pool, lambda x: self.log_probabilities(unit_length(powered(x, self.beta) - origin), centers, factors)
        )

    def kernel(self, f: Tensor, centers: Tensor) -> Tensor:  # [n, d], [k, d] -> [n, k]
        """exp(-lambda |f_i - c_j|^2)"""
        return (-self.inverse_temperature * squared_distances(f, centers)).exp()

    def log_probabilities(self, f: Tensor, centers: Tensor, factors: Tensor) -> Tensor:
        """Those of the kernel with its columns multiplied."""
        return (factors.log() - self.inverse_temperature * squared_distances(f, centers)).log_softmax(-1)

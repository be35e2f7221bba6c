"""Whitening: down-weights directions of high within-class covariance (regularized LDA).

    whitening = fit_whitening(pool, weights)
    pool = whitening.apply_(pool)  # and likewise every other image

Light, pose or handwriting vary within every class and say little about which class it is. With W the within-class covariance,
embeddings are mapped by (I + W / tau)^-1/2 before classes are compared, as in regularized discriminant analysis (Friedman,
JASA 1989), but only along the largest eigenvectors of W. The classes share W, which is estimated from the pool.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sala.functional import one_hot, unit_length

OVERSAMPLING, N_ITERATIONS = 24, 8  # of the subspace iteration: the spectrum of real images falls slowly


@dataclass(frozen=True)
class Whitening:
    """Directions of high within-class covariance, and by how much each is shrunk."""

    directions: Tensor  # [d, r], orthonormal
    shrinkage: Tensor  # [r], 0 (kept) to 1 (removed)

    def is_valid(self) -> bool:
        """Whether directions are orthonormal and shrinkage is a share; a damaged model file may hold anything."""
        n = len(self.shrinkage)
        gram = self.directions.T @ self.directions if n <= len(self.directions) else torch.full((n, n), torch.inf)
        is_share = bool((self.shrinkage >= 0).all() and (self.shrinkage <= 1).all())
        return is_share and bool(torch.allclose(gram, torch.eye(n), atol=1e-3))

    def apply_(self, embeddings: Tensor) -> Tensor:  # [n, d] -> [n, d]
        """Whitened embeddings of length 1, written over the given ones: no second copy of a pool is made."""
        if not len(self.shrinkage):
            return embeddings
        embeddings.addmm_(embeddings @ (self.directions * self.shrinkage), self.directions.T, alpha=-1.0)
        return unit_length(embeddings, out=embeddings)


def no_whitening(embeddings: Tensor) -> Whitening:
    """The identity."""
    return Whitening(embeddings.new_zeros(embeddings.shape[1], 0), embeddings.new_zeros(0))


def fit_whitening(embeddings: Tensor, weights: Tensor, n_directions: int) -> Whitening:  # [n, d], [n, k]
    """Whitening by the within-class covariance W of a pool, each image counted in its most probable class by p^2.

    tau = tr(W) (1 / d + 1 / m), with m the effective number of images beyond their classes: a direction is shrunk little if
    it holds no more of tr(W) than one of d directions or one of m images would. In a small pool W is those very images.
    """
    confidence, best = weights.max(-1) if len(weights) else (weights.new_zeros(0), torch.zeros(0, dtype=torch.long))
    w = confidence.square()
    assigned = one_hot(best, weights.shape[1], like=embeddings) * w[:, None]
    sums, squares = assigned.sum(0), float(w.square().sum())
    m = float(w.sum()) ** 2 / squares - int((sums > 0).sum()) if squares else 0.0
    if m <= 0 or not n_directions:
        return no_whitening(embeddings)
    means = (assigned.T @ embeddings) / sums.clamp_min(1e-12)[:, None]
    residuals = (embeddings - means[best]) * (w / w.sum()).sqrt()[:, None]
    trace = float(residuals.square().sum())
    if trace < 1e-9:
        return no_whitening(embeddings)
    directions, variances = principal_directions(residuals, n_directions)
    tau = trace * (1 / embeddings.shape[1] + 1 / m)
    return Whitening(directions, 1 - (1 + variances / tau).rsqrt())


def principal_directions(rows: Tensor, n: int) -> tuple[Tensor, Tensor]:  # [m, d] -> [d, n], [n]
    """The n largest eigenvectors and eigenvalues of rows.T @ rows, by subspace iteration (Halko et al., SIAM Review 2011)."""
    d, n = rows.shape[1], min(n, *rows.shape)
    width, generator = min(n + OVERSAMPLING, *rows.shape), torch.Generator().manual_seed(0)
    start = torch.randn(d, width, generator=generator, dtype=rows.dtype)
    if 2 * len(rows) < d:  # iterate in the space of rows, which is the smaller one
        gram, basis = rows @ rows.T, torch.linalg.qr(rows @ start).Q
        for _ in range(N_ITERATIONS):
            basis = torch.linalg.qr(gram @ basis).Q
        vectors, lengths, _ = torch.linalg.svd(rows.T @ basis, full_matrices=False)
        return vectors[:, :n].contiguous(), lengths[:n].square()
    basis = torch.linalg.qr(start).Q
    for _ in range(N_ITERATIONS):
        basis = torch.linalg.qr(rows.T @ (rows @ basis)).Q
    _, lengths, rotation = torch.linalg.svd(rows @ basis, full_matrices=False)
    return (basis @ rotation.T)[:, :n].contiguous(), lengths[:n].square()

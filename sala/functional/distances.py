"""Distances between embeddings and class centers. A distance is a distance: small means near."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def squared_distances(embeddings: Tensor, centers: Tensor, weights: Tensor | None = None) -> Tensor:
    """Squared Euclidean distances, optionally with one weight per center and feature: sum_j a_ij (x_j - c_ij)^2.

    The square is expanded to x^2.a - 2 x.(ac) + ac.c: three matrix products instead of an [n, k, d] array. Embeddings and
    centers are first shifted by the mean center. That changes no distance and keeps the cancellation error small.

    Parameters
    ----------
    embeddings : Tensor
        x, `[..., n, d]`.
    centers : Tensor
        c, `[..., k, d]`.
    weights : Tensor, optional
        a, `[..., k, d]`, not negative. Without it every weight is 1.

    Returns
    -------
    Tensor
        `[..., n, k]`, never negative.

    Examples
    --------
    >>> import torch
    >>> from sala import squared_distances
    >>> squared_distances(torch.tensor([[0.0], [3.0]]), torch.tensor([[1.0], [5.0]]))
    tensor([[ 1., 25.],
            [ 4.,  4.]])
    """
    distances: Tensor = _SquaredDistances.apply(embeddings, centers, weights)  # type: ignore[no-untyped-call]
    return distances


class _SquaredDistances(torch.autograd.Function):
    """With its gradients in closed form: fewer operations than PyTorch would record."""

    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, centers: Tensor, weights: Tensor | None) -> Tensor:
        ctx.save_for_backward(embeddings, centers, weights)
        x, c = _centered(embeddings, centers)
        if weights is None:
            to_embeddings = x.square().sum(-1, keepdim=True)
            weighted = c
        else:
            to_embeddings = x.square() @ weights.mT
            weighted = weights * c
        to_centers = (weighted * c).sum(-1).unsqueeze(-2)
        return (to_embeddings - 2 * x @ weighted.mT + to_centers).clamp_min_(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """With G the gradient of the distances: dx = 2 (x Ga - G(ac)), dc = 2a (c G'1 - G'x),
        da = G'x^2 - 2 c G'x + c^2 G'1."""
        embeddings, centers, weights = ctx.saved_tensors
        (g,) = grads
        x, c = _centered(embeddings, centers)
        by_embeddings, by_centers, by_weights = None, None, None
        if ctx.needs_input_grad[0]:
            total, weighted = (g.sum(-1, keepdim=True), c) if weights is None else (g @ weights, weights * c)
            by_embeddings = 2 * (x * total - g @ weighted)
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            total, pulled = c * g.sum(-2).unsqueeze(-1), g.mT @ x
            by_centers = 2 * (total - pulled)
            if weights is not None:
                by_weights = g.mT @ x.square() + c * (total - 2 * pulled)
                by_centers = weights * by_centers
        return by_embeddings, by_centers, by_weights


def _centered(embeddings: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    origin = centers.mean(-2, keepdim=True)
    return embeddings - origin, centers - origin

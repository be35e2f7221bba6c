"""Distances between points and centres. A distance is a distance: small means near."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sala import kernels


def squared_distances(points: Tensor, centres: Tensor, weights: Tensor | None = None) -> Tensor:
    """sum_j a_ij (x_j - c_ij)^2: `[..., n, d], [..., k, d], [..., k, d] -> [..., n, k]`; without weights a = 1.

    Written out as x^2.a - 2 x.(ac) + ac.c, three matrix products instead of an [n, k, d] array. Points and centres are
    first moved by the mean centre, which changes no distance and keeps the sums small, so that little is lost in
    the cancellation.
    """
    distances: Tensor = _SquaredDistances.apply(points, centres, weights)  # type: ignore[no-untyped-call]
    return distances


class _SquaredDistances(torch.autograd.Function):
    """With its gradients in closed form: fewer operations than PyTorch would record."""

    @staticmethod
    def forward(ctx: Any, points: Tensor, centres: Tensor, weights: Tensor | None) -> Tensor:
        ctx.save_for_backward(points, centres, weights)
        if _is_small(points, centres, weights):
            return _small_distances(points, centres, weights)
        x, c = _centred(points, centres)
        if weights is None:
            to_points = x.square().sum(-1, keepdim=True)
            weighted = c
        else:
            to_points = x.square() @ weights.mT
            weighted = weights * c
        to_centres = (weighted * c).sum(-1).unsqueeze(-2)
        return (to_points - 2 * x @ weighted.mT + to_centres).clamp_min_(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """With G the gradient of the distances: dx = 2 (x Ga - G(ac)), dc = 2a (c G'1 - G'x),
        da = G'x^2 - 2 c G'x + c^2 G'1."""
        points, centres, weights = ctx.saved_tensors
        (g,) = grads
        wants_more = torch.is_grad_enabled()  # the gradient of the gradient
        if not wants_more and _is_small(points, centres, weights, g):
            return _small_gradients(points, centres, weights, g)
        x, c = _centred(points, centres)
        by_points, by_centres, by_weights = None, None, None
        if ctx.needs_input_grad[0]:
            if weights is None:
                by_points = 2 * (x * g.sum(-1, keepdim=True) - g @ c)
            else:
                by_points = 2 * (x * (g @ weights) - g @ (weights * c))
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            total, pulled = c * g.sum(-2).unsqueeze(-1), g.mT @ x
            by_centres = 2 * (total - pulled)
            if weights is not None:
                by_weights = g.mT @ x.square() + c * (total - 2 * pulled)
                by_centres = weights * by_centres
        return by_points, by_centres, by_weights


def _centred(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    origin = centres.mean(-2, keepdim=True)
    return points - origin, centres - origin


def _is_small(points: Tensor, centres: Tensor, weights: Tensor | None, g: Tensor | None = None) -> bool:
    n, k, shape = len(points), centres.shape[-2], (centres.shape[-2], points.shape[-1])
    return kernels.is_small_task(points, k, (centres, shape), (weights, shape), (g, (n, k)))


def _small_distances(points: Tensor, centres: Tensor, weights: Tensor | None) -> Tensor:
    from sala import jit_task

    out = points.new_empty(len(points), len(centres))
    a = torch.ones_like(centres) if weights is None else weights
    jit_task.distances(*map(kernels.as_array, (points, centres, a)), out.numpy())
    return out


def _small_gradients(
    points: Tensor, centres: Tensor, weights: Tensor | None, g: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    from sala import jit_task

    a = torch.ones_like(centres) if weights is None else weights
    found = points.new_empty(points.shape), *(centres.new_empty(centres.shape) for _ in range(2))
    jit_task.distance_gradients(*map(kernels.as_array, (points, centres, a, g)), *(part.numpy() for part in found))
    return found[0], found[1], None if weights is None else found[2]

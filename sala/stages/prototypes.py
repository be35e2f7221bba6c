"""Class prototypes: weighted means of embedded points, for any number of shots in each class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sala import kernels


def one_hot(labels: Tensor, n_way: int, like: Tensor) -> Tensor:  # [..., n] -> [..., n, k]
    """z_si = 1 where point s has class i, in the dtype of `like`."""
    return (labels[..., None] == torch.arange(n_way, device=labels.device)).to(like.dtype)


def weighted_means(points: Tensor, weights: Tensor) -> Tensor:  # [..., n, d], [..., n, k] -> [..., k, d]
    """c_i = sum_s w_si x_s / sum_s w_si"""
    means: Tensor = _WeightedMeans.apply(points, weights)  # type: ignore[no-untyped-call]
    return means


class _WeightedMeans(torch.autograd.Function):
    """With its gradients in closed form: with G the gradient of the means and s_i = sum_s w_si,
    dx_s = sum_i w_si G_i / s_i, dw_si = (x_s - c_i).G_i / s_i."""

    @staticmethod
    def forward(ctx: Any, points: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(points, weights)
        if _is_small(points, weights):
            return _small_means(points, weights)
        return _means(points, weights)[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        points, weights = ctx.saved_tensors
        wants_more = torch.is_grad_enabled()  # the gradient of the gradient
        if not wants_more and _is_small(points, weights, grads[0]):
            return _small_gradients(points, weights, grads[0])
        by_points, by_weights = None, None
        means, sums = _means(points, weights)
        g = grads[0] / sums
        if ctx.needs_input_grad[0]:
            by_points = weights @ g
        if ctx.needs_input_grad[1]:
            by_weights = points @ g.mT - (means * g).sum(-1).unsqueeze(-2)
        return by_points, by_weights


def _means(points: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    sums = weights.sum(-2).unsqueeze(-1)
    return weights.mT @ points / sums, sums


def _is_small(points: Tensor, weights: Tensor, g: Tensor | None = None) -> bool:
    n, k = len(points), weights.shape[-1]
    return kernels.is_small_task(points, k, (weights, (n, k)), (g, (k, points.shape[-1])))


def _small_means(points: Tensor, weights: Tensor) -> Tensor:
    from sala import jit_task

    n_way = weights.shape[1]
    means, sums = points.new_empty(n_way, points.shape[1]), points.new_empty(n_way)
    jit_task.means(*map(kernels.as_array, (points, weights)), means.numpy(), sums.numpy())
    return means


def _small_gradients(points: Tensor, weights: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    from sala import jit_task

    by_points, by_weights = points.new_empty(points.shape), weights.new_empty(weights.shape)
    jit_task.mean_gradients(*map(kernels.as_array, (points, weights, grad)), by_points.numpy(), by_weights.numpy())
    return by_points, by_weights


def class_means(points: Tensor, labels: Tensor, n_way: int) -> Tensor:  # [..., n, d], [..., n] -> [..., k, d]
    """The prototypes of a support set: c_i, the mean of its points of class i."""
    return weighted_means(points, one_hot(labels, n_way, like=points))

"""Class prototypes: weighted means of embeddings, for any number of shots in each class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def one_hot(labels: Tensor, n_way: int, like: Tensor) -> Tensor:  # [..., n] -> [..., n, k]
    """z_si = 1 where image s has class i, in the dtype of `like`."""
    return (labels[..., None] == torch.arange(n_way, device=labels.device)).to(like.dtype)


def weighted_means(embeddings: Tensor, weights: Tensor) -> Tensor:  # [..., n, d], [..., n, k] -> [..., k, d]
    """Weighted means of embeddings, one per column of weights: c_i = sum_s w_si x_s / sum_s w_si.

    Parameters
    ----------
    embeddings : Tensor
        x, `[..., n, d]`.
    weights : Tensor
        w, `[..., n, k]`, not negative; each column has a positive sum.

    Returns
    -------
    Tensor
        c, `[..., k, d]`.

    Examples
    --------
    >>> import torch
    >>> from sala import weighted_means
    >>> weighted_means(torch.tensor([[0.0], [4.0]]), torch.tensor([[1.0, 3.0], [1.0, 1.0]]))
    tensor([[2.],
            [1.]])
    """
    means: Tensor = _WeightedMeans.apply(embeddings, weights)  # type: ignore[no-untyped-call]
    return means


class _WeightedMeans(torch.autograd.Function):
    """With its gradients in closed form: with G the gradient of the means and s_i = sum_s w_si,
    dx_s = sum_i w_si G_i / s_i, dw_si = (x_s - c_i).G_i / s_i."""

    @staticmethod
    def forward(ctx: Any, embeddings: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(embeddings, weights)
        return _means(embeddings, weights)[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        embeddings, weights = ctx.saved_tensors
        by_embeddings, by_weights = None, None
        means, sums = _means(embeddings, weights)
        g = grads[0] / sums
        if ctx.needs_input_grad[0]:
            by_embeddings = weights @ g
        if ctx.needs_input_grad[1]:
            by_weights = embeddings @ g.mT - (means * g).sum(-1).unsqueeze(-2)
        return by_embeddings, by_weights


def _means(embeddings: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    sums = weights.sum(-2).unsqueeze(-1)
    return weights.mT @ embeddings / sums, sums


def class_means(embeddings: Tensor, labels: Tensor, n_way: int) -> Tensor:  # [..., n, d], [..., n] -> [..., k, d]
    """The prototypes of a support set: c_i, the mean embedding of its images of class i.

    Parameters
    ----------
    embeddings : Tensor
        Of the support images, `[..., n, d]`.
    labels : Tensor
        Their classes 0 to `n_way` - 1, `[..., n]`, each at least once.
    n_way : int
        The number of classes.

    Returns
    -------
    Tensor
        `[..., n_way, d]`.

    Examples
    --------
    >>> import torch
    >>> from sala import class_means
    >>> class_means(torch.tensor([[0.0], [2.0], [10.0]]), torch.tensor([0, 0, 1]), n_way=2)
    tensor([[ 1.],
            [10.]])
    """
    return weighted_means(embeddings, one_hot(labels, n_way, like=embeddings))

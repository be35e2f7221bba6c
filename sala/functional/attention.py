"""Attention: how much each query attends to each key."""

from __future__ import annotations

from torch import Tensor


def attention(
    queries: Tensor, keys: Tensor, *, scale: float = 1.0
) -> Tensor:  # [..., n, d], [..., m, d] -> [..., n, m]
    """Attention weights a_ij = softmax_j(scale * q_i.k_j). Rows sum to 1; `attention(q, k) @ v` reads the values v.

    Parameters
    ----------
    queries : Tensor
        q, `[..., n, d]`. With `unit_length` for queries and keys the products are cosine similarities.
    keys : Tensor
        k, `[..., m, d]`.
    scale : float, default 1.0
        Of the products, before the softmax.

    Returns
    -------
    Tensor
        `[..., n, m]`.

    Examples
    --------
    >>> import torch
    >>> attention(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [1.0, 0.0]]))
    tensor([[0.5000, 0.5000]])
    """
    return (scale * queries @ keys.mT).softmax(-1)

"""Attention: how much each query attends to each key."""

from __future__ import annotations

from torch import Tensor


def attention(
    queries: Tensor, keys: Tensor, *, scale: float = 1.0, among: Tensor | None = None
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
    among : Tensor, optional
        bool `[..., n, m]`: the keys that each query may attend to, at least one. By default all.

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
    products = scale * queries @ keys.mT
    return (products if among is None else products.masked_fill(~among, float("-inf"))).softmax(-1)

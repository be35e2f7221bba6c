"""Vectors of length 1, whose dot product is their cosine similarity."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F


def unit_length(x: Tensor, out: Tensor | None = None) -> Tensor:  # [..., d] -> [..., d]
    """`x` with its last dimension scaled to length 1; a zero vector stays zero.

    Parameters
    ----------
    x : Tensor of shape (..., d)
    out : Tensor of the same shape, optional
        Where to write the result. `out=x` scales in place, without a second copy of a large pool.

    Returns
    -------
    Tensor of the shape of `x`

    Examples
    --------
    >>> import torch
    >>> unit_length(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    return F.normalize(x, dim=-1, out=out)

"""Distances between points and centres. A distance is a distance: small means near."""

from __future__ import annotations

from torch import Tensor


def squared_distances(points: Tensor, centres: Tensor, weights: Tensor | None = None) -> Tensor:
    """sum_j a_ij (x_j - c_ij)^2: `[..., n, d], [..., k, d], [..., k, d] -> [..., n, k]`; without weights a = 1.

    Written out as x^2.a - 2 x.(ac) + ac.c, three matrix products instead of an [n, k, d] array. Points and centres are
    first moved by the mean centre, which changes no distance and keeps the sums small, so that little is lost in
    the cancellation.
    """
    origin = centres.mean(-2, keepdim=True)
    x, c = points - origin, centres - origin
    if weights is None:
        to_points = x.square().sum(-1, keepdim=True)
        weighted = c
    else:
        to_points = x.square() @ weights.transpose(-2, -1)
        weighted = weights * c
    to_centres = (weighted * c).sum(-1)[..., None, :]
    return (to_points - 2 * x @ weighted.transpose(-2, -1) + to_centres).clamp_min(0)

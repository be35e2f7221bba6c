"""What images of one class differ in anyhow (light, pose, a hand's writing) tells little of the classes, and counts less.

    variation = variation_of(pool, weights, none_share)
    pool = variation.taken_out_of(pool)          # the same for every other image

The task's own metric, in closed form: with W the covariance of images around the mean of their class, points are mapped by
(I + W / tau)^-1/2 before they are compared, as in linear discriminant analysis with a ridge (Friedman, JASA 1989), but in
the few strongest directions of W alone. The classes share it. It is told by the images of the pool alone; what labelled
images tell beyond their means is left to sala/linear.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sala.stages import one_hot

N_MORE = 24  # directions to look for beside those that are wanted
N_POWERS = 8  # steps to find them in: how strong the directions of real images are falls slowly
SHARE = 0.001  # of all variation: a direction with more of it counts less
DOUBT = 1.0  # the same, divided by the number of images: so much of it is each image's own
SURE = 2.0  # power of an image's weight in refinement: junk and images between classes say little of a class


@dataclass(frozen=True)
class Variation:
    directions: Tensor  # [d, r], of length 1 and at right angles
    removed: Tensor  # [r], how much of each is taken out of points, 0 to 1

    def is_good(self) -> bool:
        """Whether it takes out no more than there is: for what comes from a file."""
        n = len(self.removed)
        turned = self.directions.T @ self.directions if n <= len(self.directions) else torch.full((n, n), torch.inf)
        is_share = bool((self.removed >= 0).all() and (self.removed <= 1).all())
        return is_share and bool(torch.allclose(turned, torch.eye(n), atol=1e-3))

    def taken_out_of(self, points: Tensor) -> Tensor:  # [n, d] -> [n, d]
        """Points of length 1 again; these are written over, no second copy of a pool is made."""
        if not len(self.removed):
            return points
        points.addmm_(points @ (self.directions * self.removed), self.directions.T, alpha=-1.0)
        points /= torch.linalg.vector_norm(points, dim=-1, keepdim=True).clamp_min_(1e-12)
        return points


def no_variation(points: Tensor) -> Variation:
    return Variation(points.new_zeros(points.shape[1], 0), points.new_zeros(0))


def variation_of(
    points: Tensor, weights: Tensor, none_share: float, n_directions: int = 16
) -> Variation:  # [n, d], [n, k]
    """Of a pool's images, which count in their most probable class by the square of how sure they are of it.

    tau = |W| (SHARE + 1 / d + DOUBT / m) / (1 - none_share)^4, where |W| is the trace and m the number of images beyond their
    classes. So a direction loses little where it has no more of the variation than one of d directions would have, or one of
    m images: in a small pool W is those images themselves, each of which it would draw to the class that it was given to.
    Junk that was taken for a class differs from it in what tells junk apart, which is not to be lost.
    """
    sure, best = weights.max(-1) if len(weights) else (weights.new_zeros(0), torch.zeros(0, dtype=torch.long))
    w = sure**SURE
    counts = one_hot(best, weights.shape[1], like=points) * w[:, None]
    sums, square = counts.sum(0), float(w.square().sum())
    m = float(w.sum()) ** 2 / square - int((sums > 0).sum()) if square else 0.0
    if m <= 0:
        return no_variation(points)
    means = (counts.T @ points) / sums.clamp_min(1e-12)[:, None]
    around = (points - means[best]) * (w / w.sum()).sqrt()[:, None]
    total = float(around.square().sum())
    if total < 1e-9:
        return no_variation(points)
    directions, strengths = strongest(around, n_directions)
    tau = total * (SHARE + 1 / points.shape[1] + DOUBT / m) / (1 - none_share) ** 4
    return Variation(directions, 1 - (1 + strengths / tau).rsqrt())


def strongest(rows: Tensor, n: int) -> tuple[Tensor, Tensor]:  # [m, d] -> [d, n], [n]
    """The n largest eigenvectors and eigenvalues of rows' rows, by subspace iteration (Halko et al., SIAM Review 2011)."""
    d, n = rows.shape[1], min(n, *rows.shape)
    start = torch.randn(d, min(n + N_MORE, *rows.shape), generator=torch.Generator().manual_seed(0), dtype=rows.dtype)
    if 2 * len(rows) < d:  # the same in the space of rows, which is the smaller one
        products, found = rows @ rows.T, torch.linalg.qr(rows @ start).Q
        for _ in range(N_POWERS):
            found = torch.linalg.qr(products @ found).Q
        turned, lengths, _ = torch.linalg.svd(rows.T @ found, full_matrices=False)
        return turned[:, :n].contiguous(), lengths[:n].square()
    found = torch.linalg.qr(start).Q
    for _ in range(N_POWERS):
        found = torch.linalg.qr(rows.T @ (rows @ found)).Q
    _, lengths, turned = torch.linalg.svd(rows @ found, full_matrices=False)
    return (found @ turned.T)[:, :n].contiguous(), lengths[:n].square()

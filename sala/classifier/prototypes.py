"""Prototypes of classes, first from the labeled images, then refined by the pool.

Embeddings have length 1 (or are 0), so a dot product is a cosine similarity. `refine` finds the prototypes; `Refined` compares
images with the first ones (labeled images alone), with the refined ones, or with an interpolation of the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sala.classifier.outlier_model import Similarities, fit_to_prototypes
from sala.functional import one_hot, unit_length

PRIOR_PAIR_SIMILARITY, PRIOR_PAIRS = 0.3, 4.0  # similarity of two images of a class, and how many pairs that counts for
HUBNESS_WEIGHT, HUBNESS_NEIGHBORS = 0.25, 10  # see `hubness_correction`


@dataclass(frozen=True)
class Refined:
    """Prototypes before and after refinement, and the pool's part in them."""

    support: Tensor  # [s, d]
    labels: Tensor  # [s]
    first: Tensor  # [k, d], prototypes of the labeled images alone
    to_first: Tensor  # [n, k], similarities of the pool to them
    held_out_to_first: Tensor  # [m, k], similarities of labeled images to prototypes without themselves
    hubness: Tensor  # [k], subtracted from similarities to the first prototypes where classes are compared
    sums: Tensor  # [k, d], weighted sums of labeled and pool images: the refined prototypes are their directions
    labeled_weight: float  # of a labeled image in the sums
    weights: Tensor  # [n, k], of the pool's images in the sums
    anchor: float  # weight of the first prototypes in the interpolation
    used: Tensor  # [n], whether an image of the pool took part

    @property
    def prototypes(self) -> Tensor:  # [k, d]
        """The refined prototypes."""
        return unit_length(self.sums)

    @property
    def effective_counts(self) -> Tensor:  # [k]
        """Effective number of images behind each refined prototype, (sum w)^2 / sum w^2 (Kish, Survey Sampling, 1965)."""
        counts, w = self.labels.bincount().double(), self.labeled_weight
        sums, norms = self.weights.sum(0).double(), torch.linalg.vector_norm(self.weights, dim=0).double()
        effective: Tensor = (counts + sums / w).square() / (counts + (norms / w).square())
        return effective.to(self.sums.dtype)

    def to_refined(self, pool: Tensor) -> Tensor:  # [n, d] -> [n, k]
        """Similarities of the pool to the refined prototypes, each image without its own part in them."""
        return leave_one_out_similarities(pool, self.sums, self.weights)

    def held_out(self, anchor: float) -> Tensor:  # -> [m, k]
        """Similarities of the `multi_shot_rows` to the prototypes without themselves, corrected for one image less.

        The pool's part in the prototypes stays; cross_validation.py takes that out too.
        """
        if anchor == 1:
            return self.held_out_to_first
        rows = multi_shot_rows(self.labels)
        x, y, counts = self.support[rows], self.labels[rows], self.effective_counts
        lengths = relative_lengths(counts - 1, pair_similarity(self.support, self.labels), counts)[y]
        own = lengths * (x * unit_length(self.sums[y] - self.labeled_weight * x)).sum(-1)
        to_refined = (x @ self.prototypes.T).scatter(1, y[:, None], own[:, None])
        return anchored(to_refined, self.held_out_to_first, anchor)


def refine(
    pool: Tensor, support: Tensor, labels: Tensor, *, n_steps: int, sharpness: float, labeled_weight: float,
    anchor: float | None = None,
) -> Refined:  # [n, d], [s, d], [s]  # fmt: skip
    """Prototypes after `n_steps` of soft k-means that starts at the labeled images and gives outliers little weight.

    c_i <- labeled_weight sum_s z_si x_s + sum_u g(u) p_i(u) x_u, as in Ren et al., ICLR 2018, arXiv:1803.00676, with
    p(u) = softmax_i(sharpness * similarity): to the first prototypes less their hubness, then to the anchored ones of the
    step before without u's own part. g(u) is the inlier probability by the same similarities, times that by the first
    prototypes to the power of the outlier share they see: in a clean pool an image may come near step by step, among many
    outliers it must have been near from the start.
    """
    first = _first_step(pool, support, labels, labeled_weight)
    sums, n_shot = class_sums(support, labels), len(support) / len(first.first)
    now = Similarities(first.to_first, first.held_out(anchor=1.0))
    model = fit_to_prototypes(now, n_shot)
    # an image exactly at the center has no direction and moves nothing
    initially_inlier = model.inlier_probability(first.to_first.amax(-1)) * first.to_first.any(-1)
    found = replace(first, anchor=anchor_for(model.outlier_share) if anchor is None else anchor)
    anchor = 1.0
    for step in range(n_steps if len(pool) else 0):
        if step:
            anchor = found.anchor
            now = Similarities(anchored(found.to_refined(pool), first.to_first, anchor), found.held_out(anchor))
        inlier = fit_to_prototypes(now, n_shot).inlier_probability(now.pool.amax(-1))
        inlier = inlier * initially_inlier**model.outlier_share
        weights = (sharpness * (now.pool - anchor * found.hubness)).softmax(-1) * inlier[:, None]
        found = replace(found, sums=labeled_weight * sums + weights.T @ pool, weights=weights, used=inlier > 0.5)
    return found


def _first_step(pool: Tensor, support: Tensor, labels: Tensor, labeled_weight: float) -> Refined:
    """Prototypes of the labeled images, in which the pool has no part yet."""
    first = first_prototypes(support, labels)
    to_first, n, k = pool @ first.T, len(pool), len(first)
    return Refined(
        support, labels, first, to_first, held_out_to_first(support, labels), hubness_correction(to_first),
        labeled_weight * class_sums(support, labels), labeled_weight, torch.zeros(n, k), 1.0,
        torch.zeros(n, dtype=torch.bool),
    )  # fmt: skip


def refine_again(
    found: Refined, pool: Tensor, support: Tensor, inlier: Tensor, *, sharpness: float
) -> Refined:  # [n, d], [s, d], [n]
    """One more step on other (whitened) embeddings of the same images, with given inlier probabilities."""
    sums, first = found.labeled_weight * class_sums(support, found.labels), first_prototypes(support, found.labels)
    to_first = pool @ first.T
    inlier = inlier * to_first.any(-1)  # an image exactly at the center moves nothing
    found = replace(
        found,
        support=support,
        first=first,
        to_first=to_first,
        held_out_to_first=held_out_to_first(support, found.labels),
        hubness=hubness_correction(to_first),
        sums=sums + found.weights.T @ pool,
        used=inlier > 0.5,
    )
    similarities = anchored(found.to_refined(pool), to_first - found.hubness, found.anchor)
    weights = (sharpness * similarities).softmax(-1) * inlier[:, None]
    return replace(found, sums=sums + weights.T @ pool, weights=weights)


def class_sums(support: Tensor, labels: Tensor) -> Tensor:  # [s, d], [s] -> [k, d]
    """The sum of the labeled images of each class."""
    return one_hot(labels, int(labels.max()) + 1, like=support).T @ support


def first_prototypes(support: Tensor, labels: Tensor) -> Tensor:  # [s, d], [s] -> [k, d]
    """The mean directions of the labeled images of each class, with their `relative_lengths`."""
    counts = labels.bincount()
    lengths = relative_lengths(counts, pair_similarity(support, labels), counts.float().mean())
    return lengths[:, None] * unit_length(class_sums(support, labels))


def held_out_to_first(support: Tensor, labels: Tensor) -> Tensor:  # [s, d], [s] -> [m, k]
    """Similarities of the `multi_shot_rows` to the first prototypes without themselves."""
    rows, counts = multi_shot_rows(labels), labels.bincount()
    x, y = support[rows], labels[rows]
    lengths = relative_lengths(counts - 1, pair_similarity(support, labels), counts.float().mean())[y]
    own = lengths * (x * unit_length(class_sums(support, labels)[y] - x)).sum(-1)
    return (x @ first_prototypes(support, labels).T).scatter(1, y[:, None], own[:, None])


def relative_lengths(counts: Tensor, r: float, typical: Tensor) -> Tensor:  # [k], [k] or [] -> [k]
    """Lengths that make similarities to prototypes of unequal shots comparable; 1 for the typical number of shots.

    An image is less similar to a direction that comes from fewer images. With r the similarity of two images of a class, the
    mean of n has the expected length sqrt(r + (1 - r) / n), and its product with another image does not depend on n.
    """
    each, typical = (n.to(typical.dtype).clamp_min(1) for n in (counts, typical))
    return ((r + (1 - r) / each) / (r + (1 - r) / typical)).sqrt()


def pair_similarity(support: Tensor, labels: Tensor) -> float:  # [s, d], [s]
    """The mean similarity of two labeled images of a class, regularized by `PRIOR_PAIRS` of a typical similarity."""
    counts = labels.bincount()
    n_pairs = float((counts * (counts - 1)).sum())
    total = float(class_sums(support, labels).square().sum()) - len(support) + PRIOR_PAIRS * PRIOR_PAIR_SIMILARITY
    return min(max(total / (n_pairs + PRIOR_PAIRS), 0.05), 0.95)


def hubness_correction(to_first: Tensor) -> Tensor:  # [n, k] -> [k]
    """The hubness of each first prototype, to be subtracted from the similarities to it.

    A part of the mean similarity of a prototype to its nearest neighbors in the pool, as in CSLS (Conneau et al., ICLR 2018,
    arXiv:1710.04087). Without it an unusual labeled image loses its class to a prototype that is near everything.
    """
    n = min(HUBNESS_NEIGHBORS, len(to_first))
    if not n:
        return torch.zeros(to_first.shape[1])
    nearest = to_first.topk(n, 0).values.mean(0)
    return HUBNESS_WEIGHT * (nearest - nearest.mean())


def leave_one_out_similarities(x: Tensor, sums: Tensor, weights: Tensor) -> Tensor:  # [n, d], [k, d], [n, k] -> [n, k]
    """Similarities of images to the directions of sums, each image without its own part in them.

    With its own part an image would be too similar to the class that it has moved, the more so the smaller the class.
    u.(S - w u) / |S - w u|, where |S - w u|^2 = |S|^2 - 2 w u.S + w^2, since |u| = 1 or w = 0.
    """
    to_sums = x @ sums.T
    squares = sums.square().sum(-1) - weights * (2 * to_sums - weights)
    return (to_sums - weights) / squares.clamp_min(1e-12).sqrt()


def anchor_for(outlier_share: float) -> float:
    """The weight of the first prototypes: clustered outliers could carry the refined ones away."""
    return outlier_share**2


def anchored(refined: Tensor, first: Tensor, anchor: float) -> Tensor:
    """The interpolation of refined and first prototypes, or of the similarities to them."""
    return (1 - anchor) * refined + anchor * first


def multi_shot_rows(labels: Tensor) -> Tensor:  # [s] -> [m] rows
    """Rows of labeled images whose class has two or more of them."""
    return (labels.bincount()[labels] > 1).nonzero()[:, 0]

"""Prototypes of classes: of their labelled images, and then of those images of a pool that seem to be of them too.

Points have length 1 or are 0, so that a product of two is a similarity. `refine` finds the prototypes, and `Refined` compares
images with them: with the first ones, of the labelled images alone, with the refined ones, or between the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sala.belonging import Similarities, belonging_by
from sala.points import unit
from sala.stages import one_hot

USUAL_PAIR, PAIRS = 0.3, 4.0  # similarity of two images of a class, and how many pairs that counts for
HUB_SHARE, HUB_IMAGES = 0.25, 10  # see `hubs_of`


@dataclass(frozen=True)
class Refined:
    """Prototypes before and after refinement, and the pool's part in them."""

    support: Tensor  # [s, d]
    labels: Tensor  # [s]
    first: Tensor  # [k, d], of the labelled images alone
    to_first: Tensor  # [n, k], how similar the pool's images are to these
    held_out_to_first: Tensor  # [m, k], and labelled ones that are left out in turn
    hubs: Tensor  # [k], what similarities to these are lowered by where classes are compared
    sums: Tensor  # [k, d], of labelled images and the pool's: the refined prototypes have their directions
    labelled_weight: float  # of labelled images in them
    weights: Tensor  # [n, k], of the pool's
    anchor: float  # how much the first prototypes count
    used: Tensor  # [n], which images of the pool took part

    @property
    def prototypes(self) -> Tensor:  # [k, d]
        return unit(self.sums)

    @property
    def numbers(self) -> Tensor:  # [k]
        """Of images that refined prototypes come from: where w are weights, (sum w)^2 / sum w^2 equal ones tell as much."""
        counts, w = self.labels.bincount().double(), self.labelled_weight
        sums, norms = self.weights.sum(0).double(), torch.linalg.vector_norm(self.weights, dim=0).double()
        numbers: Tensor = (counts + sums / w).square() / (counts + (norms / w).square())
        return numbers.to(self.sums.dtype)

    def to_refined(self, pool: Tensor) -> Tensor:  # [n, d] -> [n, k]
        """Of the pool's images, each without its own part in the prototypes."""
        return without_themselves(pool, self.sums, self.weights)

    def held_out(self, anchor: float) -> Tensor:  # -> [m, k]
        """Similarities of labelled images to the prototypes as they are without that image; of those `in_larger_classes`.
        The pool's part in the prototypes stays. One image less makes a direction less similar to all: that is taken out."""
        if anchor == 1:
            return self.held_out_to_first
        rows = in_larger_classes(self.labels)
        x, y, numbers = self.support[rows], self.labels[rows], self.numbers
        lengths = relative_lengths(numbers - 1, pair_similarity(self.support, self.labels), numbers)[y]
        own = lengths * (x * unit(self.sums[y] - self.labelled_weight * x)).sum(-1)
        to_refined = (x @ self.prototypes.T).scatter(1, y[:, None], own[:, None])
        return anchored(to_refined, self.held_out_to_first, anchor)


def refine(
    points: Tensor, support: Tensor, labels: Tensor, *, n_steps: int, sharpness: float, labelled_weight: float,
    anchor: float | None = None,
) -> Refined:  # [n, d], [s, d], [s]  # fmt: skip
    """c_i <- lambda sum_s z_si x_s + sum_u g(u) p_i(u) x_u, some times.

    p(u) = softmax_i(sharpness * similarity): to the first prototypes, less their hubs, and then to the anchored ones of the
    step before, without what u itself put into them. g(u) is the probability that u is of any class, by the same
    similarities; and by those to the first prototypes, to the power of the share of junk that they see: in a clean pool
    an image may come near by and by, in a pool of mostly junk it must have been near from the beginning.
    """
    first, sums = first_prototypes(support, labels), class_sums(support, labels)
    (n, k), n_shot = (len(points), len(sums)), len(support) / len(sums)
    to_first = points @ first.T
    found = Refined(
        support, labels, first, to_first, held_out_to_first(support, labels), hubs_of(to_first), labelled_weight * sums,
        labelled_weight, torch.zeros(n, k), 1.0, torch.zeros(n, dtype=torch.bool),
    )  # fmt: skip
    now = Similarities(to_first, found.held_out(anchor=1.0))
    before = belonging_by(now, n_shot)
    was_known = before.known(to_first.amax(-1)) * to_first.any(-1)  # an image exactly at the centre moves nothing
    found, anchor = replace(found, anchor=anchor_where(before.none_share) if anchor is None else anchor), 1.0
    for step in range(n_steps if n else 0):
        if step:
            anchor = found.anchor
            now = Similarities(anchored(found.to_refined(points), to_first, anchor), found.held_out(anchor))
        known = belonging_by(now, n_shot).known(now.pool.amax(-1)) * was_known**before.none_share
        weights = (sharpness * (now.pool - anchor * found.hubs)).softmax(-1) * known[:, None]
        found = replace(found, sums=labelled_weight * sums + weights.T @ points, weights=weights, used=known > 0.5)
    return found


def refined_by(
    found: Refined, points: Tensor, support: Tensor, known: Tensor, *, sharpness: float
) -> Refined:  # [n, d], [s, d], [n]
    """One step more, by other points of the same images, of which it is `known` how probably they are of any class."""
    sums, first = found.labelled_weight * class_sums(support, found.labels), first_prototypes(support, found.labels)
    to_first = points @ first.T
    known = known * to_first.any(-1)  # an image exactly at the centre moves nothing
    found = replace(
        found,
        support=support,
        first=first,
        to_first=to_first,
        held_out_to_first=held_out_to_first(support, found.labels),
        hubs=hubs_of(to_first),
        sums=sums + found.weights.T @ points,
        used=known > 0.5,
    )
    similarities = anchored(found.to_refined(points), to_first - found.hubs, found.anchor)
    weights = (sharpness * similarities).softmax(-1) * known[:, None]
    return replace(found, sums=sums + weights.T @ points, weights=weights)


def class_sums(support: Tensor, labels: Tensor) -> Tensor:  # [s, d], [s] -> [k, d]
    return one_hot(labels, int(labels.max()) + 1, like=support).T @ support


def first_prototypes(support: Tensor, labels: Tensor) -> Tensor:  # [s, d], [s] -> [k, d]
    """The directions of the classes' labelled images, each as long as `relative_lengths` says."""
    counts = labels.bincount()
    lengths = relative_lengths(counts, pair_similarity(support, labels), counts.float().mean())
    return lengths[:, None] * unit(class_sums(support, labels))


def held_out_to_first(support: Tensor, labels: Tensor) -> Tensor:  # [s, d], [s] -> [m, k]
    """See `Refined.held_out`."""
    rows, counts = in_larger_classes(labels), labels.bincount()
    x, y = support[rows], labels[rows]
    lengths = relative_lengths(counts - 1, pair_similarity(support, labels), counts.float().mean())[y]
    own = lengths * (x * unit(class_sums(support, labels)[y] - x)).sum(-1)
    return (x @ first_prototypes(support, labels).T).scatter(1, y[:, None], own[:, None])


def relative_lengths(numbers: Tensor, r: float, usual: Tensor) -> Tensor:  # [k], [k] or [] -> [k]
    """1 where prototypes come from the usual number of images. An image is less similar to a direction that comes from fewer:
    with r the similarity of two images of a class, the mean of n has the length sqrt(r + (1 - r) / n), and its product with
    another image does not depend on n. So similarities are compared as to such means."""
    each, usual = (n.to(usual.dtype).clamp_min(1) for n in (numbers, usual))
    return ((r + (1 - r) / each) / (r + (1 - r) / usual)).sqrt()


def pair_similarity(support: Tensor, labels: Tensor) -> float:  # [s, d], [s]
    """Of two labelled images of a class, on average; some pairs' worth of what is usual steadies it."""
    counts = labels.bincount()
    n_pairs = float((counts * (counts - 1)).sum())
    r = (float(class_sums(support, labels).square().sum()) - len(support) + PAIRS * USUAL_PAIR) / (n_pairs + PAIRS)
    return min(max(r, 0.05), 0.95)


def hubs_of(to_first: Tensor) -> Tensor:  # [n, k] -> [k]
    """Some labelled images are similar to nearly everything, some, odd ones, to nothing much, and their own class is then
    carried off by a neighbour. So where classes are compared, what makes a prototype similar to the images that are
    nearest to it, whichever they are, is taken out in part (as Conneau et al., ICLR 2018, arXiv:1710.04087, do for words)."""
    n = min(HUB_IMAGES, len(to_first))
    if not n:
        return torch.zeros(to_first.shape[1])
    nearest = to_first.topk(n, 0).values.mean(0)
    return HUB_SHARE * (nearest - nearest.mean())


def without_themselves(points: Tensor, sums: Tensor, weights: Tensor) -> Tensor:  # [n, d], [k, d], [n, k] -> [n, k]
    """Similarities of images to the directions of sums as they would be without that image's own part: each would else be
    too similar to the class that it has moved, and the more so the smaller the class is.

    u.(S - w u) / |S - w u|, where |S - w u|^2 = |S|^2 - 2 w u.S + w^2: points have length 1, or else no weight.
    """
    to_sums = points @ sums.T
    squares = sums.square().sum(-1) - weights * (2 * to_sums - weights)
    return (to_sums - weights) / squares.clamp_min(1e-12).sqrt()


def anchor_where(none_share: float) -> float:
    """How much the first prototypes count where so much of the pool is junk, which in clusters could carry the others away."""
    return none_share**2


def anchored(refined: Tensor, first: Tensor, anchor: float) -> Tensor:
    """Between the refined prototypes and the first ones; or, which is the same, of the similarities to them."""
    return (1 - anchor) * refined + anchor * first


def in_larger_classes(labels: Tensor) -> Tensor:  # [s] -> [m] rows
    """Labelled images of classes with two or more."""
    return (labels.bincount()[labels] > 1).nonzero()[:, 0]

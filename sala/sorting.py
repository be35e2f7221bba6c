"""A pool that is sorted into classes by labelled images: the engine's steps, one after the other.

The prototypes of classes are refined by the pool, then it is told which images are of any class, and then what images of a
class differ in is taken out of all points, and the prototypes are refined once more by what remains.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sala.known import Known, known_by
from sala.labelmodel import EngineConfig
from sala.refining import Refined, anchored, refine, refined_by
from sala.variation import Variation, no_variation, variation_of

VARIATION_SAMPLE = 1_000  # to 2,000 images of a pool by which it is told what those of a class differ in


@dataclass(frozen=True)
class Sorted:
    points: Tensor  # [n, d], of the pool, without variation
    refined: Refined  # by these
    known: Known  # by points as they were
    none: Tensor  # [n], of the pool's images: the probability to be of no class
    variation: Variation

    def pool_similarities(self) -> Tensor:  # [n, k]
        """Each without its own part in the prototypes."""
        found = self.refined
        return anchored(found.to_refined(self.points), found.to_first - found.hubs, found.anchor)

    def similarities(self, points: Tensor) -> Tensor:  # [m, d] -> [m, k]
        """Of new images, whose variation was taken out."""
        found = self.refined
        return anchored(points @ found.prototypes.T, points @ found.first.T - found.hubs, found.anchor)


def sorted_by(
    points: Tensor, support: Tensor, labels: Tensor, marked: Tensor, config: EngineConfig
) -> Sorted:  # [n, d], [s, d], [s], [m, d]
    """By labelled images `support`, and those `marked` as junk. Points of the pool and of labelled images are written over
    where variation is taken out."""
    found = refine(
        points, support, labels, n_steps=config.n_steps, sharpness=config.sharpness, labelled_weight=config.labelled_weight,
        anchor=config.anchor,
    )  # fmt: skip
    known, none = known_by(found, points, marked)
    variation = no_variation(points)
    if config.n_steps and config.n_directions:
        rows = slice(None, None, max(1, len(points) // VARIATION_SAMPLE))  # of a large pool a regular sample
        variation = variation_of(points[rows], found.weights[rows], known.belonging.none_share, config.n_directions)
        support, points = (variation.taken_out_of(part) for part in (support, points))
        found = refined_by(found, points, support, 1 - none, sharpness=config.sharpness)
    return Sorted(points, found, known, none, variation)

"""Which images of a pool are of any class, by points as they are: what images of a class differ in is not taken out here,
since what tells junk apart is in it too."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sala.belonging import Belonging, Similarities, belonging, belonging_beside, other_prototypes
from sala.refining import Refined, in_larger_classes


@dataclass(frozen=True)
class Known:
    """Prototypes before and after refinement and those of junk, and what similarities to them say."""

    first: Tensor  # [k, d], of the labelled images alone
    refined: Tensor  # [k, d]
    others: Tensor  # [j, d], of what is of no class; there may be none
    marked: Tensor  # [m, d], images that are said to be of no class; there may be none
    belonging: Belonging

    def none_of(self, points: Tensor) -> Tensor:  # [n, d] -> [n]
        """The probability of new images to be of no class."""
        taught = self.belonging.taught(points @ self.marked.T, self.marked @ self.marked.T)
        return self.belonging.none_of(points @ self.first.T, points @ self.refined.T, points @ self.others.T, taught)


def known_by(found: Refined, points: Tensor, marked: Tensor) -> tuple[Known, Tensor]:  # [n, d], [m, d] -> [n]
    """What a refinement tells of a pool, beside images that are said to be of no class; and of the pool's images, each
    without its own part in the prototypes of classes, the probability to be of no class."""
    first = Similarities(found.to_first, found.held_out(1.0))
    refined = Similarities(found.to_refined(points), found.held_out(0.0))
    before = belonging(first, refined, len(found.support) / len(found.first))
    others = other_prototypes(points, before.none_of(first.pool, refined.pool, points[:, :0]))
    to_others = Similarities(points @ others.T, found.support[in_larger_classes(found.labels)] @ others.T)
    after = belonging_beside(before, first, refined, to_others)
    taught = after.taught(points @ marked.T, marked @ marked.T)
    none = after.none_of(first.pool, refined.pool, to_others.pool, taught)
    return Known(found.first.clone(), found.prototypes, others, marked, after), none

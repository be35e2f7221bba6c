"""BD-CSPN: prototypes rectified by a shift of the pool and by its pseudo-labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from sala.functional import class_means, one_hot, unit_length, weighted_means
from sala.heads.base import FittedHead, Head, fitted


@dataclass(frozen=True)
class BDCSPN(Head):
    """Moves the pool onto the support and adds its pseudo-labeled images to the prototypes, weighted by their similarity.

    Liu et al., ECCV 2020, arXiv:1911.10713. Queries move with the pool and go to the most similar rectified prototype.

    Deviations: the networks are not trained with cosine similarities, so embeddings are brought to length 1 first. All images
    with a class's pseudo-label are added to its prototype, as in later implementations; `n_selected` takes the most confident
    ones of each class alone, which is the paper's Z.

    Parameters
    ----------
    epsilon : float, default 10.0
        Scale of the cosine similarities in the weights.
    n_selected : int, optional
        Pseudo-labeled images of each class that are added; all by default.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(
    ...     support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 1.0]], unlabeled=[[2.0, 1.0], [1.0, 2.0]]
    ... )
    >>> sala.HEADS["bd-cspn"]().scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper = "Liu et al., ECCV 2020"
    is_transductive = True

    epsilon: float = 10.0  # released code of LaplacianShot, which rectifies prototypes too
    n_selected: int | None = None  # Z

    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:
        found = rectify(unit_length(support), labels, unit_length(pool), n_way, self.epsilon, self.n_selected)
        return fitted(
            pool,
            lambda x: (self.epsilon * cosine(unit_length(x) + found.shift, found.prototypes)).log_softmax(-1),
        )


class Rectified(NamedTuple):
    """Prototypes of shifted images, and the shift of pool and queries."""

    prototypes: Tensor  # [k, d]
    shift: Tensor  # [d]


def rectify(
    support: Tensor, labels: Tensor, pool: Tensor, n_way: int, epsilon: float, n_selected: int | None = None
) -> Rectified:  # [s, d], [s], [u, d]
    """Prototypes P'_n = sum_i w_in x_i over support and shifted pool, w_in the softmax over a class's images of
    epsilon cos(x_i, P_n)."""
    shift = support.mean(0) - pool.mean(0) if len(pool) else torch.zeros_like(support[0])  # the cross-class bias
    basic = class_means(support, labels, n_way)
    similarities = cosine(pool + shift, basic)
    member = one_hot(similarities.argmax(-1), n_way, like=support)  # pseudo-labels
    if n_selected is not None and len(pool) > n_selected:
        confidence = torch.where(member > 0, similarities.softmax(-1), -1.0)
        least = confidence.topk(n_selected, dim=0).values[-1]
        member = member * (confidence >= least)
    images = torch.cat([support, pool + shift])
    members = torch.cat([one_hot(labels, n_way, like=support), member])
    weights = members * (epsilon * torch.cat([cosine(support, basic), similarities])).exp()
    return Rectified(weighted_means(images, weights), shift)


def cosine(x: Tensor, y: Tensor) -> Tensor:  # [n, d], [k, d] -> [n, k]
    """Cosine similarities."""
    return unit_length(x) @ unit_length(y).mT

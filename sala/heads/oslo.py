"""OSLO: class assignments, inlier scores and prototypes of a pool with outliers, each in closed form given the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from sala.functional import class_means, one_hot, weighted_means
from sala.heads.base import FittedHead, Head, Scores
from sala.heads.bdcspn import cosine
from sala.heads.normalize import centered


@dataclass(frozen=True)
class OSLO(Head):
    """Open-set likelihood optimization: images of the pool move prototypes as far as they are inliers.

    Boudiaf et al., CVPR 2023, arXiv:2301.08390.

    1. xi_i = sigmoid(sum_k z_ik cos(x_i, mu_k) / lambda_xi)                        (inlier score)
    2. z_i = softmax(xi_i cos(x_i, mu) / lambda_z)                                  (assignment)
    3. mu_k = mean of support and pool with weights y_ik and xi_i z_ik              (prototypes)

    A query takes steps 1 and 2 with the prototypes that the pool had at each step, and is classified by the last ones: an
    image of the pool would get the answer that it has.

    Deviations: probabilities are softmax(cos / lambda_z), the assignment of an inlier; the released code's is without
    lambda_z, and has the same order.

    Parameters
    ----------
    inlier_entropy_weight : float, default 0.05
        lambda_xi.
    assignment_entropy_weight : float, default 0.1
        lambda_z.
    n_steps : int, default 2
        Rounds of the three steps.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(
    ...     support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 1.0]], unlabeled=[[2.0, 1.0], [-1.0, -1.0]]
    ... )
    >>> sala.HEADS["oslo"]().scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper = "Boudiaf et al., CVPR 2023"
    is_transductive = True

    inlier_entropy_weight: float = 0.05  # released code
    assignment_entropy_weight: float = 0.1  # released code
    n_steps: int = 2  # released code

    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:
        normalized = centered(support, pool)
        x_s, x_u, y = normalized(support), normalized(pool), one_hot(labels, n_way, like=support)
        prototypes = [class_means(x_s, labels, n_way)]
        found = self.start(pool, n_way)
        for _ in range(self.n_steps):
            found = self.step(x_u, found, prototypes[-1])
            weights = torch.cat([y, found.inlier[:, None] * found.assignments])
            prototypes.append(weighted_means(torch.cat([x_s, x_u]), weights))

        def classify(query: Tensor) -> Scores:
            x, found = normalized(query), self.start(query, n_way)
            for mu in prototypes[:-1]:
                found = self.step(x, found, mu)
            logits = cosine(x, prototypes[-1]) / self.assignment_entropy_weight
            return Scores(logits.log_softmax(-1), found.inlier)

        return FittedHead(classify(pool), classify)

    def start(self, images: Tensor, n_way: int) -> Latent:
        """Nothing is known."""
        return Latent(images.new_full((len(images),), 0.5), images.new_full((len(images), n_way), 1 / n_way))

    def step(self, x: Tensor, found: Latent, prototypes: Tensor) -> Latent:
        """Steps 1 and 2."""
        similarities = cosine(x, prototypes)
        inlier = ((found.assignments * similarities).sum(-1) / self.inlier_entropy_weight).sigmoid()
        return Latent(inlier, (inlier[:, None] * similarities / self.assignment_entropy_weight).softmax(-1))


class Latent(NamedTuple):
    """What is estimated of each image: xi and z."""

    inlier: Tensor  # [n]
    assignments: Tensor  # [n, k]

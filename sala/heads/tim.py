"""TIM: class weights that maximize the mutual information of a pool's images and their predictions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sala.functional import class_means, one_hot, squared_distances, unit_length
from sala.heads.base import FittedHead, Head, fitted


@dataclass(frozen=True)
class TIM(Head):
    """Class weights between cross-entropy on the support and mutual information on the pool, by alternating updates (TIM-ADM).

    Boudiaf et al., NeurIPS 2020, arXiv:2008.11297.

    1. p_ik = softmax_k(-tau / 2 |w_k - z_i|^2), z of length 1, w from the class means on
    2. q_ik ~ p_ik^(1 + alpha) / sqrt(sum_i p_ik^(1 + alpha)), on the pool
    3. w_k = sum of y_ik z_i + p_ik (w_k - z_i) on the support and of q_ik z_i + p_ik (w_k - z_i) on the pool, over the sum of
       y and q; support images count lambda / (1 + alpha), those of the pool |S| / |U|

    A query is classified by step 1 with the last weights, as the pool is.

    Parameters
    ----------
    temperature : float, default 15.0
        tau.
    cross_entropy_weight : float, default 0.1
        lambda.
    alpha : float, default 0.1
        Weight of the conditional entropy.
    n_steps : int, default 150
        Alternations of steps 2 and 3.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(
    ...     support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 1.0]], unlabeled=[[2.0, 1.0], [1.0, 2.0]]
    ... )
    >>> sala.HEADS["tim"]().scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper = "Boudiaf et al., NeurIPS 2020"
    is_transductive = True

    temperature: float = 15.0  # released code
    cross_entropy_weight: float = 0.1  # released code
    alpha: float = 0.1  # released code
    n_steps: int = 150  # released code

    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:
        z, y = unit_length(torch.cat([support, pool])), one_hot(labels, n_way, like=support)
        w = class_means(z[: len(support)], labels, n_way)
        importance = torch.ones_like(z[:, :1]) * len(support) / max(1, len(pool))
        importance[: len(support)] = self.cross_entropy_weight / (1 + self.alpha)
        for _ in range(self.n_steps):
            p = log_probabilities(z, w, self.temperature).exp()
            t = importance * torch.cat([y, balanced(p[len(support) :], self.alpha)])
            p = importance * p
            w = ((t - p).mT @ z + p.sum(0)[:, None] * w) / t.sum(0)[:, None]  # step 3, y and q together: t
        return fitted(pool, lambda x: log_probabilities(unit_length(x), w, self.temperature))


def log_probabilities(z: Tensor, w: Tensor, temperature: float) -> Tensor:  # [n, d], [k, d] -> [n, k]
    """log p_ik"""
    return (-temperature / 2 * squared_distances(z, w)).log_softmax(-1)


def balanced(p: Tensor, alpha: float) -> Tensor:  # [n, k] -> [n, k]
    """q of step 2: sharpened, and a class with much of the mass made less probable."""
    sharpened = p ** (1 + alpha)
    q = sharpened / sharpened.sum(0).sqrt().clamp_min(1e-300)
    return q / q.sum(-1, keepdim=True)

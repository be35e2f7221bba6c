"""iLPC: labels propagate to the pool, are balanced, and the cleanest of them become support, again and again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sala.functional import class_means, one_hot, unit_length
from sala.heads.base import FittedHead, Head, Scores
from sala.heads.linear import logistic_regression
from sala.heads.normalize import centered, powered
from sala.heads.sinkhorn import sinkhorn

GAMMA = 3  # released code: the power of similarities in the graph
LEARNING_RATE, MOMENTUM, WEIGHT_DECAY = 0.1, 0.9, 5e-4  # released code: of the classifier whose losses are compared


@dataclass(frozen=True)
class ILPC(Head):
    """Iterative label cleaning: a pseudo-label is kept if a small classifier learns it easily.

    Lazarou et al., ICCV 2021, arXiv:2012.07962.

    1. Z = (I - alpha W)^-1 Y on the normalized graph of k nearest neighbors, w_ij = max(0, v_i.v_j)^3
    2. P = Sinkhorn of the rows of Z to the power tau: columns sum to what is left of u / k images a class
    3. a linear classifier learns support and pseudo-labels; of each class the images with the smallest mean loss move to the
       support. Again from 1, until fewer images are left than there are classes

    A query is classified by logistic regression on support and labeled pool, as the released code does in the semi-supervised
    setting.

    Deviations: propagation is solved exactly, not by 20 steps of conjugate gradients. The classifier of step 3 starts without
    bias, not with a random one. Where more images of a class have moved than it had room for, its capacity is 0 and the others
    are scaled. The pool's answers are hard labels in the paper; ours are the rows of P where they were chosen.

    Parameters
    ----------
    alpha : float, default 0.8
        How far labels propagate, below 1.
    n_neighbors : int, default 20
        k of the graph.
    power : float, default 3.0
        tau, the power of probabilities before they are balanced.
    beta : float, default 0.5
        The power transform of the embeddings, as in PT-MAP.
    n_selected : int, default 3
        Images of each class that move at a time.
    n_epochs : int, default 1000
        Of the classifier whose losses are compared.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(
    ...     support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 1.0]], unlabeled=[[2.0, 1.0], [1.0, 2.0]]
    ... )
    >>> sala.HEADS["ilpc"]().scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper = "Lazarou et al., ICCV 2021"
    is_transductive = True

    alpha: float = 0.8  # released commands
    n_neighbors: int = 20  # released commands, 1 shot
    power: float = 3.0  # released code
    beta: float = 0.5  # released code
    n_selected: int = 3  # released code
    n_epochs: int = 1_000  # released code

    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:
        first = centered(powered(support, self.beta), powered(pool, self.beta))

        def normalized(x: Tensor) -> Tensor:
            return first(powered(x, self.beta))

        v_s, v_u = normalized(support), normalized(pool)
        probabilities = self.clean(v_s, labels, v_u, n_way)
        known = torch.cat([labels, probabilities.argmax(-1)])
        predict = logistic_regression(torch.cat([v_s, v_u]), known)
        tiny = torch.finfo(pool.dtype).tiny
        return FittedHead(Scores(probabilities.clamp_min(tiny).log()), lambda query: Scores(predict(normalized(query))))

    def clean(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> Tensor:  # -> [u, k]
        """Probabilities of the pool's images, each from the round in which it moved to the support, or from the last."""
        found = pool.new_zeros(len(pool), n_way)
        left = torch.arange(len(pool), device=pool.device)
        capacities = pool.new_full((n_way,), len(pool) / n_way)
        while len(left):
            P = self.pseudo_labels(support, labels, pool[left], capacities)
            found[left] = P
            chosen = P.argmax(-1)
            losses = mean_losses(support, labels, pool[left], chosen, n_way, self.n_epochs)
            moves = smallest(losses, chosen, n_way, self.n_selected)
            if int(moves.sum()) < n_way:
                break
            support = torch.cat([support, pool[left[moves]]])
            labels = torch.cat([labels, chosen[moves]])
            capacities = capacities - one_hot(chosen[moves], n_way, like=pool).sum(0)
            left = left[~moves]
        return found

    def pseudo_labels(self, support: Tensor, labels: Tensor, pool: Tensor, capacities: Tensor) -> Tensor:  # -> [u, k]
        """Steps 1 and 2."""
        Z = propagate(torch.cat([support, pool]), labels, len(capacities), self.n_neighbors, self.alpha)[len(support) :]
        Z = Z.clamp_min(0) + 1e-12  # an image that no label reaches is of each class alike
        room = capacities.clamp_min(0)
        room = (
            room * (len(pool) / room.sum()) if float(room.sum()) > 0 else torch.full_like(room, len(pool) / len(room))
        )
        return sinkhorn((Z / Z.sum(-1, keepdim=True)) ** self.power, room).assignments


def propagate(v: Tensor, labels: Tensor, n_way: int, k: int, alpha: float) -> Tensor:  # [n, d], [s] -> [n, k]
    """Z = (I - alpha D^-1/2 W D^-1/2)^-1 Y, for images of length 1 of which the first s are labeled."""
    similarities = (v @ v.mT).fill_diagonal_(-torch.inf)
    near = similarities.topk(min(k, len(v) - 1), dim=-1)
    W = torch.zeros_like(similarities).scatter(1, near.indices, near.values.clamp_min(0) ** GAMMA)
    W = W + W.mT
    degree = W.sum(-1)
    root = torch.where(degree > 0, degree, 1.0).rsqrt()
    S = root[:, None] * W * root
    Y = v.new_zeros(len(v), n_way)
    Y[: len(labels)] = one_hot(labels, n_way, like=v)
    Z: Tensor = torch.linalg.solve(torch.eye(len(v), dtype=v.dtype, device=v.device) - alpha * S, Y)
    return Z


def mean_losses(
    support: Tensor, labels: Tensor, pool: Tensor, chosen: Tensor, n_way: int, n_epochs: int
) -> Tensor:  # -> [u]
    """The loss of each pseudo-label, averaged over the training of a linear classifier by gradient descent with momentum.

    It starts at the class means of the support, without bias. With inputs X (and a 1 for the bias) a gradient step on the
    weights by X' r moves the logits by X X' r: so the logits F of all images and their velocity V are kept, not the weights.
    """
    x = torch.cat([support, pool])
    Y = one_hot(torch.cat([labels, chosen]), n_way, like=x).mT.contiguous()
    K = x @ x.mT + 1
    F = unit_length(class_means(support, labels, n_way)) @ x.mT  # [k, n]
    V, total = torch.zeros_like(F), torch.zeros_like(F)
    for _ in range(n_epochs):
        logs = F.log_softmax(0)
        total -= logs
        V = torch.addmm(V, logs.exp() - Y, K, beta=MOMENTUM, alpha=1 / len(x)) + WEIGHT_DECAY * F
        F = F - LEARNING_RATE * V
    return (Y * total).sum(0)[len(labels) :] / n_epochs


def smallest(losses: Tensor, chosen: Tensor, n_way: int, n: int) -> Tensor:  # [u], [u] -> [u] bool
    """Of each class the n images with the smallest losses."""
    selected = torch.zeros_like(losses, dtype=torch.bool)
    for c in range(n_way):
        rows = (chosen == c).nonzero()[:, 0]
        selected[rows[losses[rows].argsort()[:n]]] = True
    return selected

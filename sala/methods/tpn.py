"""Transductive Propagation Network: labels flow over a learned graph, from the support to all other images."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sala.episodes.task import Task
from sala.errors import SalaError
from sala.functional import PseudoLabels, one_hot
from sala.methods.base import Method, cross_entropy, map_task
from sala.nn.backbones import Backbone

ELEMENTS_AT_ONCE = 2**24  # of graphs in evaluation: 64 MiB a copy in float32


class TPN(Method):
    """Label propagation over a graph of the task, with a learned length scale for each image.

    Liu et al., ICLR 2019, arXiv:1805.10002.

    1. sigma_i = g_phi(f(x_i)), from the map of the image alone                    (sec. 3.2.2: example-wise length scale)
    2. W_ij = exp(-d(f(x_i) / sigma_i, f(x_j) / sigma_j) / 2), d the mean over
       features of the squared difference                                          (eq. 2)
    3. keep W_ij if j is among the k largest of row i or i among those of row j;
       S = D^-1/2 W D^-1/2, D_ii = sum_j W_ij                                      (k = 20, with the image itself)
    4. F* = (I - alpha S)^-1 Y, Y one-hot on the support and 0 elsewhere           (eq. 4)
    5. P_i = softmax of row i of F*; cross-entropy on support and queries          (eqs. 5 and 6)

    The semi-supervised form (sec. 4.4: "classifies one query at a time") has a graph for each query, over support, unlabeled
    images and that query: queries never see each other. `transductive=True` is the paper's first form, one graph over
    support, unlabeled images and all queries together.

    Deviations: of the semi-supervised form no code was released and the paper gives no training details; ours is trained as it
    is tested, each support row's loss averaged over the graphs, so that support has the share S / (S + Q) as in the
    original (test_the_loss_of_tpn_gives_support_its_share). Batch norm everywhere as in the other methods. On
    maps of 1 x 1 pixel the length-scale network is the same with padding all around. Training has the tested number of
    shots (the paper's higher-shot training is omitted, for all methods alike).

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; `sala.Identity` for ready-made features.
    k : int, default 20
        Neighbors of a node, itself among them (sec. 4.2).
    alpha : float, default 0.99
        How far labels propagate, from 0 to below 1 (sec. 3.2.3).
    transductive : bool, default False
        One graph over all queries instead of a graph per query.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0], [10.0]], labels=[0, 1], query=[[4.0]], unlabeled=[[1.0], [9.0]])
    >>> method = sala.build_method("tpn", sala.Identity(1)).eval()
    >>> method.classify(task).shape
    torch.Size([1, 2])
    """

    paper = "Liu et al., ICLR 2019"
    batched = True
    sums_distances = False  # means, under a learned length scale

    def __init__(
        self,
        backbone: Backbone,
        *,
        k: int = 20,  # sec. 4.2; the image itself is one of them
        alpha: float = 0.99,  # sec. 3.2.3
        transductive: bool = False,
    ):
        super().__init__(backbone)
        if k < 1 or not 0 <= alpha < 1:
            raise SalaError(f"k must be at least 1 and alpha from 0 to below 1; got {k} and {alpha:g}")
        self.k, self.alpha, self.transductive = k, alpha, transductive
        self.length_scale = LengthScale(backbone.out_map)

    def logits(self, task: Task) -> Tensor:
        return self.propagated(task).query

    def loss(self, task: Task, query_labels: Tensor, player: str = "classifier") -> Tensor:
        embedded = self.embed(task)
        rows = self.propagated(embedded)
        n_query, n_support = query_labels.shape[-1], task.labels.shape[-1]
        on_query = cross_entropy(rows.query, query_labels)
        on_support = cross_entropy(rows.support, task.labels[..., None, :].expand(*rows.support.shape[:-1]))
        return (n_query * on_query + n_support * on_support) / (n_query + n_support)

    def propagated(self, task: Task) -> Rows:
        """F* of support and queries."""
        scaled = self.scaled(task)
        if self.transductive:
            return self._all_in_one_graph(scaled)
        base, queries = self._neighbors(scaled)
        n_batch = math.prod(base.shape[:-2])
        at_once = max(1, ELEMENTS_AT_ONCE // (n_batch * (base.shape[-1] + 1) ** 2))
        if torch.is_grad_enabled() or queries.shape[-2] <= at_once:
            return self._a_graph_for_each(scaled, base, queries)
        parts = [self._a_graph_for_each(scaled, base, some) for some in torch.split(queries, at_once, dim=-2)]
        return Rows(*(torch.cat(columns, dim) for columns, dim in zip(zip(*parts, strict=True), (-3, -2), strict=True)))

    def scaled(self, task: Task) -> Task:
        """The task with f(x) / sigma(x) in place of f(x). Sigma may be negative; at 0 it is held off by the machine's eps."""
        eps = torch.finfo(torch.float64).eps
        return map_task(task, lambda embeddings: embeddings / (self.length_scale(embeddings) + eps))

    def _neighbors(self, scaled: Task) -> tuple[Tensor, Tensor]:  # -> [..., n, n], [..., Q, n]
        nodes = torch.cat([scaled.support, scaled.unlabeled], -2)
        return similarities(nodes, nodes), similarities(scaled.query, nodes)

    def _a_graph_for_each(self, task: Task, base: Tensor, queries: Tensor) -> Rows:
        F_star = propagate(
            bordered(base, queries), self._seeds(task, base.shape[-1] + 1)[..., None, :, :], self.k, self.alpha
        )
        return Rows(F_star[..., : task.labels.shape[-1], :], F_star[..., -1, :])

    def _all_in_one_graph(self, scaled: Task) -> Rows:
        nodes = torch.cat([scaled.support, scaled.unlabeled, scaled.query], -2)
        F_star = propagate(similarities(nodes, nodes), self._seeds(scaled, nodes.shape[-2]), self.k, self.alpha)
        n_support, n_query = scaled.labels.shape[-1], scaled.query.shape[-2]
        return Rows(F_star[..., None, :n_support, :], F_star[..., nodes.shape[-2] - n_query :, :])

    def _seeds(self, task: Task, n_nodes: int) -> Tensor:  # -> [..., n, n_way]
        """Y: one-hot on the support, which comes first, and 0 elsewhere."""
        Y = one_hot(task.labels, task.n_way, like=task.support)
        return F.pad(Y, (0, 0, 0, n_nodes - Y.shape[-2]))

    def pseudo_labels(self, task: Task) -> PseudoLabels:
        """The labels that reach the unlabeled images, in the graph of support and unlabeled images."""
        base, _ = self._neighbors(self.scaled(task))
        F_star = propagate(base, self._seeds(task, base.shape[-1]), self.k, self.alpha)
        p = F_star[..., task.labels.shape[-1] :, :].softmax(-1)
        return PseudoLabels(p, p.new_ones(p.shape[:-1]).bool())


class Rows(NamedTuple):
    """Rows of F*: those of the support in each graph, and those of the queries."""

    support: Tensor  # [..., graphs, S, n_way]
    query: Tensor  # [..., Q, n_way]


class LengthScale(nn.Module):
    """g_phi: two conv blocks (64 filters, then 1) and two linear layers, from an embedding's map to one number."""

    def __init__(self, in_map: tuple[int, int, int]):
        super().__init__()
        channels, height, width = in_map
        self.in_map = in_map
        self.blocks = nn.Sequential(_block(channels, 64), _block(64, 1))
        self.head = nn.Sequential(nn.Linear(_pooled(height) * _pooled(width), 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, embeddings: Tensor) -> Tensor:  # [n, d] -> [n, 1]
        sigma: Tensor = self.head(self.blocks(embeddings.reshape(-1, *self.in_map)).flatten(1))
        return sigma


def _block(in_channels: int, out_channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, 3, padding=1),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
        nn.MaxPool2d(2, padding=1),
    )


def _pooled(size: int) -> int:
    """A side after both pools: 5 -> 3 -> 2, and 1 -> 1 -> 1."""
    return (size // 2 + 1) // 2 + 1


def similarities(a: Tensor, b: Tensor) -> Tensor:  # [..., n, d], [..., m, d] -> [..., n, m]
    """eq. 2: W_ij = exp(-mean_l (a_il - b_jl)^2 / 2). By differences: with length scales the embeddings differ in size by
    orders of magnitude, and an expanded square would lose the small distances."""
    distance = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
    return (-distance.square() / (2 * a.shape[-1])).exp()


def bordered(base: Tensor, queries: Tensor) -> Tensor:  # [..., n, n], [..., Q, n] -> [..., Q, n + 1, n + 1]
    """For each query the graph of support and unlabeled images with that query as the last node."""
    n = base.shape[-1]
    row = queries[..., None, :]  # [..., Q, 1, n]
    top = torch.cat([base[..., None, :, :].expand(*queries.shape[:-1], n, n), row.transpose(-2, -1)], -1)
    return torch.cat([top, F.pad(row, (0, 1), value=1.0)], -2)  # a node is like itself: 1


def propagate(W: Tensor, Y: Tensor, k: int, alpha: float) -> Tensor:  # [..., n, n], [..., n, c] -> [..., n, c]
    """eq. 4: F* = (I - alpha S)^-1 Y on the graph of k nearest neighbors, by solving, never by inverting."""
    S = normalized(W * neighbors(W, k))
    identity = torch.eye(S.shape[-1], dtype=S.dtype, device=S.device)
    F_star: Tensor = torch.linalg.solve(identity - alpha * S, Y.expand(*S.shape[:-1], Y.shape[-1]))
    return F_star


def neighbors(W: Tensor, k: int) -> Tensor:  # [..., n, n] -> [..., n, n] bool
    """Where j is among the k largest of row i, or i among the k largest of row j. A node is always its own neighbor."""
    best = W.detach().topk(min(k, W.shape[-1]), dim=-1).indices
    chosen = torch.zeros_like(W, dtype=torch.bool).scatter(-1, best, torch.ones_like(best, dtype=torch.bool))
    itself = torch.eye(W.shape[-1], dtype=torch.bool, device=W.device)  # also where more than k images are the same
    return chosen | chosen.transpose(-2, -1) | itself


def normalized(W: Tensor) -> Tensor:
    """S = D^-1/2 W D^-1/2"""
    root = W.sum(-1).rsqrt()
    return root[..., :, None] * W * root[..., None, :]

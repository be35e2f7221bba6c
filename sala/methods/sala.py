"""SALA: a metric that adapts to the task, and unlabeled neighbors that are let in little by little."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from sala.episodes.task import Task
from sala.errors import SalaError, at_least
from sala.functional import (
    PseudoLabels,
    class_means,
    nearest,
    ramp_weight,
    refine,
    refine_steps,
    selection_size,
    squared_distances,
)
from sala.methods.base import Method
from sala.nn.backbones import Backbone

Weights = Literal["adaptive", "double", "constant", "shared"]


class SALA(Method):
    """Self-Adaptive Label Augmentation.

    Wang et al., arXiv:2206.08150.

    1. c_i = mean of the support of class i                                    (eq. 1)
    2. a_i = sigmoid(W2 relu(W1 c_i + b1) + b2)                                (the task-adaptive metric)
    3. d(x, c_i) = sum_j a_ij (g(x)_j - c_ij)^2                                (eq. 4)
    4. p_i(u) = softmax_i(-d(u, c_i)) for each unlabeled u                    (eq. 5)
    5. U' = the n images with the smallest min_i d(u, c_i), n = w(t) M0,
       w(t) = exp(-eta (1 - t)^2)                                              (eqs. 6, 8, 9: progressive selection)
    6. c_i <- (sum_s z_si g_s + sum_U' p_i(u) g_u) / (sum_s z_si + sum_U' p_i(u))   (eq. 10)
    7. queries: softmax_i(-d(x, c_i)) with the same a and the refined c        (eq. 11)

    Deviations: the paper's r = 800 is read as the width of the hidden layer, min(800, d / 2), not as a reduction ratio.
    As a ratio it leaves two hidden units, which die within a few hundred episodes and make a the same for every task
    (`hidden=2` is that reading). The loss is the mean over queries, printed as a sum. t is the number of the
    episode, from 1, over their total.

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; `sala.Identity` for ready-made features.
    metric, selection : bool, default True
        The two modules. With both off this is Soft k-Means with `flow=True`, to the last bit.
    eta : float, default 5.0
        Steepness of the curriculum w(t).
    hidden : int, optional
        Width of the metric network; min(800, d / 2) by default.
    weights : {"adaptive", "double", "constant", "shared"}, default "adaptive"
        Controls: "double" is 2 sigmoid, so that a starts near 1; "constant" is a = 1/2, only a temperature; "shared" is one
        learned vector for all tasks.
    context : bool, default False
        Whether the metric network sees [c_i; mean_k c_k].
    recompute : bool, default False
        Whether a is computed again, from the refined prototypes, for the queries.
    ramp : float, default 1.0
        The share of training over which t goes from 0 to 1. At test t = 1.
    rounding : {"floor", "ceil", "at-least-one"}, default "floor"
        Of the number n of selected images.
    flow : bool, default True
        Whether the gradient passes through p.
    n_refinement_steps : int, default 1
        How often steps 3 to 6 are taken: assignments and selection each time from the prototypes before it, a always from
        the initial ones. The paper takes one.
    swap : bool, default False
        Whether the loss is the mean of two, the second with support and queries exchanged (no paper does so).

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0], [10.0]], labels=[0, 1], query=[[4.0]], unlabeled=[[1.0], [9.0]])
    >>> method = sala.build_method("sala", sala.Identity(1), {"metric": False}).eval()
    >>> method.classify(task).argmax(-1)
    tensor([0])
    """

    paper = "Wang et al., 2022, arXiv:2206.08150"
    batched = True

    def __init__(
        self,
        backbone: Backbone,
        *,
        metric: bool = True,
        selection: bool = True,
        eta: float = 5.0,  # "implementation details"
        hidden: int | None = None,  # None: min(800, d / 2)
        weights: Weights = "adaptive",
        context: bool = False,
        recompute: bool = False,
        ramp: float = 1.0,
        rounding: Literal["floor", "ceil", "at-least-one"] = "floor",
        flow: bool = True,
        n_refinement_steps: int = 1,
        swap: bool = False,
    ):
        super().__init__(backbone)
        at_least(1, n_refinement_steps, "the number of refinement steps n_refinement_steps")
        d = backbone.out_dim
        width = max(1, min(800, d // 2)) if hidden is None else hidden
        if width < 1 or not 0 <= ramp <= 1:
            raise SalaError(f"hidden must be at least 1 and ramp between 0 and 1; got {width} and {ramp:g}")
        self.metric = MetricNetwork(d, width, weights, context) if metric else None
        self.selection, self.eta, self.ramp, self.rounding = selection, eta, ramp, rounding
        self.recompute, self.flow = recompute, flow
        self.n_refinement_steps, self.swap = n_refinement_steps, swap

    def logits(self, task: Task) -> Tensor:
        return self._answers(task)[0]

    def pseudo_labels(self, task: Task) -> PseudoLabels:
        prototypes = class_means(task.support, task.labels, task.n_way)
        return self._last_pseudo_labels(task, prototypes, self._weights(prototypes))

    def answers(self, task: Task) -> tuple[Tensor, PseudoLabels]:
        return self._answers(task)

    def _answers(self, task: Task) -> tuple[Tensor, PseudoLabels]:
        prototypes = class_means(task.support, task.labels, task.n_way)  # eq. 1
        weights = self._weights(prototypes)
        labels = self._last_pseudo_labels(task, prototypes, weights)
        refined = refine(task, _shares(labels))  # eq. 10
        if self.recompute:
            weights = self._weights(refined)
        return -squared_distances(task.query, refined, weights), labels  # eq. 11

    def n_selected(self, n_unlabeled: int) -> int:
        """n of eqs. 8 and 9; in evaluation t = 1, whatever the training's progress was."""
        if not self.selection:
            return n_unlabeled
        w = ramp_weight(self.progress / self.ramp, self.eta) if self.training and self.ramp > 0 else 1.0
        return selection_size(n_unlabeled, share=self.selection_share, weight=w, rounding=self.rounding)

    def _weights(self, prototypes: Tensor) -> Tensor | None:
        return None if self.metric is None else self.metric(prototypes)

    def _last_pseudo_labels(self, task: Task, prototypes: Tensor, weights: Tensor | None) -> PseudoLabels:
        """Those of the last refinement step, from the initial prototypes and their weights a."""

        def shares(c: Tensor) -> Tensor:
            return _shares(self._pseudo_labels(task, c, weights))

        return self._pseudo_labels(task, refine_steps(task, prototypes, shares, self.n_refinement_steps - 1), weights)

    def _pseudo_labels(self, task: Task, prototypes: Tensor, weights: Tensor | None) -> PseudoLabels:
        distances = squared_distances(task.unlabeled, prototypes, weights)  # eq. 4
        p = (-distances).softmax(-1)  # eq. 5
        selected = nearest(distances, self.n_selected(distances.shape[-2]))  # eq. 6
        return PseudoLabels(p if self.flow else p.detach(), selected)

    def diagnostics(self, task: Task) -> dict[str, float]:
        """Whether the metric adapts: standard deviation of a over tasks, and the share of hidden units that are ever on."""
        if self.metric is None:
            return {}
        return self.metric.diagnostics(class_means(task.support, task.labels, task.n_way))


def _shares(labels: PseudoLabels) -> Tensor:  # -> [..., M, n_way]
    """p of the selected images, 0 of the others."""
    return labels.probabilities * labels.selected[..., None]


class MetricNetwork(nn.Module):
    """Prototypes to positive feature weights: FC - ReLU - FC - sigmoid, the same for each class (row)."""

    def __init__(self, dim: int, hidden: int, weights: Weights = "adaptive", context: bool = False):
        super().__init__()
        self.kind, self.context = weights, context
        if weights in ("adaptive", "double"):
            self.reduce = nn.Linear(2 * dim if context else dim, hidden)
            self.expand = nn.Linear(hidden, dim)
        elif weights == "shared":
            self.vector = nn.Parameter(torch.zeros(dim))

    def forward(self, prototypes: Tensor) -> Tensor:  # [..., k, d] -> [..., k, d]
        if self.kind == "constant":
            return torch.full_like(prototypes, 0.5)
        if self.kind == "shared":
            return self.vector.sigmoid().expand_as(prototypes)
        a: Tensor = self.expand(self.hidden(prototypes)).sigmoid()
        return 2 * a if self.kind == "double" else a

    def hidden(self, prototypes: Tensor) -> Tensor:
        """relu(W1 c + b1), of the prototypes or of [c_i; mean_k c_k]."""
        if self.context:
            mean = prototypes.mean(-2, keepdim=True).expand_as(prototypes)
            prototypes = torch.cat([prototypes, mean], -1)
        units: Tensor = self.reduce(prototypes).relu()
        return units

    @torch.no_grad()
    def diagnostics(self, prototypes: Tensor) -> dict[str, float]:
        a = self(prototypes).flatten(0, -2)
        numbers = {
            "metric_weight_mean": float(a.mean()),
            "metric_weight_spread": float(a.std(0).mean()) if len(a) > 1 else 0.0,
        }
        if self.kind in ("adaptive", "double"):
            numbers["metric_live_units"] = float((self.hidden(prototypes).flatten(0, -2) > 0).any(0).float().mean())
        return numbers

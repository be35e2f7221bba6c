"""Soft k-Means and its kin (Ren et al., ICLR 2018, arXiv:1803.00676): prototypes refined by softly labeled images.

p_c is the mean of the support of class c, D_jc = ||g(x_j) - p_c||^2, and after one step of soft k-means with weights w
p~_c = (sum_i 1[y_i = c] g(x_i) + sum_j w_jc g(x_j)) / (n_c + sum_j w_jc); queries are classified by softmax_c(-D) to p~.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from sala.episodes.task import Task
from sala.errors import SalaError, at_least
from sala.functional import PseudoLabels, class_means, one_hot, refine, refine_steps, squared_distances
from sala.methods.base import Method
from sala.nn.backbones import Backbone

LOG_WIDE = math.log(1e5)  # the distractor radius of the released code where nothing is unlabeled


class SoftKMeans(Method):
    """Prototypes refined by one step of soft k-means over the unlabeled images.

    Ren et al., ICLR 2018, arXiv:1803.00676.

    Deviations: none by default. `flow=True` lets the gradient pass through the assignments, which the released code stops
    (test_flow_lets_the_gradient_through_the_assignments).

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; `sala.Identity` for ready-made features.
    flow : bool, default False
        Whether the gradient passes through the assignments.
    n_refinement_steps : int, default 1
        Steps of soft k-means, each with assignments from the prototypes before it. The paper takes one.
    swap : bool, default False
        Whether the loss is the mean of two, the second with support and queries exchanged (no paper does so).

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0], [10.0]], labels=[0, 1], query=[[4.0]], unlabeled=[[1.0], [9.0]])
    >>> method = sala.build_method("soft-kmeans", sala.Identity(1)).eval()
    >>> method.classify(task).argmax(-1)
    tensor([0])
    """

    paper = "Ren et al., ICLR 2018"
    batched = True

    def __init__(self, backbone: Backbone, *, flow: bool = False, n_refinement_steps: int = 1, swap: bool = False):
        super().__init__(backbone)
        at_least(1, n_refinement_steps, "the number of refinement steps n_refinement_steps")
        self.flow, self.n_refinement_steps, self.swap = flow, n_refinement_steps, swap

    def logits(self, task: Task) -> Tensor:
        return -squared_distances(task.query, refine(task, self.assignments(task)))

    def assignments(self, task: Task) -> Tensor:  # -> [..., M, n_way]
        """z of the last refinement step."""
        prototypes = class_means(task.support, task.labels, task.n_way)
        soft_labels = partial(self.soft_labels, task.unlabeled)
        return soft_labels(refine_steps(task, prototypes, soft_labels, self.n_refinement_steps - 1))

    def soft_labels(self, embeddings: Tensor, prototypes: Tensor) -> Tensor:  # [..., n, d], [..., k, d] -> [..., n, k]
        """z_jc = softmax_c(-||g(x_j) - p_c||^2)"""
        z = (-squared_distances(embeddings, prototypes)).softmax(-1)
        return z if self.flow else z.detach()

    def pseudo_labels(self, task: Task) -> PseudoLabels:
        z = self.assignments(task)
        return PseudoLabels(z, z.new_ones(z.shape[:-1]).bool())


class SemiInference(SoftKMeans):
    """A Prototypical Network that takes one step of soft k-means at test: what unlabeled images add without training on
    them. In training it is given none, and without them Soft k-Means is the Prototypical Network.

    Ren et al., ICLR 2018, arXiv:1803.00676 ("semi-supervised inference").

    Deviations: with the same seed the weights are the Prototypical Network's at every episode
    (test_semi_inference_trains_as_the_prototypical_network); which of them is kept is decided by its own validation.

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; `sala.Identity` for ready-made features.
    n_refinement_steps : int, default 1
        Steps of soft k-means at test, each with assignments from the prototypes before it. The paper takes one.
    swap : bool, default False
        Whether the loss is the mean of two, the second with support and queries exchanged (no paper does so).

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0], [10.0]], labels=[0, 1], query=[[4.0]], unlabeled=[[1.0], [9.0]])
    >>> method = sala.build_method("semi-inference", sala.Identity(1)).eval()
    >>> method.classify(task).argmax(-1)
    tensor([0])
    """

    batched = True
    trains_on_unlabeled = False

    def __init__(self, backbone: Backbone, *, n_refinement_steps: int = 1, swap: bool = False):
        super().__init__(backbone, n_refinement_steps=n_refinement_steps, swap=swap)


class SoftKMeansCluster(Method):
    """Soft k-Means with one more cluster, around the origin and with a learned radius, that catches the distractors.

    Ren et al., ICLR 2018, arXiv:1803.00676, sec. 3.1.2.

    1. p_1 .. p_N = class means, p_{N+1} = 0;  r_1 .. r_N = 1, r_{N+1} = exp(s) with s learned
    2. L_c(x) = -||g(x) - p_c||^2 / (2 r_c^2) - log r_c - log(2 pi) / 2
    3. z_jc = softmax_c(L_c(x_j)) over the N + 1 clusters, and all N + 1 centers move
    4. queries: softmax over the N + 1 clusters; one that falls to the last is an error

    Without unlabeled images r_{N+1} = 1e5, as in the released code: nothing tells where distractors are
    (test_without_unlabeled_images_the_distractor_cluster_is_as_wide_as_in_the_released_code).

    Deviations: this is the form of the released code. `form="paper"` is the printed one: the exponent is -D / r^2 (no 1/2),
    and queries are classified among the N classes by -D alone
    (test_the_paper_form_with_an_infinite_radius_is_soft_kmeans). `center="data"` starts the distractor cluster at the mean of
    support and unlabeled images, for features that are not all positive, among which the origin is no corner
    (test_a_cluster_centered_on_the_data_leaves_a_class_at_the_origin_alone). The classes have radius 1 in every form: where
    images of one class lie much farther apart, as ready-made features may, all queries fall to the distractor cluster and a
    warning says so (test_features_that_are_too_far_apart_are_warned_of).

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; `sala.Identity` for ready-made features.
    form : {"released", "paper"}, default "released"
        The form of the released code, or the printed one.
    distractor_radius : float, default 100.0
        The radius of the distractor cluster at the beginning (released code).
    center : {"origin", "data"}, default "origin"
        Where the distractor cluster starts.
    n_refinement_steps : int, default 1
        Steps of soft k-means, in each of which all N + 1 centers move. The paper takes one.
    swap : bool, default False
        Whether the loss is the mean of two, the second with support and queries exchanged (no paper does so).

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0], [10.0]], labels=[0, 1], query=[[4.0]], unlabeled=[[1.0], [9.0]])
    >>> method = sala.build_method("soft-kmeans-cluster", sala.Identity(1), {"form": "paper"}).eval()
    >>> method.classify(task).argmax(-1)
    tensor([0])
    """

    paper = "Ren et al., ICLR 2018"
    batched = True

    def __init__(
        self,
        backbone: Backbone,
        *,
        form: Literal["released", "paper"] = "released",
        distractor_radius: float = 100.0,  # at the beginning; released code
        center: Literal["origin", "data"] = "origin",  # where the distractor cluster starts; paper and released code
        n_refinement_steps: int = 1,
        swap: bool = False,
    ):
        super().__init__(backbone)
        at_least(1, n_refinement_steps, "the number of refinement steps n_refinement_steps")
        if not distractor_radius > 0:
            raise SalaError(f"distractor_radius must be above 0; got {distractor_radius:g}")
        if center not in ("origin", "data"):
            raise SalaError(f"center is origin or data; got {center!r}")
        self.form, self.center, self._is_warned = form, center, False
        self.n_refinement_steps, self.swap = n_refinement_steps, swap
        self.n_extra = 1 if form == "released" else 0
        self.log_radius = nn.Parameter(torch.tensor(math.log(distractor_radius)))

    def logits(self, task: Task) -> Tensor:
        task = self.centered(task)
        centers = self.centers(task)
        if self.form == "paper":
            return -squared_distances(task.query, centers[..., :-1, :])
        has_unlabeled = task.unlabeled.shape[-2] > 0
        logits = self.log_densities(task.query, centers, None if has_unlabeled else LOG_WIDE)
        if not self.training:
            self._warn_if_most_are_lost(logits)
        return logits

    def centered(self, task: Task) -> Task:
        """The task with the start of the distractor cluster as its origin."""
        if self.center == "origin":
            return task
        mean = torch.cat([task.support, task.unlabeled], -2).mean(-2, keepdim=True)
        parts = {name: getattr(task, name) - mean for name in ("support", "unlabeled", "query")}
        return replace(task, **parts)

    def centers(self, task: Task) -> Tensor:  # -> [..., n_way + 1, d]
        """All centers of a centered task after the last step."""
        return moved_centers(task, self.cluster_scores(task).softmax(-1))

    def cluster_scores(self, task: Task) -> Tensor:  # -> [..., M, n_way + 1]
        """L_c of the unlabeled images, for all N + 1 clusters before the last step."""
        prototypes = class_means(task.support, task.labels, task.n_way)
        origin = torch.zeros_like(prototypes[..., :1, :])
        scores = self.log_densities(task.unlabeled, torch.cat([prototypes, origin], -2))
        for _ in range(self.n_refinement_steps - 1):
            scores = self.log_densities(task.unlabeled, moved_centers(task, scores.softmax(-1)))
        return scores

    def log_densities(
        self, embeddings: Tensor, centers: Tensor, log_radius: float | None = None
    ) -> Tensor:  # [..., n, d], [..., k, d] -> [..., n, k]
        """L_c of each embedding: the last center has the learned radius or the given one, the others radius 1."""
        last = self.log_radius if log_radius is None else torch.full_like(self.log_radius, log_radius)
        log_r = torch.cat([self.log_radius.new_zeros(centers.shape[-2] - 1), last[None]])
        share = 0.5 if self.form == "released" else 1.0
        return -share * squared_distances(embeddings, centers) * (-2 * log_r).exp() - log_r - math.log(2 * math.pi) / 2

    def pseudo_labels(self, task: Task) -> PseudoLabels:
        scores = self.cluster_scores(self.centered(task))
        return PseudoLabels(scores[..., :-1].softmax(-1), scores.argmax(-1) < task.n_way)

    def diagnostics(self, task: Task) -> dict[str, float]:
        return {"distractor_radius": self.log_radius.exp().item()}

    def _warn_if_most_are_lost(self, logits: Tensor) -> None:
        """Queries of an episode are of its classes: where most fall to the distractor cluster, the features do not fit."""
        if self._is_warned or not logits.numel():
            return
        share = float((logits.argmax(-1) == logits.shape[-1] - 1).float().mean())
        if share > 0.5:
            self._is_warned = True
            warnings.warn(
                f"{100 * share:.0f} % of the queries fall to the distractor cluster of {type(self).__name__} and count as "
                "errors. Its classes have radius 1: scale the features so that squared distances within a class are about "
                '1, set form="paper" (queries among the classes only), or, where a class of signed features lies at the '
                'origin, center="data"',
                stacklevel=2,
            )


def moved_centers(task: Task, z: Tensor) -> Tensor:  # z [..., M, n_way + 1] -> [..., n_way + 1, d]
    """All centers after one step. The last has no support, and stays at the origin if there is nothing unlabeled."""
    assigned = one_hot(task.labels, task.n_way + 1, like=task.support)
    weights = torch.cat([assigned, z], -2)
    total = weights.sum(-2)[..., None]
    embeddings = torch.cat([task.support, task.unlabeled], -2)
    # as good as nothing in a cluster is nothing: the gradient of a quotient squares its denominator
    return weights.transpose(-2, -1) @ embeddings / total.where(total > 1e-12, 1)

"""TADAM: a learned scale of the metric, and an embedding that is conditioned on the task."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sala.episodes.task import Task
from sala.errors import SalaError, at_least
from sala.functional import PseudoLabels, class_means, refine, refine_steps, squared_distances
from sala.methods.base import Method, in_unit_range, map_task
from sala.nn.backbones import Backbone, Film
from sala.nn.statistics import running_statistics

MULTIPLIER_PENALTY = 0.01  # L2, on the post-multipliers


class TADAM(Method):
    """Soft k-Means under a metric with a learned scale; in variant B on an embedding that knows its task.

    Oreshkin et al., NeurIPS 2018, arXiv:1805.10123.

    A: softmax_c(-a ||g(x) - p_c||^2) with a = exp(s), s learned from 0            (metric scaling)
    B: A, and
       1. task vector t = mean_c p_c, from the support in the plain network        (task embedding network)
       2. in each layer gamma = gamma_0 G(t), beta = beta_0 B(t), with residual
          networks G, B and scalars gamma_0, beta_0 that start at 0
       3. h <- (1 + gamma) h + beta after batch norm, before ReLU                  (FiLM)

    Deviations: TADAM has no unlabeled images; as in the SALA paper's comparison its metric stands in a Soft k-Means with all
    unlabeled images and the gradient let through, so that a = 1 is `soft-kmeans` with `flow` to the last bit
    (test_tadam_starts_as_soft_kmeans). Distances are squared, unlike the released head's; the scale is learned, as
    the text says, where the released code fixes it by cross-validation. B stands on Conv4 instead of ResNet-12, with the
    optimizer of all other methods. The auxiliary task (co-training on a 64-way classification) is
    omitted; the paper reports that conditioning without it lowers accuracy. The plain pass has batch norm's running
    statistics in training too: normalized by its own few images, the support would lose the very mean that tells its task.

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; `sala.Identity` for ready-made features.
    variant : {"A", "B"}, default "A"
        Metric scaling alone, or with an embedding conditioned on the task.
    n_refinement_steps : int, default 1
        Steps of soft k-means, each with assignments from the prototypes before it. The SALA paper takes one.
    swap : bool, default False
        Whether the loss is the mean of two, the second with support and queries exchanged (no paper does so). Of
        variant A alone: the embeddings of B depend on the support.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0], [10.0]], labels=[0, 1], query=[[4.0]], unlabeled=[[1.0], [9.0]])
    >>> method = sala.build_method("tadam", sala.Identity(1)).eval()
    >>> method.classify(task).argmax(-1)
    tensor([0])
    """

    paper = "Oreshkin et al., NeurIPS 2018"
    batched = True

    def __init__(
        self,
        backbone: Backbone,
        *,
        variant: Literal["A", "B"] = "A",
        n_refinement_steps: int = 1,
        swap: bool = False,
    ):
        super().__init__(backbone)
        at_least(1, n_refinement_steps, "the number of refinement steps n_refinement_steps")
        self.variant, self.n_refinement_steps, self.swap = variant, n_refinement_steps, swap
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.embeds_per_task = variant == "B"
        if variant == "B":
            if swap:
                raise SalaError(
                    "swap needs embeddings that do not depend on the support; got variant B; use A, or swap=false"
                )
            if not backbone.film_widths:
                raise SalaError(f"variant B conditions conv4, and {type(backbone).__name__} takes no conditions; use A")
            self.conditions = TaskConditions(backbone.out_dim, backbone.film_widths)

    def logits(self, task: Task) -> Tensor:
        return -self.distances(task.query, refine(task, self.assignments(task)))

    def distances(self, embeddings: Tensor, prototypes: Tensor) -> Tensor:
        """a ||g(x) - p_c||^2"""
        return self.log_scale.exp() * squared_distances(embeddings, prototypes)

    def assignments(self, task: Task) -> Tensor:  # -> [..., M, n_way]
        """Soft assignments of the unlabeled images under the scaled metric, of the last refinement step."""
        prototypes = class_means(task.support, task.labels, task.n_way)
        soft_labels = partial(self.soft_labels, task.unlabeled)
        return soft_labels(refine_steps(task, prototypes, soft_labels, self.n_refinement_steps - 1))

    def soft_labels(self, embeddings: Tensor, prototypes: Tensor) -> Tensor:  # [..., n, d], [..., k, d] -> [..., n, k]
        """softmax_c(-a ||g(x) - p_c||^2)"""
        return (-self.distances(embeddings, prototypes)).softmax(-1)

    def embed(self, task: Task) -> Task:
        if self.variant == "A" or (self.training and task.labels.ndim > 1):
            return super().embed(task)
        film = self.conditions(self.task_vector(task))  # gamma and beta [..., channels]
        n_images = sum(part.shape[task.labels.ndim - 1] for part in (task.support, task.unlabeled, task.query))

        def for_each_image(part: Tensor) -> Tensor:  # [..., channels] -> [images, channels]
            return part[..., None, :].expand(*part.shape[:-1], n_images, -1).flatten(0, -2)

        conditions = [(for_each_image(gamma), for_each_image(beta)) for gamma, beta in film]

        def embed_images(images: Tensor) -> Tensor:
            with self.autocast():
                embeddings: Tensor = self.backbone(in_unit_range(images), conditions)
            return embeddings.float() if self.mixed_precision else embeddings

        return map_task(task, embed_images)

    def task_vector(self, task: Task) -> Tensor:  # -> [..., d]
        """The mean of the prototypes in the network without conditions."""
        with running_statistics(self.backbone):
            images = task.support.flatten(0, task.labels.ndim - 1)
            support = self.embed_images(images).reshape(*task.labels.shape, -1)
        return class_means(support, task.labels, task.n_way).mean(-2)

    def loss(self, task: Task, query_labels: Tensor, player: str = "classifier") -> Tensor:
        loss = super().loss(task, query_labels, player)
        return (
            loss + MULTIPLIER_PENALTY / 2 * self.conditions.multipliers.square().sum() if self.variant == "B" else loss
        )

    def pseudo_labels(self, task: Task) -> PseudoLabels:
        z = self.assignments(task)
        return PseudoLabels(z, z.new_ones(z.shape[:-1]).bool())

    def diagnostics(self, task: Task) -> dict[str, float]:
        numbers = {"metric_scale": self.log_scale.exp().item()}
        if self.variant == "B":
            numbers["condition_multiplier"] = self.conditions.multipliers.abs().mean().item()
        return numbers


class TaskConditions(nn.Module):
    """From a task vector to gamma and beta of each layer: two residual networks a layer, each times a scalar."""

    def __init__(self, dim: int, widths: tuple[int, ...]):
        super().__init__()
        self.gammas = nn.ModuleList(ResidualNetwork(dim, width) for width in widths)
        self.betas = nn.ModuleList(ResidualNetwork(dim, width) for width in widths)
        self.multipliers = nn.Parameter(
            torch.zeros(2, len(widths))
        )  # gamma_0 and beta_0: at first there is no condition

    def forward(self, task_vector: Tensor) -> Film:
        gamma_0, beta_0 = self.multipliers
        layers = zip(self.gammas, self.betas, gamma_0, beta_0, strict=True)
        return [(g0 * gamma(task_vector), b0 * beta(task_vector)) for gamma, beta, g0, b0 in layers]


class ResidualNetwork(nn.Module):
    """Three linear layers; the first projects, the others have skip connections; swish after the first two."""

    def __init__(self, dim: int, width: int):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(dim, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        h = F.silu(self.first(x))
        h = F.silu(h + self.second(h))
        out: Tensor = h + self.third(h)
        return out

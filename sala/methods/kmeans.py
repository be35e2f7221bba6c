"""Soft k-Means: prototypes refined once by softly labelled unlabelled images (Ren et al., ICLR 2018)."""

from __future__ import annotations

from torch import Tensor

from sala.backbones import Backbone
from sala.episode import Task
from sala.methods.base import Method
from sala.stages import PseudoLabels, class_means, refine, squared_distances


class SoftKMeans(Method):
    """Each unlabelled point is shared out to the classes by its distance to their prototypes, which then move.

    Ren et al., ICLR 2018, arXiv:1803.00676.

    Deviations: none by default. `flow=True` lets the gradient pass through the assignments, which the released code stops
    (test_flow_lets_the_gradient_through_the_assignments).
    """

    paper = "Ren et al., ICLR 2018"

    def __init__(self, backbone: Backbone, *, flow: bool = False):
        super().__init__(backbone)
        self.flow = flow

    def logits(self, task: Task) -> Tensor:
        return -squared_distances(task.query, refine(task, self.assignments(task)))

    def assignments(self, task: Task) -> Tensor:  # -> [..., M, n_way]
        """z_jc = softmax_c(-||g(x_j) - p_c||^2)"""
        prototypes = class_means(task.support, task.labels, task.n_way)
        z = (-squared_distances(task.unlabeled, prototypes)).softmax(-1)
        return z if self.flow else z.detach()

    def pseudo_labels(self, task: Task) -> PseudoLabels:
        z = self.assignments(task)
        return PseudoLabels(z, z.new_ones(z.shape[:-1]).bool())

"""Prototypical Networks: a class is the mean of its support embeddings; the nearest mean wins."""

from __future__ import annotations

from torch import Tensor

from sala.episode import Task
from sala.methods.base import Method
from sala.stages import class_means, squared_distances


class ProtoNet(Method):
    """Supervised few-shot classification by nearest class mean, the baseline without unlabelled images.

    Snell et al., NeurIPS 2017, arXiv:1703.05175.

    Deviations: trained with as many ways as tested (the paper's higher-way training is left out, for all methods alike).
    """

    paper = "Snell et al., NeurIPS 2017"
    batched = True
    trains_on_unlabeled = tests_on_unlabeled = False

    def logits(self, task: Task) -> Tensor:
        prototypes = class_means(task.support, task.labels, task.n_way)  # eq. 1
        return -squared_distances(task.query, prototypes)  # eq. 2

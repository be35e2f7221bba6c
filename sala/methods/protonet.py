"""Prototypical Networks: a class is the mean of its support embeddings; the nearest mean wins."""

from __future__ import annotations

from torch import Tensor

from sala.episodes.task import Task
from sala.functional import class_means, squared_distances
from sala.methods.base import Method
from sala.nn.backbones import Backbone


class ProtoNet(Method):
    """Supervised few-shot classification by nearest class mean, the baseline without unlabeled images.

    Snell et al., NeurIPS 2017, arXiv:1703.05175.

    Deviations: trained with as many ways as tested (the paper's higher-way training is omitted, for all methods alike).

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings; `sala.Identity` for ready-made features.
    swap : bool, default False
        Whether the loss is the mean of two, the second with support and queries exchanged (no paper does so).

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[0.0], [10.0]], labels=[0, 1], query=[[4.0]], unlabeled=[[1.0], [9.0]])
    >>> method = sala.build_method("protonet", sala.Identity(1)).eval()
    >>> method.classify(task).argmax(-1)
    tensor([0])
    """

    paper = "Snell et al., NeurIPS 2017"
    batched = True
    trains_on_unlabeled = tests_on_unlabeled = False

    def __init__(self, backbone: Backbone, *, swap: bool = False):
        super().__init__(backbone)
        self.swap = swap

    def logits(self, task: Task) -> Tensor:
        prototypes = class_means(task.support, task.labels, task.n_way)  # eq. 1
        return -squared_distances(task.query, prototypes)  # eq. 2

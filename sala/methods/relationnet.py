"""Relation Networks: a learned comparison of maps takes the place of a metric."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from sala.episodes.task import Task
from sala.functional import class_means, one_hot
from sala.methods.base import Method, checked_logits
from sala.nn.backbones import Backbone
from sala.nn.relation import RelationModule


class RelationNet(Method):
    """A small network scores each pair of a class and a query, from their maps on top of each other.

    Sung et al., CVPR 2018, arXiv:1711.06025.

    1. f(x): the map of an image, from a network without its last two pools        (sec. 3.4)
    2. of a class with several images the sum of their maps                        (sec. 3.2)
    3. r_ij = g(f(x_i), f(x_j)) in (0, 1), g the relation module                   (eq. 1)
    4. loss: mean of (r_ij - 1[y_i = y_j])^2 over all pairs                        (eq. 2)

    Unlabeled images are not used: the paper has no form with them; that of `MetaGAN` has, by `discriminator="relation"`. The
    logits are those of r: before the sigmoid.

    Deviations: the loss is the mean over pairs, as in the released code, where eq. 2 has the sum. The maps of a class are
    averaged, not summed, so that classes may have different numbers of shots, also other ones than in training. With equal
    numbers it is the same up to a factor of the first convolution's weights; `class_map="sum"` is the paper's. The common
    backbone pads all its convolutions (7 x 7 pixels of a 28 x 28 image, 5 x 5 in the released code) and has PyTorch's
    initialization; gradients are not clipped. At test batch norm has its running statistics; the released code has those
    of the queries, which then see each other.

    Parameters
    ----------
    backbone : Backbone
        From images to embeddings, of which the map before the last pools is taken; `sala.Identity` for ready-made features,
        which are maps of one pixel.
    class_map : {"mean", "sum"}, default "mean"
        What is made of the maps of a class's images.

    Examples
    --------
    >>> import sala
    >>> method = sala.build_method("relationnet", sala.build_backbone("conv4", (28, 28, 1)))
    >>> method.backbone.out_map
    (64, 7, 7)
    """

    paper = "Sung et al., CVPR 2018"
    batched = True
    trains_on_unlabeled = tests_on_unlabeled = False
    sums_distances = False  # there are none

    def __init__(self, backbone: Backbone, *, class_map: Literal["mean", "sum"] = "mean"):
        super().__init__(backbone.unpooled())
        self.class_map = class_map
        self.relation = RelationModule(self.backbone.out_map)

    def logits(self, task: Task) -> Tensor:
        scores: Tensor = self.relation(task.query, self.class_maps(task))
        return scores

    def class_maps(self, task: Task) -> Tensor:  # -> [..., n_way, d]
        """The mean of the maps of each class, or their sum."""
        if self.class_map == "mean":
            return class_means(task.support, task.labels, task.n_way)
        return one_hot(task.labels, task.n_way, like=task.support).mT @ task.support

    def loss(self, task: Task, query_labels: Tensor, player: str = "classifier") -> Tensor:
        relations = checked_logits(self.classify(task), task, self).sigmoid()
        return F.mse_loss(relations, one_hot(query_labels, task.n_way, like=relations))

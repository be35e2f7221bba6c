"""SimpleShot: the nearest class mean of centered embeddings of length 1."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sala.functional import class_means, squared_distances
from sala.heads.base import FittedHead, Head, fitted
from sala.heads.normalize import centered


@dataclass(frozen=True)
class SimpleShot(Head):
    """Centered and L2-normalized embeddings (CL2N), then the nearest class mean.

    Wang et al., 2019, arXiv:1911.04623.

    Deviations: embeddings are centered by the mean of the task's support and unlabeled images, where the paper has the mean
    of the training classes: a head sees no other images. That mean is all that the pool is used for.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 1.0]])
    >>> sala.HEADS["simpleshot"]().scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper = "Wang et al., 2019"

    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:
        normalized = centered(support, pool)
        prototypes = class_means(normalized(support), labels, n_way)
        return fitted(pool, lambda x: (-squared_distances(normalized(x), prototypes)).log_softmax(-1))

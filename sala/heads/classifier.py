"""The classifier of `sala label` as a head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sala.heads.base import FittedHead, Head, Scores


@dataclass(frozen=True)
class ClassifierHead(Head):
    """Refined prototypes with an outlier model, as `sala.fit_pool` fits them to labeled images and a pool.

    Examples
    --------
    >>> import sala
    >>> task = sala.make_task(
    ...     support=[[1.0, 0.0], [0.0, 1.0]], labels=[0, 1], query=[[3.0, 1.0]], unlabeled=[[2.0, 1.0], [1.0, 2.0]]
    ... )
    >>> sala.HEADS["classifier"]().scores(task).log_probabilities.argmax(-1)
    tensor([0])
    """

    paper = "sala's own"

    def fit(self, support: Tensor, labels: Tensor, pool: Tensor, n_way: int) -> FittedHead:
        from sala.classifier.fit import fit_pool  # the labeling side is needed by this head alone

        found = fit_pool(_floats(support), labels.cpu().numpy(), _floats(pool))
        return FittedHead(
            _scores(found.pool, support), lambda query: _scores(found.model.predict(_floats(query)), support)
        )


def _floats(x: Tensor) -> Any:
    return x.float().cpu().numpy()


def _scores(predictions: Any, like: Tensor) -> Scores:
    probabilities = torch.from_numpy(np.asarray(predictions.probabilities)).to(like)
    inlier = 1 - torch.from_numpy(np.asarray(predictions.outlier_probability)).to(like)
    return Scores(probabilities.clamp_min(torch.finfo(like.dtype).tiny).log(), inlier)

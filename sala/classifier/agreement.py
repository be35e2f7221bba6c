"""Agreement of a pool with itself: how far its labels depend on which images happen to be labeled.

    agreement = self_agreement(classify, labels, weights, logits)

Each labeled image is replaced by an image of its class, as the pool was labeled, and the pool is classified anew. Where
classes are clear, any example of them gives the same labels; where they are not, the labels change, and many were wrong. So
the agreement tells the accuracy without a single image to hold out.

The labeled images of a class are among those to draw from: it may be that the pool has no other.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sala.classifier.pipeline import ClassifiedPool

N_DRAWS = 3  # more tell hardly more


def self_agreement(
    classify: Callable[[Tensor], ClassifiedPool], labels: Tensor, weights: Tensor, logits: Tensor
) -> Tensor:  # [s], [n + s, k], [n + s, k] -> [n]
    """The share of draws that label an image of the pool as `logits` do.

    The first n images are the pool, the others the labeled ones. `classify` classifies the pool with the images of the given
    rows in the place of the labeled ones. `weights` are the joint posterior of class and inlier, or the label.
    """
    predicted = logits[: len(logits) - len(labels)].argmax(-1)
    agreement = weights.new_zeros(len(predicted))
    for rows in drawn_rows(labels, weights, logits) if len(predicted) else ():
        agreement += classify(rows).posterior.logits.argmax(-1) == predicted
    return agreement / N_DRAWS


def drawn_rows(labels: Tensor, weights: Tensor, logits: Tensor) -> Tensor:  # [s], [n, k], [n, k] -> [N_DRAWS, s]
    """Images of the classes of `labels`, at evenly spaced quantiles of their class: the same in whatever order images came."""
    rows = labels.new_zeros(N_DRAWS, len(labels))
    for c in range(weights.shape[1]):
        order = logits[:, c].argsort(stable=True)
        places = (labels == c).nonzero()[:, 0]
        n = N_DRAWS * len(places)
        share = weights[order, c].double().cumsum(0)
        quantiles = (torch.arange(n, dtype=share.dtype) + 0.5) / n * share[-1]
        chosen = order[torch.searchsorted(share, quantiles).clamp_max(len(order) - 1)]
        rows[:, places] = chosen.view(len(places), N_DRAWS).T
    return rows


def trust(weights: Tensor) -> Tensor:  # [n, k] -> [n]
    """The weight of an image in means over the pool, 1/2 to 1: a probable outlier tells less of the classes."""
    return (1 + weights.sum(-1)) / 2

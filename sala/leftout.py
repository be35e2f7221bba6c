"""What labelled images would be taken for, were they not labelled: each is left out in turn, some of each class at a time, and
the pool is sorted anew without them.

    left = left_out(...)                           # LeftOut: of labelled images of classes with two or more
    beta, weight = fit_probabilities(left, prior)  # how sure one may be, and what a linear classifier is worth

Images of the pool that came to a class by an image must not stay there when it is left out: else it would be told much
better than a new image is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sala.linear import linear_classifier
from sala.refining import in_larger_classes
from sala.sorting import Sorted

N_FOLDS = 5
MAX_LABELLED = 1_000  # by which one learns how sure one may be; of more, equally many of each class
POOL_SAMPLE = 500  # to 1,000 images of a pool, which are sorted anew
BETAS = tuple(0.08 * i for i in range(-30, 24))  # of the prior, as logarithms
WEIGHTS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of a linear classifier beside the prototypes
PENALTY = 1.0  # for each unit of it, in nats: a few left-out images may like it by chance


@dataclass(frozen=True)
class LeftOut:
    labels: Tensor  # [m]
    similarities: Tensor  # [m, k], to prototypes that come without them
    linear: Tensor  # [m, k], what a linear classifier says that was learned without them
    none: Tensor  # [m], the probability to be of no class

    def logits(self, weight: float) -> Tensor:  # -> [m, k]
        """Where the linear classifier counts so much."""
        return self.similarities + weight * self.linear


def left_out(
    support: Tensor, labels: Tensor, sorted_without: Callable[[Tensor], Sorted]
) -> LeftOut:  # [s, d], [s]; of rows [t] that are kept
    """Of images in classes with two or more; where many images are labelled, of some."""
    some, n_way = evenly(labels, MAX_LABELLED), len(labels.bincount())
    folds = torch.full_like(labels, -1)
    folds[some] = folds_of(support[some], labels[some])
    rows = (folds >= 0).nonzero()[:, 0]
    similarities, linear = (support.new_zeros(len(labels), n_way) for _ in range(2))
    none = support.new_zeros(len(labels))
    for fold in range(int(folds.max()) + 1):
        out, kept = (folds == fold).nonzero()[:, 0], some[folds[some] != fold]
        found, x = sorted_without(kept), support[out]
        none[out] = found.known.none_of(x)
        x = found.variation.taken_out_of(x)
        similarities[out] = found.similarities(x)
        linear[out] = x @ linear_classifier(found.refined.support, labels[kept]).T
    return LeftOut(labels[rows], similarities[rows], linear[rows], none[rows])


def folds_of(support: Tensor, labels: Tensor) -> Tensor:  # [s, d], [s] -> [s]
    """With which others an image is left out; -1 where it is the only one of its class. Images of a class are told apart by
    how similar they are to all labelled ones, so that their order does not matter."""
    similar, folds = support @ support.mean(0), torch.full_like(labels, -1)
    for c in set(labels[in_larger_classes(labels)].tolist()):
        rows = (labels == c).nonzero()[:, 0]
        folds[rows[similar[rows].argsort(stable=True)]] = torch.arange(len(rows)) % N_FOLDS
    return folds


def evenly(labels: Tensor, most: int) -> Tensor:  # [s] -> [t] rows
    """All, or of each class so many that there are no more than `most`, but two at least."""
    if len(labels) <= most:
        return torch.arange(len(labels))
    counts = labels.bincount()
    each = max(2, most // int((counts > 0).sum()))
    ranks = torch.empty_like(labels)
    order = labels.argsort(stable=True)
    ranks[order] = torch.arange(len(labels)) - (counts.cumsum(0) - counts)[labels[order]]
    return (ranks < each).nonzero()[:, 0]


def fit_probabilities(
    left: LeftOut, prior: float, strength: float, weight: float | None = None
) -> tuple[float, float]:  # -> inverse temperature, weight of the linear classifier
    """Those with the highest likelihood of left-out labels, the temperature drawn to a prior, the weight to 0.

    Minimises sum_s -log softmax(beta (similarities + weight linear))_y + strength / 2 (log beta - log prior)^2
    + PENALTY weight over a grid; with nothing left out it is the prior, and no linear classifier.
    """
    n_left, n_way = left.similarities.shape
    if not n_left or n_way < 2:
        return prior, weight or 0.0
    rows, found = torch.arange(n_left), []
    for w in WEIGHTS if weight is None else (weight,):
        logits = left.logits(w).double()
        for shift in BETAS:
            log_p = (prior * math.exp(shift) * logits).log_softmax(-1)[rows, left.labels]
            found.append((-float(log_p.sum()) + strength / 2 * shift**2 + PENALTY * w, shift, w))
    _, shift, weight = min(found)
    return prior * math.exp(shift), weight

"""What labelled images would be taken for, were they not labelled: each is left out in turn, some of each class at a time, and
the pool is sorted anew without them.

    left = left_out(...)                                     # LeftOut: of labelled images of classes with two or more
    beta, weight = fit_probabilities(left, prior, strength)  # how sure one may be, and what a linear classifier is worth

Nothing may stay that an image has brought about when it is left out, neither images of the pool that came to a class by it
nor the place around which features are compared: else it would be told much better than a new image is. Images that are
nearly copies of each other still vouch for each other.
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

N_FOLDS, N_FOLDS_OF_LARGE = 5, 3  # fewer where the pool is large: a correction on the page waits for them
MAX_LEFT_OUT, MAX_KEPT = 1_000, 5_000  # labelled images; of more, equally many of each class
SMALL_POOL, POOL_SAMPLE = 1_000, 250  # images: of a larger one 250 to 500 are sorted anew
COARSE, FINE = (
    tuple(step * i for i in range(*ends)) for step, ends in ((0.32, (-8, 7)), (0.08, (-3, 4)))
)  # log beta / prior
WEIGHTS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of a linear classifier beside the prototypes
PENALTY = (1.0, 0.5)  # in nats, for any weight and for each unit of it: a few left-out images may like it by chance


def sample_of(pool: Tensor) -> tuple[Tensor, int]:  # [n, d] -> [m, d]
    """What is sorted anew, a small pool or a regular sample, and how many times."""
    return (pool, N_FOLDS) if len(pool) < SMALL_POOL else (pool[:: len(pool) // POOL_SAMPLE], N_FOLDS_OF_LARGE)


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
    support: Tensor,
    labels: Tensor,
    sorted_without: Callable[[Tensor], tuple[Sorted, Callable[[Tensor], Tensor]]],
    n_folds: int = N_FOLDS,
) -> LeftOut:  # [s, d], [s]; sorted by rows [t] that are kept, with what makes points of others
    """Of images in classes with two or more; where many images are labelled, of some."""
    some, learned = (evenly(support, labels, most) for most in (MAX_LEFT_OUT, MAX_KEPT))
    folds = torch.full_like(labels, -1)
    folds[some] = folds_of(support[some], labels[some], n_folds)
    rows = (folds >= 0).nonzero()[:, 0]
    similarities, linear = (support.new_zeros(len(rows), len(labels.bincount())) for _ in range(2))
    none = support.new_zeros(len(rows))
    for fold in range(int(folds.max()) + 1):
        out, kept = folds[rows] == fold, learned[folds[learned] != fold]
        found, points_of = sorted_without(kept)
        x = points_of(rows[out])
        none[out] = found.known.none_of(x)
        x = found.variation.taken_out_of(x)
        similarities[out] = found.similarities(x)
        linear[out] = x @ linear_classifier(found.refined.support, labels[kept]).T
    return LeftOut(labels[rows], similarities, linear, none)


def folds_of(support: Tensor, labels: Tensor, n_folds: int = N_FOLDS) -> Tensor:  # [s, d], [s] -> [s]
    """With which others an image is left out; -1 where it is the only one of its class. Images of a class are told apart by
    how similar they are to all labelled ones, so that their order does not matter."""
    similar, folds = support @ support.mean(0), torch.full_like(labels, -1)
    for c in set(labels[in_larger_classes(labels)].tolist()):
        rows = (labels == c).nonzero()[:, 0]
        folds[rows[similar[rows].argsort(stable=True)]] = torch.arange(len(rows)) % n_folds
    return folds


def evenly(support: Tensor, labels: Tensor, most: int) -> Tensor:  # [s, d], [s] -> [t] rows
    """All, or of each class so many that there are no more than `most`, but two at least: of all sorts, by how similar they
    are to all labelled images."""
    if len(labels) <= most:
        return torch.arange(len(labels))
    similar, each = support @ support.mean(0), max(2, most // len(labels.bincount()))
    chosen = []
    for c in range(len(labels.bincount())):
        rows = (labels == c).nonzero()[:, 0]
        rows = rows[similar[rows].argsort(stable=True)]
        chosen.append(rows[torch.linspace(0, len(rows) - 1, min(each, len(rows))).round().long()])
    return torch.cat(chosen).sort().values


def fit_probabilities(
    left: LeftOut, prior: float, strength: float, weight: float | None = None
) -> tuple[float, float]:  # -> inverse temperature, weight of the linear classifier
    """Those with the highest likelihood of left-out labels, the temperature drawn to a prior, the weight to 0.

    Minimises sum_s c_s -log softmax(beta (similarities + weight linear))_y + strength / 2 (log beta - log prior)^2
    + the PENALTY of the weight over a grid, where c_s makes classes count alike. Classes with one image, of which none is
    left out, are those that a linear classifier tells worst, so it counts the less the more of them there are. With nothing
    left out it is the prior, and no linear classifier but one whose weight is given.
    """
    n_left, n_way = left.similarities.shape
    if not n_left or n_way < 2:
        return prior, weight or 0.0
    counts = left.labels.bincount(minlength=n_way)
    share = float((counts > 0).double().mean())
    counted = (n_left / (share * n_way * counts.double()))[left.labels]

    def loss(shift: float, w: float) -> float:
        log_p = (prior * math.exp(shift) * left.logits(w).double()).log_softmax(-1)
        nll = -float(counted @ log_p[torch.arange(n_left), left.labels])
        return nll + strength / 2 * shift**2 + (PENALTY[0] + PENALTY[1] * w if w else 0.0)

    weights = [share * w for w in WEIGHTS] if weight is None else [weight]
    _, coarse, best = min((loss(shift, w), shift, w) for w in weights for shift in COARSE)
    _, shift = min((loss(coarse + fine, best), coarse + fine) for fine in FINE)
    return prior * math.exp(shift), best

"""Cross-validation of the labeled images: what the classifier says of an image that it does not know.

    held_out = cross_validate(support, labels, classify_without)  # CrossValidated, of classes with two or more images

Nothing that a held-out image has brought about may stay, neither pool images that joined a class through it nor the center
of the features: else held-out images would be classified better than new ones. Near-duplicates still vouch for each other.
calibration.py fits the temperature to the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sala.classifier.linear import linear_classifier
from sala.classifier.pipeline import ClassifiedPool
from sala.classifier.prototypes import multi_shot_rows

N_FOLDS, N_FOLDS_LARGE_POOL = 5, 3  # fewer where the pool is large: a correction on the page waits for them
MAX_HELD_OUT, MAX_TRAINING = 1_000, 5_000  # labeled images; of more, equally many of each class
LARGE_POOL, POOL_SAMPLE = 1_000, 250  # of a large pool, 250 to 500 images are classified in each fold
# rows to train on -> the pool classified without the others, and what embeds further rows as that fit does
ClassifyWithout = Callable[[Tensor], tuple[ClassifiedPool, Callable[[Tensor], Tensor]]]


@dataclass(frozen=True)
class CrossValidated:
    """What the folds say of their held-out images."""

    labels: Tensor  # [m]
    similarities: Tensor  # [m, k], to prototypes fitted without them
    linear: Tensor  # [m, k], responses of a linear classifier fitted without them
    outlier_probability: Tensor  # [m]
    rows: Tensor  # [m], of the labeled images

    def logits(self, linear_weight: float) -> Tensor:  # -> [m, k]
        """Similarities plus the weighted linear classifier, before temperature scaling."""
        return self.similarities + linear_weight * self.linear


def pool_sample(pool: Tensor) -> tuple[Tensor, int]:  # [n, d] -> [m, d]
    """The images to classify in each fold, a small pool or a regular sample of a large one, and the number of folds."""
    if len(pool) < LARGE_POOL:
        return pool, N_FOLDS
    return pool[:: len(pool) // POOL_SAMPLE], N_FOLDS_LARGE_POOL


def cross_validate(
    support: Tensor, labels: Tensor, classify_without: ClassifyWithout, n_folds: int = N_FOLDS
) -> CrossValidated:  # [s, d], [s]
    """Predictions for the `multi_shot_rows`, each from a fit without its fold; of very many labeled images, for some."""
    some, training = (stratified_sample(support, labels, most) for most in (MAX_HELD_OUT, MAX_TRAINING))
    folds = torch.full_like(labels, -1)
    folds[some] = assign_folds(support[some], labels[some], n_folds)
    rows = (folds >= 0).nonzero()[:, 0]
    similarities, linear = (support.new_zeros(len(rows), len(labels.bincount())) for _ in range(2))
    outlier_probability = support.new_zeros(len(rows))
    for fold in range(int(folds.max()) + 1):
        out, kept = folds[rows] == fold, training[folds[training] != fold]
        found, embed = classify_without(kept)
        x = embed(rows[out])
        outlier_probability[out] = found.outlier_detector.outlier_probability(x)
        x = found.whitening.apply_(x)
        similarities[out] = found.similarities(x)
        linear[out] = x @ linear_classifier(found.refined.support, labels[kept]).T
    return CrossValidated(labels[rows], similarities, linear, outlier_probability, rows)


def assign_folds(support: Tensor, labels: Tensor, n_folds: int = N_FOLDS) -> Tensor:  # [s, d], [s] -> [s]
    """The fold of each image, stratified by class; -1 for the only image of its class.

    Within a class, images are ordered by their similarity to the mean of all, so the result does not depend on their order.
    """
    similarity, folds = support @ support.mean(0), torch.full_like(labels, -1)
    for c in set(labels[multi_shot_rows(labels)].tolist()):
        rows = (labels == c).nonzero()[:, 0]
        folds[rows[similarity[rows].argsort(stable=True)]] = torch.arange(len(rows)) % n_folds
    return folds


def stratified_sample(support: Tensor, labels: Tensor, most: int) -> Tensor:  # [s, d], [s] -> [t] rows
    """All rows, or equally many of each class (at least two), `most` in total, evenly by their similarity to the mean."""
    if len(labels) <= most:
        return torch.arange(len(labels))
    similarity, each = support @ support.mean(0), max(2, most // len(labels.bincount()))
    chosen = []
    for c in range(len(labels.bincount())):
        rows = (labels == c).nonzero()[:, 0]
        rows = rows[similarity[rows].argsort(stable=True)]
        chosen.append(rows[torch.linspace(0, len(rows) - 1, min(each, len(rows))).round().long()])
    return torch.cat(chosen).sort().values

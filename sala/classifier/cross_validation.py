"""Cross-validation of the labeled images: what the classifier says of an image that it does not know.

    held_out = cross_validate(support, labels, classify_without)  # CrossValidated, of classes with two or more images

Nothing that a held-out image has brought about may stay, neither pool images that joined a class through it nor the center
of the features: else held-out images would be classified better than new ones. Near-duplicates still vouch for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sala.classifier.pipeline import ClassifiedPool, outlier_evidence

N_FOLDS, N_FOLDS_LARGE_POOL = 5, 3  # fewer where the pool is large: a correction on the page waits for them
MAX_HELD_OUT, MAX_TRAINING = 1_000, 5_000  # labeled images; of more, equally many of each class
LARGE_POOL, POOL_SAMPLE = 1_000, 250  # of a large pool, 250 to 313 images are classified in each fold
# rows to train on -> the pool classified without the others, and what embeds further rows as that fit does
ClassifyWithout = Callable[[Tensor], tuple[ClassifiedPool, Callable[[Tensor], Tensor]]]


@dataclass(frozen=True)
class CrossValidated:
    """What the folds say of their held-out images."""

    labels: Tensor  # [m]
    logits: Tensor  # [m, k], of a mixture fitted without them
    outlier_evidence: Tensor  # [m, 2]
    rows: Tensor  # [m], of the labeled images


def sample_step(n: int) -> int:
    """Every how many images of a pool of n are classified in each fold: all of a small pool."""
    return 1 if n < LARGE_POOL else n // POOL_SAMPLE


def cross_validate(
    support: Tensor, labels: Tensor, classify_without: ClassifyWithout, n_folds: int = N_FOLDS
) -> CrossValidated:  # [s, d], [s]
    """Predictions for the images of classes with two or more, each by a fit without its fold; of very many, for some."""
    some, training = (stratified_sample(support, labels, most) for most in (MAX_HELD_OUT, MAX_TRAINING))
    folds = torch.full_like(labels, -1)
    folds[some] = assign_folds(support[some], labels[some], n_folds)
    rows = (folds >= 0).nonzero()[:, 0]
    logits, evidence = support.new_zeros(len(rows), len(labels.bincount())), support.new_zeros(len(rows), 2)
    for fold in range(int(folds.max()) + 1):
        out, kept = folds[rows] == fold, training[folds[training] != fold]
        found, embed = classify_without(kept)
        x = found.whitening.apply_(embed(rows[out]))
        logits[out] = found.mixture.logits(x)
        evidence[out] = outlier_evidence(found.mixture, found.neighborhood, x)
    return CrossValidated(labels[rows], logits, evidence, rows)


def assign_folds(support: Tensor, labels: Tensor, n_folds: int = N_FOLDS) -> Tensor:  # [s, d], [s] -> [s]
    """The fold of each image, stratified by class; -1 for the only image of its class."""
    folds = torch.full_like(labels, -1)
    for rows in ordered_rows(support, labels):
        folds[rows] = torch.arange(len(rows)) % n_folds if len(rows) > 1 else -1
    return folds


def stratified_sample(support: Tensor, labels: Tensor, most: int) -> Tensor:  # [s, d], [s] -> [t] rows
    """All rows, or equally many of each class (at least two), `most` in total, evenly in their order."""
    if len(labels) <= most:
        return torch.arange(len(labels))
    each = max(2, most // len(labels.bincount()))
    sample = [rows[torch.linspace(0, len(rows) - 1, min(each, len(rows))).round().long()]
              for rows in ordered_rows(support, labels)]  # fmt: skip
    return torch.cat(sample).sort().values


def ordered_rows(support: Tensor, labels: Tensor) -> Iterator[Tensor]:  # [s, d], [s] -> rows of each class
    """Rows by their similarity to the mean of all images, so that nothing depends on the order in which they came."""
    similarity = support @ support.mean(0)
    for c in range(len(labels.bincount())):
        rows = (labels == c).nonzero()[:, 0]
        yield rows[similarity[rows].argsort(stable=True)]

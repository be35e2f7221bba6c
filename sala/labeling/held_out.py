"""Held-out evidence without near-duplicates: an image is not checked by another picture of the same scene.

    apart = held_out_apart(held_out, labeled, labels, pool, groups)    # HeldOut, as `fit_pool` gives it

Labeled images that have a near-duplicate of the same label are classified once more, by fits without all of these. Where
nothing else of their class is left, there is no evidence for them. The others stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sala.classifier.fit import HeldOut, fit_pool
from sala.encoders.base import Features
from sala.labeling.predictions import Ints

N_FOLDS = 3  # at most: each is a fit


def held_out_apart(
    held_out: HeldOut,
    labeled: Features,
    labels: Ints,
    pool: Features,
    groups: Sequence[Sequence[int]],
    outliers: Features | None = None,
) -> HeldOut:
    """Cross-validated predictions in which no image is vouched for by a near-duplicate with the same label.

    Parameters
    ----------
    held_out : HeldOut
        Of the same labeled images, from `fit_pool`.
    labeled, labels, pool, outliers
        As `fit_pool` takes them; of a large pool, a sample is enough.
    groups : sequence of sequences of int
        Rows of the labeled images that are near-duplicates of each other.
    """
    folds = assign_folds(labels, groups)
    affected = folds[held_out.rows] >= 0
    if not affected.any():
        return held_out
    p, outlier_probability = held_out.probabilities.copy(), held_out.outlier_probability.copy()
    checked = ~affected
    for fold in range(folds.max() + 1):
        mine, kept = np.flatnonzero(folds[held_out.rows] == fold), folds != fold
        mine = mine[np.isin(held_out.labels[mine], labels[kept])]
        if not len(mine):
            continue
        kept |= ~np.isin(labels, labels[kept])  # a class without any other image is a class still
        model = fit_pool(labeled[kept], labels[kept], pool, outliers=outliers).model
        said = model.predict(labeled[held_out.rows[mine]])
        p[mine], outlier_probability[mine], checked[mine] = said.probabilities, said.outlier_probability, True
    return HeldOut(p[checked], held_out.labels[checked], outlier_probability[checked], held_out.rows[checked])


def assign_folds(labels: Ints, groups: Sequence[Sequence[int]]) -> Ints:
    """The fold of each image that has a near-duplicate with the same label, the same for both; -1 for the others. Groups of
    one class are in different folds as far as there are folds."""
    folds = np.full(len(labels), -1)
    n_groups = dict.fromkeys(labels.tolist(), 0)
    for group in groups:
        for c in set(labels[list(group)].tolist()):
            alike = [row for row in group if labels[row] == c]
            if len(alike) > 1:
                folds[alike] = n_groups[c] % N_FOLDS
                n_groups[c] += 1
    return folds

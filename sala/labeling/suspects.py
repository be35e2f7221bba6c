"""Suspect labels: labeled images of which cross-validation says something else than their label.

    found = find_suspects(held_out, rejected_from)    # [Suspect], the most suspicious first
    unchecked_classes(held_out, n_classes)            # classes with one image only: nothing can be held out of them

An image is suspect where, unlabeled, it would have got another class or have been rejected. The most suspicious one is that
whose label is the least probable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sala.classifier.fit import HeldOut
from sala.labeling.project import OUTLIER


@dataclass(frozen=True)
class Suspect:
    """A labeled image whose held-out prediction is not its label. Probabilities count outliers: an image's add up to 1."""

    row: int  # of the labeled images
    label: int  # the given class
    predicted: int  # another class, or OUTLIER
    label_probability: float
    predicted_probability: float


def find_suspects(held_out: HeldOut, rejected_from: float) -> list[Suspect]:
    """Labeled images that cross-validation disagrees with, the least probable label first.

    Parameters
    ----------
    held_out : HeldOut
        Cross-validated predictions of labeled images.
    rejected_from : float
        The outlier probability above which an image is rejected.

    Returns
    -------
    list of Suspect
    """
    if not len(held_out.labels):
        return []
    each, inlier = np.arange(len(held_out.labels)), 1 - held_out.outlier_probability
    own = held_out.probabilities[each, held_out.labels] * inlier
    best = held_out.probabilities.argmax(1)
    is_rejected = held_out.outlier_probability > rejected_from
    is_suspect = is_rejected | (best != held_out.labels)
    return [
        Suspect(
            row=int(held_out.rows[i]),
            label=int(held_out.labels[i]),
            predicted=OUTLIER if is_rejected[i] else int(best[i]),
            label_probability=float(own[i]),
            predicted_probability=float(
                held_out.outlier_probability[i] if is_rejected[i] else held_out.probabilities[i, best[i]] * inlier[i]
            ),
        )
        for i in np.argsort(own, kind="stable")
        if is_suspect[i]
    ]


def unchecked_classes(held_out: HeldOut, n_classes: int) -> list[int]:
    """Classes of which no image could be held out, since it is the only one."""
    return sorted(set(range(n_classes)) - set(held_out.labels.tolist()))

"""Why images became rejected or are so no longer: said on the page whenever a change moves more than a few.

A label may move many at once: the first known outlier and the twentieth labeled image allow rejections, an example changes the
scores of images like it, an answer moves the threshold. Nothing is held back, since `sala label` gives the same labels for the
same state; the reason is told instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sala.classifier.rejection import MIN_HELD_OUT
from sala.labeling.predictions import Ints, Predictions, RejectionBasis
from sala.labeling.project import OUTLIER, UNLABELED
from sala.text import counted

FEW = 3  # images that may move without a word
NEVER = 1 - 1e-6  # a threshold from which on nothing is rejected


@dataclass(frozen=True)
class Fit:
    """What was said of all images, and what its rejections rest on."""

    said: Predictions
    basis: RejectionBasis

    @property
    def threshold(self) -> float:
        return self.said.thresholds.outlier


def told_rejections(before: Fit, after: Fit, *, same_classes: bool = True) -> str:
    """A sentence on the images that were rejected or are so no longer, other than those that the user labeled; empty where
    they are few. `same_classes` says whether classes have the same numbers in both."""
    is_open = (before.said.given == UNLABELED) & (after.said.given == UNLABELED)
    was, now = before.said.is_rejected, after.said.is_rejected
    left, joined = np.flatnonzero(is_open & was & ~now), np.flatnonzero(is_open & now & ~was)
    if len(left) + len(joined) <= FEW:
        return ""
    if not len(left):
        what = f"{counted(len(joined), 'more image')} {_are(joined)} rejected as outliers"
    else:
        what = f"{counted(len(left), 'image')} {_are(left)} no longer rejected as outliers"
        what += f", {counted(len(joined), 'other')} {_are(joined)} now" if len(joined) else ""
    new = Counter(_new_labels(before.said, after.said)) if same_classes else Counter[int]()
    cause = _cause(new, after.said.names) if same_classes else "after your change of the classes"
    why = _allowed(before, after) or _threshold_moved(before, after, left, joined, cause)
    return f"{what}: {why or _scores_moved(after.said, left, joined, cause, new)}."


def _are(images: Ints) -> str:
    return "is" if len(images) == 1 else "are"


def _allowed(before: Fit, after: Fit) -> str:
    """Why something can be rejected at last, or nothing any more; empty where neither is so."""
    was, now, precision = before.basis, after.basis, f"{100 * after.said.thresholds.precision:.0f} % precision"
    if (before.threshold >= NEVER) == (after.threshold >= NEVER):
        return ""
    if after.threshold >= NEVER:
        if now.obstacle:
            return now.obstacle.removeprefix("No image is rejected: ").removesuffix(".")
        if now.own_threshold < NEVER:
            return "too many of the rejected images that you checked are of a class"
        return f"no image scores high enough for {precision} now"
    if now.obstacle:
        return f"{now.n_answers} of your answers vouch for it now"
    if not was.obstacle:
        return f"they score high enough for {precision} now"
    if now.n_known_outliers and not was.n_known_outliers:
        return "there is an example of an outlier now, and rejection waits for one"
    if now.n_held_out >= MIN_HELD_OUT > was.n_held_out:
        return (
            f"rejection waits for {MIN_HELD_OUT} labeled images with two or more of each class, and they are there now"
        )
    return "the pool has enough images for each class now"


def _threshold_moved(before: Fit, after: Fit, left: Ints, joined: Ints, cause: str) -> str:
    """What moved the threshold, if most images would not have moved at the old one; else empty."""
    old, new, outlier = before.threshold, after.threshold, after.said.outlier_probability
    n_stay = int((outlier[left] > old).sum() + (outlier[joined] <= old).sum())
    if 2 * n_stay <= len(left) + len(joined):
        return ""
    digits = 0 if f"{100 * old:.0f}" != f"{100 * new:.0f}" else 1
    went = f"the threshold {'rose' if new > old else 'fell'} from {100 * old:.{digits}f} to {100 * new:.{digits}f} %"
    by_classifier = after.basis.own_threshold - before.basis.own_threshold
    if abs(new - old - by_classifier) > abs(by_classifier):
        rarer = "are rarer than claimed" if new > old else "are not as rare as it seemed"
        return f"by your {counted(after.basis.n_answers, 'answer')} outliers {rarer} among such images, so {went}"
    return f"{cause} the scores are others, and for {100 * after.said.thresholds.precision:.0f} % precision {went}"


def _scores_moved(after: Predictions, left: Ints, joined: Ints, cause: str, new: Counter[int]) -> str:
    if len(left) and len(joined):
        told = f"{cause} {len(left)} are less probably outliers than before and {len(joined)} more"
    else:
        told = f"{cause} they are {'less' if len(left) else 'more'} probably outliers"
    n_alike = sum(int(c) in new for c in after.label[left])
    return f"{told}, and {n_alike} of them {'is' if n_alike == 1 else 'are'} now of that class" if n_alike else told


def _new_labels(before: Predictions, after: Predictions) -> list[int]:
    """Of the images whose label is another now; UNLABELED where it was taken back."""
    labels: list[int] = after.given[before.given != after.given].tolist()
    return labels


def _cause(new: Counter[int], names: Sequence[str]) -> str:
    given = [c for c in new if c != UNLABELED]
    if not given:
        return "without the labels that you took back" if new else "with your last change"
    if len(given) > 2:
        return f"with your {new.total()} labels"
    return f"with your label {' and '.join('outlier' if c == OUTLIER else names[c] for c in given)}"

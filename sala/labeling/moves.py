"""Why images became outliers or stopped being ones: said on the page whenever a label moves more than a few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from sala.labeling.predictions import Predictions
from sala.labeling.project import OUTLIER, UNLABELED
from sala.text import counted

FEW = 3  # images that may move without a word


def told_rejections(before: Predictions, after: Predictions) -> str:
    """A sentence on the images that were rejected or are so no longer, other than those that the user labeled; empty where
    they are few."""
    n = len(before.given)
    is_same = (before.given == UNLABELED) & (after.given[:n] == UNLABELED)
    left = np.flatnonzero(is_same & before.is_rejected & ~after.is_rejected)
    joined = np.flatnonzero(is_same & after.is_rejected & ~before.is_rejected)
    if len(left) + len(joined) <= FEW:
        return ""
    parts = []
    if len(left):
        parts.append(f"{counted(len(left), 'image')} left the outliers")
    if len(joined):
        parts.append(f"{counted(len(joined), 'image')} became {'outliers' if len(joined) > 1 else 'an outlier'}")
    return f"{' and '.join(parts)}: {_why(before, after, left.tolist(), joined.tolist())}."


def _why(before: Predictions, after: Predictions, left: Sequence[int], joined: Sequence[int]) -> str:
    """The largest cause: the threshold, if most would not have moved at the old one; else what the new labels are."""
    old, new = before.thresholds.outlier, after.thresholds.outlier
    stays = sum(after.outlier_probability[i] > old for i in left) + sum(
        after.outlier_probability[i] <= old for i in joined
    )
    if 2 * stays > len(left) + len(joined):
        why = (
            "your examples and answers vouch for fewer outliers now"
            if new > old
            else "more images score as outliers now"
        )
        return f"{why}, so the threshold went from {old:.0%} to {new:.0%}"
    said = Counter(int(c) for c in after.given[(after.given != UNLABELED) & (before.given != after.given)])
    if not said:
        return "you took labels back"
    names = [OUTLIER_TOLD if c == OUTLIER else after.names[c] for c, _ in said.most_common(2)]
    told = f"with your label {' and '.join(names)} they are {'less' if len(left) >= len(joined) else 'more'} probably outliers"
    n_alike = sum(int(after.label[i]) in said for i in left)
    return f"{told}, and {n_alike} of them are of that class" if n_alike else told


OUTLIER_TOLD = "outlier"

"""How much the labeled images of other classes speak against a label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sala.labeling.groups import Compact
from sala.labeling.predictions import Ints


def disagreement(compact: Compact, given: Ints, n_classes: int) -> NDArray[np.float64]:  # [n, d], [n] -> [n]
    """Return how much nearer each labeled image is to the mean of another class than to that of its own without itself.

    A share of its own distance: positive where another class is nearer. 0 for images without a class, for the only image of
    a class, and where there is no other class.
    """
    result = np.zeros(len(given))
    rows = np.flatnonzero(given >= 0)
    x, y = compact[rows], given[rows]
    counts = np.bincount(y, minlength=n_classes)
    if (counts > 0).sum() < 2:
        return result
    sums = np.zeros((n_classes, compact.shape[1]))
    np.add.at(sums, y, x)
    means = sums / np.maximum(counts, 1)[:, None]
    own = np.linalg.norm(x - (sums[y] - x) / np.maximum(counts[y] - 1, 1)[:, None], axis=1)
    others = ((x**2).sum(1)[:, None] - 2 * x @ means.T + (means**2).sum(1)).clip(0)  # squared distances [m, k]
    others[np.arange(len(rows)), y] = np.inf
    others[:, counts == 0] = np.inf
    nearest = np.sqrt(others.min(1))
    result[rows] = np.where(counts[y] > 1, (own - nearest) / np.maximum(own, 1e-12), 0.0)
    return result

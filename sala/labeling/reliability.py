"""How reliable probabilities are: by held-out labeled images, and in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from sala.classifier.fit import HeldOut


def reliability_bins(held_out: HeldOut, n_bins: int = 5) -> list[tuple[float, float, float, float, int]]:
    """Return (mean probability, share that is right, its 95 % Wilson interval, n) of bins of about equal size, 8 or more."""
    p = held_out.probabilities.max(1, initial=0)
    right = is_right(held_out)
    order = np.argsort(p, kind="stable")
    parts = np.array_split(order, max(1, min(n_bins, len(p) // 8))) if len(p) else []
    return [(float(p[i].mean()), float(right[i].mean()), *wilson_interval(right[i]), len(i)) for i in parts]


def is_right(held_out: HeldOut) -> NDArray[np.bool_]:
    if not len(held_out.labels):
        return np.zeros(0, bool)
    right: NDArray[np.bool_] = held_out.probabilities.argmax(1) == held_out.labels
    return right


def wilson_interval(right: NDArray[np.bool_]) -> tuple[float, float]:
    """The 95 % interval of a share."""
    interval = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def about(share: float) -> str:
    """A share in plain words, rounded down: `about 9 in 10`."""
    if share >= 0.95:
        return f"about {min(int(100 * share + 1e-9), 99)} in 100"
    return f"about {int(10 * share + 1e-9)} in 10" if share >= 0.1 else "fewer than 1 in 10"


def percent(share: float) -> str:
    """Return a share as text, rounded down: what is below a threshold is shown below it, and nothing is certain."""
    return f"{int(100 * share)}%" if share < 0.99 else "> 99%"

"""A random audit: how many predicted labels are right, from images that chance has drawn.

    order = draw_order(keys, seed)            # a random order of the pool, the same for ever
    answers = [Answer("confident", True), Answer("rejected", False), Answer("uncertain", None), ...]
    shares(answers)["all"]                    # Share: 18 of 20 right, so between 68 and 99 %

What the user looks at by choice, or because it was suggested, says little of the rest of the pool: those are the hard
images. Images that are drawn at random do, and by how much is exact: `clopper_pearson`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from sala.errors import SalaError
from sala.labeling.predictions import CONFIDENT, REJECTED

ALL = "all"
GROUPS = (ALL, CONFIDENT, REJECTED)
CONFIDENCE = 0.95  # of intervals
N_IMAGES = 20  # of an audit, if nothing else is asked


@dataclass(frozen=True)
class Answer:
    """One drawn image: the verdict that stood when the user was asked, and whether its label was right."""

    verdict: str
    is_right: bool | None  # None where the user could not tell


@dataclass(frozen=True)
class Share:
    """A share of right labels, known from n drawn images."""

    n: int
    n_right: int
    n_open: int  # images of which the user could not tell
    low: float
    high: float


def draw_order(keys: Sequence[str], seed: int) -> NDArray[np.int64]:
    """Indices of images in a random order that depends on the seed and on their keys alone.

    Images that are added or removed later leave the order of the others as it is, and nothing that is predicted, suggested
    or labeled can change it.
    """
    ranks = [hashlib.sha256(f"{seed}/{key}".encode("utf-8", "surrogatepass")).digest() for key in keys]
    return np.array(sorted(range(len(keys)), key=ranks.__getitem__), np.int64)


def shares(answers: Sequence[Answer], confidence: float = CONFIDENCE) -> dict[str, Share]:
    """The share of right labels among all drawn images, the confident ones, and the rejected ones (which are outliers if
    that is right)."""
    return {
        group: share([a.is_right for a in answers if group in (ALL, a.verdict)], confidence=confidence)
        for group in GROUPS
    }


def share(is_right: Sequence[bool | None], *, confidence: float = CONFIDENCE) -> Share:
    """An answer that is open counts as wrong for the lower bound and as right for the upper one."""
    n, n_right, n_open = len(is_right), sum(r is True for r in is_right), sum(r is None for r in is_right)
    low, _ = clopper_pearson(n_right, n, confidence=confidence)
    _, high = clopper_pearson(n_right + n_open, n, confidence=confidence)
    return Share(n, n_right, n_open, low, high)


def clopper_pearson(n_right: int, n: int, *, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact interval of a share of which n_right of n drawn ones are known (Clopper and Pearson, Biometrika 1934).

    It covers the true share at least as often as `confidence` says, whatever the share is. Images are drawn without
    replacement, which makes it wider than need be, never too narrow.
    """
    if not 0 <= n_right <= n:
        raise SalaError(f"of n images 0 to n are right: got {n_right} of {n}")
    alpha = 1 - confidence
    low = 0.0 if n_right == 0 else float(betaincinv(n_right, n - n_right + 1, alpha / 2))
    high = 1.0 if n_right == n else float(betaincinv(n_right + 1, n - n_right, 1 - alpha / 2))
    return low, high

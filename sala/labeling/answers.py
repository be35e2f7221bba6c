"""The user's answers: which predictions were confirmed, and how right those were that the user has judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Claim:
    """What was said of one image before the user labeled it, and whether it was so."""

    chance: float  # that what was predicted is right
    is_right: bool
    outlier_probability: float
    is_outlier: bool


@dataclass(frozen=True)
class UserAnswers:
    """What the user said of predictions."""

    is_confirmed: NDArray[np.bool_]  # [n]: the user's label is what was predicted
    claims: tuple[Claim, ...] = ()  # of images that had a prediction, the newest last

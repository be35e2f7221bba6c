"""What is said of each image: columns for all of them, and rows to write one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sala.aside import aside_threshold, just_below
from sala.engine import PoolLabels
from sala.points import Floats

SURE, DOUBTFUL, NONE_OF_THESE = "sure", "doubtful", "none-of-these"


@dataclass(frozen=True)
class Row:
    """One image. `probability` is among the known classes, `none_of_these` that it is of none of them."""

    path: Path
    label: str
    probability: float
    runner_up: str
    none_of_these: float
    used_for_refinement: bool
    verdict: str  # SURE, DOUBTFUL or NONE_OF_THESE

    @property
    def confidence(self) -> float:
        """That the label is right."""
        return self.probability * (1 - self.none_of_these)


@dataclass(frozen=True)
class Thresholds:
    """What parts images into none-of-these (scores above), sure (confidence not below) and doubtful (the others)."""

    precision: float
    none_of_these: float
    sure: float

    def to_json(self) -> dict[str, float]:
        return dict(vars(self))

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Thresholds:
        values = {key: float(content[key]) for key in ("precision", "none_of_these", "sure")}
        if not all(0 <= value <= 1 for value in values.values()):
            raise ValueError("thresholds are shares")
        return cls(**values)


@dataclass(frozen=True)
class Columns:
    """The rows of many images, by column."""

    label: NDArray[np.int64]
    probability: Floats
    runner_up: NDArray[np.int64]
    none_of_these: Floats
    used: NDArray[np.bool_]

    @property
    def confidence(self) -> Floats:
        confidence: Floats = self.probability * (1 - self.none_of_these)
        return confidence

    def where(self, rows: NDArray[np.bool_]) -> Columns:
        return Columns(*(column[rows] for column in vars(self).values()))

    def rows(self, paths: Sequence[Path], classes: Sequence[str], thresholds: Thresholds) -> Iterator[Row]:
        for i, path in enumerate(paths):
            none, p = float(self.none_of_these[i]), float(self.probability[i])
            label, runner_up = int(self.label[i]), int(self.runner_up[i])
            yield Row(
                path=path,
                label=classes[label],
                probability=p,
                runner_up=classes[runner_up] if runner_up != label else "",
                none_of_these=none,
                used_for_refinement=bool(self.used[i]),
                verdict=verdict(none, p * (1 - none), thresholds),
            )


def verdict(none_of_these: float, confidence: float, thresholds: Thresholds) -> str:
    if none_of_these > thresholds.none_of_these:
        return NONE_OF_THESE
    return SURE if confidence >= thresholds.sure else DOUBTFUL


def columns_of(pool: PoolLabels) -> Columns:
    best = pool.probabilities[np.arange(len(pool.label)), pool.label]
    return Columns(pool.label, best, pool.runner_up, pool.none_score, pool.used)


def find_thresholds(columns: Columns, precision: float, left_out: Floats | None = None) -> Thresholds:
    """Of the images set aside as junk the wanted share is expected to be junk; each sure label is right with that probability.
    Both are more probable than not. `left_out` are scores of labelled images, each left out in turn."""
    aside = aside_threshold(columns.none_of_these, precision, left_out)
    return Thresholds(precision, min(aside, just_below(1)), max(precision, 0.5))  # what is surely junk is set aside

"""What is said of each image: one table for all doors, and rows to write one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sala.classifier.fit import Fitted
from sala.classifier.normalize import Floats
from sala.data.files import open_inside
from sala.labeling.project import OUTLIER, UNLABELED

CONFIDENT, UNCERTAIN, REJECTED = "confident", "uncertain", "rejected"
GIVEN, UNKNOWN = "given", "unknown"  # the user's word; no class has an example yet
CONFIRMED, PREDICTED = "confirmed", "predicted"  # sources of a label, beside GIVEN and REJECTED
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Row:
    """One image. `probability` is among the classes, `outlier_probability` that it is of none of them."""

    path: Path
    label: str
    probability: float
    runner_up: str
    outlier_probability: float
    used_for_refinement: bool
    verdict: str  # CONFIDENT, UNCERTAIN, REJECTED, GIVEN or UNKNOWN
    source: str = PREDICTED  # GIVEN or CONFIRMED by the user, PREDICTED or REJECTED by the classifier
    index: int = field(default=-1, compare=False)  # of the image in the table
    place: Path | None = field(default=None, compare=False)  # what its file must be in, links followed
    runner_up_probability: float = field(default=0.0, compare=False)  # among the classes

    @property
    def confidence(self) -> float:
        """The probability that the label is right."""
        return self.probability * (1 - self.outlier_probability)

    @property
    def is_likely_outlier(self) -> bool:
        """Whether it is rejected, or predicted and more probably an outlier than of its class."""
        is_predicted = self.verdict in (CONFIDENT, UNCERTAIN)
        return self.verdict == REJECTED or (is_predicted and self.outlier_probability > self.confidence)

    def open(self) -> BinaryIO:
        """The image's file, unless a link leads out of its folder by now."""
        return open_inside(self.path, self.place)


@dataclass(frozen=True)
class Thresholds:
    """What parts images into rejected (outlier probability above), confident (confidence not below) and uncertain ones."""

    precision: float
    outlier: float
    confident: float

    def to_json(self) -> dict[str, float]:
        return dict(vars(self))

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Thresholds:
        values = {key: float(content[key]) for key in ("precision", "outlier", "confident")}
        if not all(0 <= value <= 1 for value in values.values()):
            raise ValueError("thresholds are shares")
        return cls(**values)


@dataclass(frozen=True)
class RejectionBasis:
    """What a rejection threshold rests on."""

    obstacle: str = ""  # why the classifier by itself rejects nothing; empty where it does
    n_known_outliers: int = 0
    n_held_out: int = 0  # labeled images that vouch for rejections; 0 where a class has a single one
    n_answers: int = 0  # labels of images that had a prediction
    own_threshold: float = 1.0  # the classifier's, before answers


def find_thresholds(fitted: Fitted, precision: float) -> Thresholds:
    """Of the rejected images the share `precision` is expected to be outliers, and confident labels have half of its errors:
    on images unlike those that the probabilities were calibrated on, they are right less often than they claim."""
    return Thresholds(precision, fitted.rejection_threshold(precision), (1 + precision) / 2)


@dataclass(frozen=True)
class Predictions:
    """What is said of every image `[n]` of a project, given labels included."""

    names: tuple[str, ...]  # of classes
    given: Ints  # a class, OUTLIER or UNLABELED
    label: Ints  # the most probable class; UNLABELED where no class has an example yet
    runner_up: Ints  # the second most probable one; UNLABELED where there is none
    probability: Floats  # of the label, among the classes
    second: Floats  # of the runner-up
    outlier_probability: Floats
    used: NDArray[np.bool_]  # took part in the refinement
    suggestions: Ints  # images whose label would help most, in order
    is_confirmed: NDArray[np.bool_]  # the given label is what was predicted before
    thresholds: Thresholds

    @property
    def is_predicted(self) -> NDArray[np.bool_]:
        is_predicted: NDArray[np.bool_] = (self.given == UNLABELED) & (self.label != UNLABELED)
        return is_predicted

    @property
    def is_rejected(self) -> NDArray[np.bool_]:
        is_above: NDArray[np.bool_] = self.outlier_probability.astype(np.float64) > self.thresholds.outlier
        return self.is_predicted & is_above

    @property
    def confidence(self) -> NDArray[np.float64]:
        """The probability that the label is right."""
        return self.probability.astype(np.float64) * (1 - self.outlier_probability.astype(np.float64))

    @property
    def is_uncertain(self) -> NDArray[np.bool_]:
        return self.is_predicted & ~self.is_rejected & (self.confidence < self.thresholds.confident)

    @property
    def is_likely_outlier(self) -> NDArray[np.bool_]:
        """Predicted images whose outlier probability is larger than the joint probability of their class."""
        return self.is_predicted & (self.is_rejected | (self.outlier_probability > self.confidence))

    def placed(self) -> Ints:
        """Where each image is put: a class, OUTLIER or UNLABELED."""
        predicted = np.where(self.is_rejected, OUTLIER, self.label)
        return np.where(self.given == UNLABELED, predicted, self.given)

    def most_probable(self) -> Ints:
        """What each image most probably is: OUTLIER also where its class keeps it, but it is more probably an outlier."""
        return np.where(self.is_likely_outlier, OUTLIER, self.placed())

    def verdicts(self) -> NDArray[np.str_]:
        kinds = [self.placed() == OUTLIER, self.given != UNLABELED, self.label == UNLABELED, self.is_uncertain]
        return np.select(kinds, [REJECTED, GIVEN, UNKNOWN, UNCERTAIN], CONFIDENT)

    def sources(self) -> NDArray[np.str_]:
        """Who says so: the user, who gave the label or confirmed it, or the classifier."""
        kinds = [self.is_confirmed, self.given != UNLABELED, self.is_rejected]
        return np.select(kinds, [CONFIRMED, GIVEN, REJECTED], PREDICTED)

    @property
    def outlier_chance(self) -> NDArray[np.float64]:
        """The claimed probability that each image is an outlier, as one of those that it is placed with: rejected images are
        chosen so that the share `precision` of them are, whatever each single probability is."""
        alone = self.outlier_probability.astype(np.float64)
        return np.where(self.is_rejected, np.maximum(alone, self.thresholds.precision), alone)

    @property
    def chance(self) -> NDArray[np.float64]:
        """The claimed probability that each image is put where it belongs. A given label is right."""
        chance = np.where(self.is_rejected, self.outlier_chance, self.confidence)
        return np.where(self.given == UNLABELED, chance, 1.0)

    def expected_accuracy(self, among: NDArray[np.bool_]) -> float:
        """The expected share of images that are put where they belong, as the probabilities claim."""
        return float(self.chance[among].mean()) if among.any() else 1.0

    def rows(
        self,
        path_of: Callable[[int], Path],
        indices: Iterable[int],
        place_of: Callable[[int], Path | None] = lambda _: None,
    ) -> Iterator[Row]:
        """One row for each of the images: `path_of` names its file, `place_of` what that must be in."""
        verdicts, sources = self.verdicts(), self.sources()
        for i in indices:
            yield Row(
                path=path_of(i),
                label=self._name(self.label[i]),
                probability=float(self.probability[i]),
                runner_up=self._name(self.runner_up[i]),
                outlier_probability=float(self.outlier_probability[i]),
                used_for_refinement=bool(self.used[i]),
                verdict=str(verdicts[i]),
                source=str(sources[i]),
                index=i,
                place=place_of(i),
                runner_up_probability=float(self.second[i]),
            )

    def _name(self, label: int) -> str:
        return self.names[label] if label >= 0 else ""

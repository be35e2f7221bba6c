"""What is said of every image at one version of a session's state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sala.labeling.answers import UserAnswers
from sala.labeling.embedding import ProjectFeatures
from sala.labeling.label import LabelingResult, classify, no_predictions
from sala.labeling.predictions import Predictions
from sala.labeling.project import OUTLIER, UNLABELED
from sala.web.replay import State


@dataclass(frozen=True)
class Version:
    """What is counted at one version of the state."""

    version: int
    n_undo: int  # changes that can be undone
    n_redo: int  # and made again
    numbering: int  # the version from which on the classes have these numbers


@dataclass(frozen=True)
class Seen:
    """What the user saw of an image before labeling it."""

    said: int  # a class or OUTLIER
    chance: float  # that this is right
    outlier_probability: float


@dataclass(frozen=True)
class Snapshot(Version, Predictions):
    """What is said of every image."""

    result: LabelingResult | None  # None where no class has an example yet
    estimated_accuracy: float  # of the pool as it stands
    n_checked: int
    n_agreed: int
    fit_seconds: float

    def seen(self, items: Sequence[int], *, as_placed: bool = False) -> list[Seen | None]:
        """What is predicted of each image, as the page shows it or as downloads have it; None where nothing is."""
        said = self.placed() if as_placed else self.most_probable()
        chance = np.where(said == OUTLIER, self.outlier_chance, self.confidence)
        outlier = self.outlier_probability
        return [
            Seen(int(said[i]), float(chance[i]), float(outlier[i])) if said[i] != UNLABELED else None for i in items
        ]


def fit_snapshot(
    images: ProjectFeatures, state: State, version: Version, precision: float, answers: UserAnswers
) -> Snapshot:
    """A new fit to the labels of a state."""
    begun = time.perf_counter()
    result, names, given = None, tuple(state.names), state.given
    if (given >= 0).any():
        result = classify(images, names, given, precision=precision, answers=answers)
        predictions = result.predictions
    else:
        predictions = no_predictions(images.project, names, given, precision)
    expected = predictions.expected_accuracy(images.project.is_pool)
    return Snapshot(
        **vars(predictions),
        **vars(version),
        result=result,
        estimated_accuracy=expected,
        n_checked=state.n_checked,
        n_agreed=state.n_agreed,
        fit_seconds=time.perf_counter() - begun,
    )

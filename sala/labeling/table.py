"""The table of predictions, filled from what a model says: of the images of a project, or of new files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sala.classifier.fit import LabelModel, PoolPredictions
from sala.encoders.base import Features
from sala.labeling.predictions import Ints, Predictions, Row, Thresholds
from sala.labeling.project import UNLABELED


def rows_of(
    said: PoolPredictions, paths: Sequence[Path], classes: tuple[str, ...], thresholds: Thresholds
) -> Iterator[Row]:
    """Rows of images that are in no project: what a model says of new files."""
    each = np.arange(len(paths))
    table = Table(len(paths))
    table.fill(each, np.arange(len(classes)), said)
    predictions = table.predictions(each, classes, np.full(len(paths), UNLABELED), thresholds)
    return predictions.rows(paths.__getitem__, range(len(paths)))


class Table:
    """The columns of `Predictions`, filled where something is said."""

    def __init__(self, n: int):
        self.label, self.runner_up = np.full(n, UNLABELED), np.full(n, UNLABELED)
        self.probability, self.second, self.outlier_probability = (np.zeros(n, np.float32) for _ in range(3))
        self.used = np.zeros(n, bool)
        self.suggestions = np.zeros(0, np.int64)

    def fill(self, rows: Ints, active: Ints, said: PoolPredictions) -> None:
        """What a model says of unlabeled images; its classes are those of the numbers `active`."""
        each = np.arange(len(rows))
        has_other = said.runner_up != said.label
        self.label[rows] = active[said.label]
        self.runner_up[rows] = np.where(has_other, active[said.runner_up], UNLABELED)
        self.probability[rows] = said.probabilities[each, said.label]
        self.second[rows] = said.probabilities[each, said.runner_up] * has_other
        self.outlier_probability[rows], self.used[rows] = said.outlier_probability, said.used
        self.suggestions = rows[said.suggestions]

    def fill_given(self, rows: Ints, active: Ints, given: Ints, model: LabelModel, features: Features) -> None:
        """A labeled image is of its class, and a known outlier of none; what else it may be, the model says."""
        p = model.predict(features[rows]).probabilities
        is_labeled = given[rows] >= 0
        best = np.where(is_labeled, np.searchsorted(active, np.maximum(given[rows], active[0])), p.argmax(1))
        others = np.where(np.arange(len(active)) == best[:, None], -1.0, p)
        self.label[rows] = active[best]
        self.runner_up[rows] = active[others.argmax(1)] if len(active) > 1 else UNLABELED
        self.probability[rows] = np.where(is_labeled, 1.0, p[np.arange(len(rows)), best])
        self.outlier_probability[rows], self.used[rows] = ~is_labeled, is_labeled

    def predictions(
        self,
        first: Ints,
        names: tuple[str, ...],
        given: Ints,
        thresholds: Thresholds,
        is_confirmed: NDArray[np.bool_] | None = None,
    ) -> Predictions:
        """Copies have what is said of the first of their content."""
        columns = {name: column[first] for name, column in vars(self).items() if name != "suggestions"}
        confirmed = np.zeros(len(given), bool) if is_confirmed is None else is_confirmed
        return Predictions(
            names, given, **columns, suggestions=self.suggestions, is_confirmed=confirmed, thresholds=thresholds
        )

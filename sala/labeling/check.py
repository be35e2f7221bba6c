"""What to check before relying on labels: suspect labels, near-duplicates, tiny and blurred images.

    found = check(result)      # Check: suspects, the most suspicious first; classes that cannot be checked; groups of images
    check_lines(found, result) # rows of check.csv

Images are numbers in the project. It takes some seconds for a large pool, so it is made where it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from sala.classifier.fit import HeldOut
from sala.labeling.cells import path_cell, text_cell
from sala.labeling.folders import OUTLIER_NAME
from sala.labeling.held_out import held_out_apart
from sala.labeling.predictions import Ints
from sala.labeling.project import OUTLIER, UNLABELED
from sala.labeling.result import LabelingResult
from sala.labeling.suspects import Suspect, find_suspects, unchecked_classes

POOL_SAMPLE = 500  # unlabeled images beside which examples are classified once more
HEADER = ("path", "finding", "label", "predicted", "label_probability", "predicted_probability", "group")


@dataclass(frozen=True)
class Check:
    """What was found. Classes are those of the model; `Suspect.row` is the number of an image."""

    suspects: list[Suspect]  # the most suspicious first
    unchecked: list[int]  # classes of which nothing can be held out
    near_duplicates: list[list[int]]
    held_out: HeldOut  # without evidence by near-duplicates
    hints: dict[int, str] = field(default_factory=dict)  # by image, of those that were looked at


def check(result: LabelingResult) -> Check:
    """Suspect labels and near-duplicates among all images, each content once.

    Parameters
    ----------
    result : LabelingResult
        From `label_folder` or `classify`.

    Returns
    -------
    Check
    """
    images, labeled = result.images, result.labeled
    first, groups = np.unique(images.project.first), images.near_duplicates
    given, row_of = result.predictions.given, {image: row for row, image in enumerate(labeled.tolist())}
    held_out = held_out_apart(
        result.held_out,
        images.features[labeled],
        np.array(result.examples.labels, np.int64),
        images.features[_pool_sample(first, given)],
        [[row_of[image] for image in group if image in row_of] for group in groups],
        images.features[first[given[first] == OUTLIER]],
    )
    suspects = find_suspects(held_out, result.thresholds.outlier)
    return Check(
        [replace(suspect, row=int(labeled[suspect.row])) for suspect in suspects],
        unchecked_classes(held_out, len(result.model.classes)),
        groups,
        held_out,
    )


def _pool_sample(first: Ints, given: Ints) -> Ints:
    rows: Ints = first[given[first] == UNLABELED]
    return rows[:: max(1, len(rows) // POOL_SAMPLE)]


def check_lines(found: Check, result: LabelingResult) -> Iterator[tuple[str, ...]]:
    """A header, then a row for each finding."""
    yield HEADER
    path = result.project.path

    def finding(image: int, what: str, group: str = "") -> tuple[str, ...]:
        return path_cell(path(image)), what, text_cell(given_name(image, result)), "", "", "", group

    for s in found.suspects:
        names = (text_cell(result.model.classes[s.label]), text_cell(predicted_name(s, result)))
        shares = (f"{s.label_probability:.4f}", f"{s.predicted_probability:.4f}")
        yield path_cell(path(s.row)), "suspect label", *names, *shares, ""
    for number, group in enumerate(found.near_duplicates, 1):
        yield from (finding(image, "near-duplicate", str(number)) for image in group)
    yield from (finding(image, hint) for image, hint in sorted(found.hints.items()))


def predicted_name(suspect: Suspect, result: LabelingResult) -> str:
    return OUTLIER_NAME if suspect.predicted == OUTLIER else result.model.classes[suspect.predicted]


def given_name(image: int, result: LabelingResult) -> str:
    """The label that the user gave; empty where there is none."""
    given = int(result.predictions.given[image])
    return OUTLIER_NAME if given == OUTLIER else "" if given == UNLABELED else result.predictions.names[given]

"""What is said when many images become rejected, or are so no longer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sala.classifier.rejection import obstacle
from sala.labeling.moves import FEW, Fit, told_rejections
from sala.labeling.predictions import Predictions, RejectionBasis, Thresholds
from sala.labeling.project import OUTLIER, UNLABELED

N = 20
WAITS = obstacle(N, 2, 0, 0)  # an example of an outlier, or 20 labeled images


def fit(outlier: np.ndarray, threshold: float = 0.6, basis: RejectionBasis | None = None) -> Fit:
    zeros, none = np.zeros(N), np.full(N, UNLABELED)
    said = Predictions(
        ("cat", "dog"), none, np.ones(N, np.int64), none, zeros + 1, zeros, outlier.astype(np.float32),
        np.zeros(N, bool), np.zeros(0, np.int64), np.zeros(N, bool), Thresholds(0.9, threshold, 0.9),
    )  # fmt: skip
    return Fit(said, basis or RejectionBasis(own_threshold=threshold))


HIGH, LOW = np.full(N, 0.8), np.full(N, 0.1)


def given(shown: Fit, image: int, label: int) -> Fit:
    labels = shown.said.given.copy()
    labels[image] = label
    return replace(shown, said=replace(shown.said, given=labels))


def test_few_images_move_without_a_word() -> None:
    some = np.where(np.arange(N) < FEW, 0.1, 0.8)
    one_more = np.where(np.arange(N) <= FEW, 0.1, 0.8)
    assert told_rejections(fit(HIGH), fit(HIGH)) == ""
    assert told_rejections(fit(HIGH), fit(some)) == ""
    assert told_rejections(fit(HIGH), fit(one_more)).startswith(f"{FEW + 1} images are no longer rejected")


def test_images_that_resemble_a_new_label_are_told_with_it() -> None:
    told = told_rejections(fit(HIGH), given(fit(LOW), 0, 1))
    assert told.startswith("19 images are no longer rejected as outliers: ")
    assert "your label dog" in told and "less probably" in told and "19 of them are now of that class" in told
    told = told_rejections(fit(LOW), given(fit(HIGH), 0, OUTLIER))
    assert told.startswith("19 more images are rejected as outliers: ") and "more probably" in told
    told = told_rejections(fit(HIGH), given(fit(LOW), 0, 0))  # they are dogs, and the label is a cat
    assert "your label cat" in told and "of that class" not in told


def test_images_that_come_and_go_are_counted_apart() -> None:
    before, after = np.where(np.arange(N) < 5, 0.8, 0.1), np.where(np.arange(N) >= 14, 0.8, 0.1)
    told = told_rejections(fit(before), given(fit(after), 10, 0))
    assert told.startswith("5 images are no longer rejected as outliers, 6 others are now: with your label cat")


def test_a_corrected_example_is_told_with_its_new_label() -> None:
    assert "your label dog" in told_rejections(given(fit(HIGH), 0, 0), given(fit(LOW), 0, 1))


def test_a_threshold_that_the_classifier_moved_is_told_as_such() -> None:
    told = told_rejections(fit(HIGH, 0.6), given(fit(HIGH, 0.85), 0, 1))
    assert "your label dog" in told and "for 90 % precision" in told and "rose from 60 to 85 %" in told


def test_a_threshold_that_answers_moved_is_told_with_their_number() -> None:
    own = RejectionBasis(n_answers=12, own_threshold=0.6)
    told = told_rejections(fit(HIGH, 0.6, own), given(fit(HIGH, 0.85, replace(own, n_answers=13)), 0, 1))
    assert "by your 13 answers" in told and "rarer" in told and "rose from 60 to 85 %" in told
    told = told_rejections(fit(HIGH, 0.85, own), given(fit(HIGH, 0.6, replace(own, n_answers=13)), 0, OUTLIER))
    assert "by your 13 answers" in told and "fell from 85 to 60 %" in told


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (RejectionBasis(n_known_outliers=1, own_threshold=0.6), "example of an outlier"),
        (RejectionBasis(n_held_out=20, own_threshold=0.6), "20 labeled images with two or more of each class"),
        (RejectionBasis(WAITS, n_answers=30), "30 of your answers"),
    ],
)
def test_the_first_rejections_are_told_with_what_they_waited_for(now: RejectionBasis, why: str) -> None:
    nothing = fit(HIGH, 1.0, RejectionBasis(WAITS, n_held_out=19, n_answers=29))
    told = told_rejections(nothing, given(fit(HIGH, 0.6, now), 0, OUTLIER))
    assert told.startswith("19 more images are rejected") and why in told


def test_the_end_of_rejections_is_told_with_what_is_missing() -> None:
    one = given(fit(HIGH, 0.6, RejectionBasis(n_known_outliers=1, own_threshold=0.6)), 0, OUTLIER)
    told = told_rejections(one, fit(HIGH, 1.0, RejectionBasis(WAITS)))
    assert told.startswith("19 images are no longer rejected") and "that takes an example of an outlier" in told


def test_labels_that_were_taken_back_are_told() -> None:
    assert "took back" in told_rejections(given(fit(HIGH), 0, 1), fit(LOW))


def test_a_change_of_classes_is_told_as_such() -> None:
    told = told_rejections(fit(HIGH), given(fit(LOW), 0, 1), same_classes=False)
    assert "change of the classes" in told and "dog" not in told

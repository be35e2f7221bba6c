"""What is said when many images become outliers, or stop being ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sala.labeling.moves import told_rejections
from sala.labeling.predictions import Predictions, Thresholds
from sala.labeling.project import OUTLIER, UNLABELED

N = 20


def predictions(outlier: np.ndarray, threshold: float = 0.6) -> Predictions:
    zeros, none = np.zeros(N), np.full(N, UNLABELED)
    return Predictions(
        ("cat", "dog"), none, np.ones(N, np.int64), none, zeros + 1, zeros, outlier.astype(np.float32),
        np.zeros(N, bool), np.zeros(0, np.int64), np.zeros(N, bool), Thresholds(0.9, threshold, 0.9),
    )  # fmt: skip


HIGH, LOW = np.full(N, 0.8), np.full(N, 0.1)


def given(shown: Predictions, image: int, label: int) -> Predictions:
    labels = shown.given.copy()
    labels[image] = label
    return replace(shown, given=labels)


def test_few_images_move_without_a_word() -> None:
    some = np.where(np.arange(N) < 3, 0.1, 0.8)
    assert told_rejections(predictions(HIGH), predictions(HIGH)) == ""
    assert told_rejections(predictions(HIGH), predictions(some)) == ""


def test_images_that_resemble_a_new_label_are_told_with_it() -> None:
    told = told_rejections(predictions(HIGH), given(predictions(LOW), 0, 1))
    assert (
        told.startswith("19 images left the outliers: ")
        and "your label dog" in told
        and "19 of them are of that class" in told
    )
    told = told_rejections(predictions(LOW), given(predictions(HIGH), 0, OUTLIER))
    assert told.startswith("19 images became outliers: ") and "more probably" in told
    told = told_rejections(predictions(HIGH), given(predictions(LOW), 0, 0))  # they are dogs, and the label is a cat
    assert "your label cat" in told and "of that class" not in told


def test_a_threshold_that_moved_is_told_as_such() -> None:
    told = told_rejections(predictions(HIGH, 0.6), given(predictions(HIGH, 0.85), 0, 1))
    assert "left the outliers" in told and "from 60% to 85%" in told


def test_labels_that_were_taken_back_are_told() -> None:
    assert "took labels back" in told_rejections(given(predictions(HIGH), 0, 1), predictions(LOW))

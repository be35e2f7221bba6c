"""What is claimed of each image: three images that are rejected, uncertain and given, solved by eye."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sala.labeling.predictions import Predictions, Thresholds
from sala.labeling.project import UNLABELED


@pytest.fixture
def said() -> Predictions:
    """Above an outlier probability of 0.4 images are rejected, so that 90 % of them are outliers."""
    return Predictions(
        names=("cat", "dog"),
        given=np.array([UNLABELED, UNLABELED, UNLABELED, 1]),
        label=np.array([0, 0, 1, 1]),
        runner_up=np.array([1, 1, 0, 0]),
        probability=np.array([0.5, 0.5, 0.8, 0.6], np.float32),
        second=np.array([0.5, 0.5, 0.2, 0.4], np.float32),
        outlier_probability=np.array([0.45, 0.95, 0.25, 0.1], np.float32),
        used=np.zeros(4, bool),
        suggestions=np.array([2]),
        is_confirmed=np.zeros(4, bool),
        thresholds=Thresholds(precision=0.9, outlier=0.4, confident=0.9),
    )


def test_a_rejected_image_is_right_as_often_as_rejected_images_are_or_more(said: Predictions) -> None:
    assert said.chance.tolist() == pytest.approx([0.9, 0.95, 0.6, 1.0])


def test_the_outlier_probability_of_an_image_that_is_not_rejected_is_taken_at_its_word(said: Predictions) -> None:
    assert said.outlier_chance.tolist() == pytest.approx([0.9, 0.95, 0.25, 0.1])


def test_rows_and_table_agree_on_what_is_more_probably_an_outlier(said: Predictions) -> None:
    rows = said.rows(lambda i: Path(str(i)), range(4))
    assert [row.is_likely_outlier for row in rows] == said.is_likely_outlier.tolist() == [True, True, False, False]

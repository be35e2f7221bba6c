"""What the report of `sala label` says, of six images whose numbers one sees."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from painted import MeanColour, painted_folders

from sala.engine import HeldOut
from sala.labelling import label_folders
from sala.labelling.fit import Labelling
from sala.labelling.report import percent, reliability_bins, report, wilson
from sala.labelling.rows import Columns, Thresholds

BLUE, GREEN, RED = range(3)
IMAGES = {  # label, runner-up, probability among the classes, none of these
    "sure.png": (BLUE, GREEN, 0.995, 0.0),
    "nearly.png": (BLUE, GREEN, 0.899, 0.0),
    "doubtful.png": (BLUE, RED, 0.75, 0.25),
    "strange.png": (GREEN, BLUE, 0.95, 0.6),
    "junk.png": (RED, BLUE, 0.5, 0.75),
    "rubbish.png": (RED, BLUE, 0.5, 0.9375),
}
HELD_OUT = HeldOut(np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]), np.array([0, 0, 1, 1]), np.zeros(4))


@pytest.fixture(scope="module")
def labelling(tmp_path_factory: pytest.TempPathFactory) -> Labelling:
    """Above a score of 0.7 an image is junk, from a confidence of 0.9 on a label is sure."""
    folder = tmp_path_factory.mktemp("photos")
    label, runner_up, probability, none = map(np.array, zip(*IMAGES.values(), strict=True))
    return replace(
        label_folders(*painted_folders(folder), MeanColour()),  # type: ignore[arg-type]
        paths=[folder / name for name in IMAGES],
        columns=Columns(label, probability, runner_up, none, np.zeros(6, bool)),
        thresholds=Thresholds(precision=0.9, none_of_these=0.7, sure=0.9),
        label_next=np.array([3, 1]),
        held_out=HELD_OUT,
    )


@pytest.fixture(scope="module")
def page(labelling: Labelling) -> str:
    return report(labelling)


def photos(page: str, heading: str) -> list[tuple[str, list[str]]]:
    """The pictures below a heading: the name of each, and its lines."""
    (part,) = (part for part in page.split("<h2")[1:] if f">{heading}</h2>" in part)
    found = re.findall(r'<img[^>]*>([^<]*(?:<br>[^<]*)*)<span class="name">([^<]*)</span>', part)
    return [(name, lines.replace("&gt;", ">").split("<br>")) for lines, name in found]


def test_the_images_of_a_class_are_shown_the_least_sure_first_and_what_else_they_may_be(page: str) -> None:
    assert photos(page, "blue") == [
        ("doubtful.png", ["56%", "or red", "none of these 25%"]),
        ("nearly.png", ["89%", "or green"]),
        ("sure.png", ["> 99%"]),
    ]
    assert photos(page, "green") == [("strange.png", ["38%", "none of these 60%"])]  # of the classes it is green
    assert photos(page, "red") == [] and "No image of the pool seems to be of this class." in page


def test_what_to_label_next_is_in_its_order_with_its_label(page: str) -> None:
    assert photos(page, "What to label next") == [
        ("strange.png", ["green 38%", "none of these 60%"]),
        ("nearly.png", ["blue 89%", "or green"]),
    ]


def test_junk_is_shown_the_least_sure_first(page: str) -> None:
    assert photos(page, "None of these") == [("junk.png", ["75%", "else red"]), ("rubbish.png", ["93%", "else red"])]
    assert "2 images seemingly of no class; about 90% should be so" in page


def test_where_nothing_is_junk_the_likeliest_is_shown_first(labelling: Labelling) -> None:
    page = report(replace(labelling, thresholds=Thresholds(0.9, 0.95, 0.9)))
    assert "No image is of none of the classes so surely that it was set aside." in page
    assert [name for name, _ in photos(page, "None of these")][:3] == ["rubbish.png", "junk.png", "strange.png"]


def test_the_table_counts_what_is_labelled_sure_doubtful_and_junk(page: str) -> None:
    """The mean confidence of blue is that of 0.995, 0.899 and 0.5625."""
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
    assert rows[1:5] == [
        ["blue", "3", "1", "2", "82%"],
        ["green", "1", "0", "1", "38%"],
        ["red", "2", "0", "0", "-"],
        ["none of these", "", "2", "", ""],
    ]
    assert "The pool has 6 images: 1 with a label to rely on, 3 doubtful, 2 seemingly of none of these classes." in page


def test_how_many_left_out_images_came_out_right_is_said(page: str) -> None:
    assert "3 of 4 came out right" in page


def test_no_share_is_shown_as_more_than_it_is() -> None:
    assert [percent(share) for share in (0.0, 0.899, 0.9899, 0.99, 1.0)] == ["0%", "89%", "98%", "> 99%", "> 99%"]


def test_the_reliability_of_left_out_images_is_by_groups_of_equal_size() -> None:
    p = np.linspace(0.5, 1, 16, dtype=np.float32)
    held_out = HeldOut(np.stack([p, 1 - p], 1), np.array([1] * 4 + [0] * 12), np.zeros(16, np.float32))
    low, high = reliability_bins(held_out)
    assert low[1] == 0.5 and high[1] == 1.0 and low[4] == high[4] == 8
    assert low[2] < 0.5 < low[3] and high[2] < 1.0 == high[3]
    assert reliability_bins(HeldOut(np.zeros((0, 2), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32))) == []
    np.testing.assert_allclose(wilson(5, 10), (0.2366, 0.7634), atol=1e-4)

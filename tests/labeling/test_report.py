"""The report of a labeled pool: six images whose numbers one sees."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sala.classifier.fit import HeldOut
from sala.labeling.predictions import Row, Thresholds
from sala.labeling.report import percent, reliability_bins, report
from tests.helpers.painted import RED, paint, verdict

CLASSES = ("blue", "green", "red")
IMAGES = {  # label, runner-up, probability among the classes, outlier probability
    "confident.png": ("blue", "green", 0.995, 0.0),
    "nearly.png": ("blue", "green", 0.899, 0.0),
    "uncertain.png": ("blue", "red", 0.75, 0.25),
    "strange.png": ("green", "blue", 0.95, 0.6),
    "outlier.png": ("red", "blue", 0.5, 0.75),
    "rubbish.png": ("red", "blue", 0.5, 0.9375),
}
HELD_OUT = HeldOut(
    np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]), np.array([0, 0, 1, 1]), np.zeros(4), np.arange(4)
)
NOTHING = HeldOut(np.zeros((0, 2), np.float32), np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros(0, np.int64))
HOSTILE = "<img src=x onerror=alert(1)>"


def labeled(folder: Path, thresholds: Thresholds, **changes: Any) -> Any:
    """What the report needs of a labeled pool."""
    rows = [
        Row(paint(folder / name, RED), label, p, second, outlier, False, verdict(outlier, p, thresholds))
        for name, (label, second, p, outlier) in IMAGES.items()
    ]
    note = {"labeled": {"blue": 3, "green": 1, "red": 2}, "encoder": {"name": "mean-color"}}
    content = {
        "rows": lambda: iter(rows),
        "model": SimpleNamespace(classes=CLASSES, note=note, inverse_temperature=20.0),
        "thresholds": thresholds,
        "suggestions": np.array([3, 1]),
        "held_out": HELD_OUT,
        "skipped": {},
        "n_outliers": 0,
    }
    return SimpleNamespace(**{**content, **changes})


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Above an outlier probability of 0.7 an image is rejected; from a confidence of 0.9 on a label is confident."""
    return Page(report(labeled(tmp_path_factory.mktemp("photos"), Thresholds(0.9, 0.7, 0.9))))


class Page(HTMLParser):
    """The text of a page, by section; cells of its first table; pictures as (name, lines)."""

    def __init__(self, html: str):
        super().__init__()
        self.place = ""
        self.text: dict[str, str] = {}
        self.pictures: dict[str, list[tuple[str, list[str]]]] = {}
        self.cells: list[str] = []
        self.tag = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tag = tag
        values = dict(attributes)
        self.place = (values.get("id") or self.place) if tag == "h2" else self.place
        if tag == "td":
            self.cells.append("")
        if tag == "img":
            self.pictures.setdefault(self.place, []).append((values["alt"] or "", []))

    def handle_data(self, data: str) -> None:
        self.text[self.place] = " ".join([*self.text.get(self.place, "").split(), *data.split()])
        if self.tag == "td":
            self.cells[-1] += data.strip()
        if self.tag == "span" and self.place and data.strip():
            self.pictures[self.place][-1][1].append(data.strip())

    def shown(self, place: str) -> list[tuple[str, list[str]]]:
        """The pictures of a section: the name of each file, and the lines above the name."""
        return [(name, lines[:-1]) for name, lines in self.pictures.get(place, [])]


def test_the_images_of_a_class_are_shown_the_least_confident_first_and_what_else_they_may_be(page: Page) -> None:
    assert page.shown("class-0") == [
        ("uncertain.png", ["56%", "or red", "outlier 25%"]),
        ("nearly.png", ["89%", "or green"]),
        ("confident.png", ["> 99%"]),
    ]
    assert page.shown("class-1") == [("strange.png", ["38%", "outlier 60%"])]  # of the classes it is green
    assert page.shown("class-2") == []


def test_suggestions_are_in_their_order_with_their_labels(page: Page) -> None:
    assert page.shown("suggestions") == [
        ("strange.png", ["green 38%", "outlier 60%"]),
        ("nearly.png", ["blue 89%", "or green"]),
    ]


def test_rejected_images_are_shown_the_least_probable_outlier_first(page: Page) -> None:
    assert page.shown("rejected") == [
        ("outlier.png", ["outlier 75%", "or red"]),
        ("rubbish.png", ["outlier 93%", "or red"]),
    ]
    assert "2 images" in page.text["rejected"] and "90%" in page.text["rejected"]


def test_where_nothing_is_rejected_the_most_probable_outlier_is_shown_first(tmp_path: Path) -> None:
    page = Page(report(labeled(tmp_path, Thresholds(0.9, 0.95, 0.9))))
    assert [name for name, _ in page.shown("rejected")][:3] == ["rubbish.png", "outlier.png", "strange.png"]


def test_the_table_counts_labeled_confident_uncertain_and_rejected_images(page: Page) -> None:
    """The mean confidence of blue is that of 0.995, 0.899 and 0.5625."""
    rows = [page.cells[i : i + 6] for i in range(0, 4 * 7, 7)]  # the last cell of each row is a bar
    assert rows == [
        ["blue", "3", "3", "1", "2", "82%"],
        ["green", "1", "1", "0", "1", "38%"],
        ["red", "2", "0", "0", "0", "-"],
        ["rejected", "", "2", "", "", ""],
    ]
    assert "6 images, 1 has a confident label, 3 are uncertain and 2 were rejected" in page.text[""]


def test_the_accuracy_of_held_out_images_is_told(page: Page) -> None:
    assert "3 of 4" in page.text["reliability"]


def test_where_no_image_can_be_held_out_the_page_says_so(tmp_path: Path) -> None:
    page = Page(report(labeled(tmp_path, Thresholds(0.9, 0.7, 0.9), held_out=NOTHING)))
    assert "none could be held out" in page.text["reliability"]


def test_labels_that_were_given_for_images_of_the_pool_are_counted(tmp_path: Path) -> None:
    given = Row(paint(tmp_path / "mine.png", RED), "red", 1.0, "", 0.0, True, "given")
    page = Page(report(labeled(tmp_path, Thresholds(0.9, 0.7, 0.9), rows=lambda: iter([given]), suggestions=[])))
    assert page.shown("class-2") == [("mine.png", ["> 99%"])]
    assert page.cells[16:23] == ["red", "2", "1", "0", "0", "1", "100%"]


def test_names_of_files_and_classes_are_text(tmp_path: Path) -> None:
    row = Row(tmp_path / f"{HOSTILE}.png", HOSTILE, 0.6, HOSTILE, 0.3, False, "uncertain")
    model = SimpleNamespace(
        classes=(HOSTILE,), note={"labeled": {HOSTILE: 1}, "encoder": {"name": HOSTILE}}, inverse_temperature=1.0
    )
    result = labeled(
        tmp_path, Thresholds(0.9, 0.7, 0.9), rows=lambda: iter([row]), model=model, suggestions=[0],
        skipped={Path("x"): HOSTILE},
    )  # fmt: skip
    html = report(result)
    assert "<img src=x" not in html and HOSTILE in Page(html).text["skipped"]


def test_no_share_is_shown_as_more_than_it_is() -> None:
    assert [percent(share) for share in (0.0, 0.899, 0.9899, 0.99, 1.0)] == ["0%", "89%", "98%", "> 99%", "> 99%"]


def test_the_reliability_of_held_out_images_is_by_bins_of_equal_size() -> None:
    p = np.linspace(0.5, 1, 16, dtype=np.float32)
    held_out = HeldOut(np.stack([p, 1 - p], 1), np.array([1] * 4 + [0] * 12), np.zeros(16, np.float32), np.arange(16))
    low, high = reliability_bins(held_out)
    assert low[1] == 0.5 and high[1] == 1.0 and low[4] == high[4] == 8
    assert low[2:4] == pytest.approx((0.2152, 0.7848), abs=1e-4)  # Wilson's interval of 4 in 8
    assert high[2] < 1.0 == high[3]
    assert reliability_bins(NOTHING) == []

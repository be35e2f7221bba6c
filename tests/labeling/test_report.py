"""The report of a labeled pool: six images whose numbers one sees."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFilter

from sala.classifier.fit import HeldOut
from sala.labeling.check import Check
from sala.labeling.confusions import find_confusions
from sala.labeling.hints import Measure, find_hints, measure
from sala.labeling.predictions import Row, Thresholds
from sala.labeling.reliability import about, percent, reliability_bins
from sala.labeling.report import report
from sala.labeling.suspects import Suspect
from tests.helpers.browser import chromium
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


NOTHING_FOUND = Check([], [], [], HELD_OUT)


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
        "rows_of": lambda images: iter([rows[i] for i in images]),
        "labeled": np.zeros(0, np.int64),
        "skipped": {},
        "n_outliers": 0,
        "rejection_obstacle": "",
    }
    return SimpleNamespace(**{**content, **changes})


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Above an outlier probability of 0.7 an image is rejected; from a confidence of 0.9 on a label is confident."""
    return Page(report(labeled(tmp_path_factory.mktemp("photos"), Thresholds(0.9, 0.7, 0.9)), NOTHING_FOUND))


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
    assert page.shown("class-1") == [("strange.png", ["outlier? 60%", "or green"])]  # of the classes it is green
    assert page.shown("class-2") == []


def test_suggestions_are_in_their_order_with_their_labels(page: Page) -> None:
    assert page.shown("suggestions") == [
        ("strange.png", ["outlier? 60%", "or green"]),
        ("nearly.png", ["blue 89%", "or green"]),
    ]


def test_rejected_images_are_shown_the_least_probable_outlier_first(page: Page) -> None:
    assert page.shown("rejected") == [
        ("outlier.png", ["outlier 75%", "or red"]),
        ("rubbish.png", ["outlier 93%", "or red"]),
    ]
    assert "2 images" in page.text["rejected"] and "90%" in page.text["rejected"]


def test_rejected_images_are_expected_to_be_outliers_as_often_as_asked(tmp_path: Path) -> None:
    rows = [Row(paint(tmp_path / f"{i}.png", RED, i), "red", 0.5, "blue", 0.4, False, "rejected") for i in range(9)]
    result = labeled(tmp_path, Thresholds(0.9, 0.3, 0.9), rows=lambda: iter(rows), suggestions=[])
    assert "about 9 in 10" in Page(report(result, NOTHING_FOUND)).text[""]


def test_where_nothing_is_rejected_the_most_probable_outlier_is_shown_first(tmp_path: Path) -> None:
    page = Page(report(labeled(tmp_path, Thresholds(0.9, 0.95, 0.9)), NOTHING_FOUND))
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
    page = Page(report(labeled(tmp_path, Thresholds(0.9, 0.7, 0.9)), Check([], [], [], NOTHING)))
    assert "none could be held out" in page.text["reliability"]


def test_labels_that_were_given_for_images_of_the_pool_are_counted(tmp_path: Path) -> None:
    given = Row(paint(tmp_path / "mine.png", RED), "red", 1.0, "", 0.0, True, "given")
    page = Page(
        report(labeled(tmp_path, Thresholds(0.9, 0.7, 0.9), rows=lambda: iter([given]), suggestions=[]), NOTHING_FOUND)
    )
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
    html = report(result, NOTHING_FOUND)
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


def test_suspects_are_shown_with_their_label_and_what_they_look_like(tmp_path: Path) -> None:
    suspects = [Suspect(1, 0, 2, 0.004, 0.9), Suspect(0, 1, 0, 0.3, 0.6)]
    found = Check(suspects, [1], [], HELD_OUT)
    page = Page(report(labeled(tmp_path, Thresholds(0.9, 0.7, 0.9)), found))
    assert page.shown("suspects") == [
        ("nearly.png", ["labeled blue", "looks like red", "your label < 1%"]),
        ("confident.png", ["labeled green", "looks like blue", "your label 30%"]),
    ]
    assert "Not checked: green" in page.text["suspects"]
    assert "2 labels of your examples look wrong" in page.text[""]


def test_near_duplicates_are_shown_in_groups_and_differing_labels_are_told(tmp_path: Path) -> None:
    predictions = SimpleNamespace(given=np.array([0, 2, -1, -1, -1, -1]), names=CLASSES)
    rows = list(labeled(tmp_path, Thresholds(0.9, 0.7, 0.9)).rows())
    rows = [replace(row, index=i) for i, row in enumerate(rows)]
    result = labeled(
        tmp_path, Thresholds(0.9, 0.7, 0.9), predictions=predictions, rows=lambda: iter(rows),
        rows_of=lambda images: iter([rows[i] for i in images]),
    )  # fmt: skip
    page = Page(report(result, Check([], [], [[0, 1], [3, 4]], HELD_OUT)))
    assert [lines for _, lines in page.shown("near-duplicates")][:3] == [
        ["labeled blue"], ["labeled red"], ["outlier? 60%"]
    ]  # fmt: skip
    assert page.text["near-duplicates"].count("labels of this group differ") == 1
    assert "4 images in 2 groups" in page.text["near-duplicates"]


def test_confused_pairs_come_with_the_expected_number_of_labels() -> None:
    def row(label: str, other: str, p: float, verdict: str = "uncertain") -> Row:
        return Row(Path(label), label, 1 - p, other, 0.0, False, verdict, runner_up_probability=p)

    rows = [row("a", "b", 0.4), row("b", "a", 0.45), row("a", "b", 0.3), row("a", "c", 0.6), row("c", "d", 0.1)]
    found = find_confusions([*rows, row("a", "b", 0.49, "rejected"), row("a", "b", 0.0, "given")])
    assert [(c.classes, round(c.expected, 2)) for c in found] == [(("a", "b"), 1.15), (("a", "c"), 0.6)]
    assert [r.runner_up_probability for r in found[0].rows] == [0.45, 0.4, 0.3]


def test_shares_in_words_are_rounded_down() -> None:
    assert [about(share) for share in (0.999, 0.95, 0.94, 0.5, 0.04)] == [
        "about 99 in 100", "about 95 in 100", "about 9 in 10", "about 5 in 10", "fewer than 1 in 10"
    ]  # fmt: skip


def test_tiny_and_blurred_images_get_a_hint_where_others_are_not() -> None:
    rng = np.random.default_rng(0)

    def noise(side: int, blur: int = 0) -> Measure:
        image = Image.fromarray(rng.integers(0, 256, (side, side)).astype(np.uint8))
        return measure(image.filter(ImageFilter.GaussianBlur(blur)), image.size)

    measured = {i: noise(300) for i in range(30)} | {30: noise(300, blur=3), 31: noise(40)}
    assert find_hints(measured) == {30: "blurred", 31: "tiny: 40 x 40 pixels"}
    assert find_hints({i: noise(32) for i in range(30)}) == {}  # icons among icons
    assert find_hints({0: noise(300), 1: noise(300, blur=3)}) == {}  # nothing to compare with


def test_a_flat_image_is_not_blurred() -> None:
    assert measure(Image.new("RGB", (300, 300), "red"), (300, 300)).sharpness is None


@pytest.mark.slow
def test_rejected_images_are_paged_and_a_click_or_a_key_shows_one_large(tmp_path: Path) -> None:
    rows = [Row(paint(tmp_path / f"{i}.png", RED, i), "red", 0.5, "blue", 0.8, False, "rejected") for i in range(130)]
    result = labeled(tmp_path, Thresholds(0.9, 0.7, 0.9), rows=lambda: iter(rows), suggestions=[])
    (tmp_path / "report.html").write_text(report(result, NOTHING_FOUND, "sala serve a b"), encoding="utf-8")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 700})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "report.html").as_uri())
        assert page.locator(".look:visible").count() == 60
        assert "Page 1 of 3" in page.inner_text(".turn")
        page.get_by_role("button", name="Next").click()
        page.get_by_role("button", name="Next").click()
        assert page.locator(".look:visible").count() == 10
        page.get_by_role("button", name="129.png", exact=True).focus()
        page.keyboard.press("Enter")
        assert page.get_by_role("dialog").is_visible()
        page.keyboard.press("ArrowLeft")
        assert "128.png" in page.inner_text("#viewer p")
        page.keyboard.press("Escape")
        page.wait_for_function(
            "document.activeElement.querySelector('img')?.alt === '128.png'"
        )  # the dialog closes a little later
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []

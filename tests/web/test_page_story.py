"""The page in a real browser, once through all that one does there."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from sala.labeling.project import OUTLIER, UNLABELED
from sala.web.downloads import DOWNLOADS
from sala.web.layout import pool_map
from sala.web.session import Session
from tests.helpers.open_page import browser_opened, count, opened, page_opened, rename, settled, tile  # noqa: F401  (fixtures)
from tests.helpers.pages import row_of


def test_the_page_in_a_browser(page: Any, tmp_path: Path) -> None:
    """One long story, since a browser takes long to start; each step begins where the one before it ends."""
    assert page.locator(".class .name").all_inner_texts() == ["blue", "red", "Outlier"]
    before = count(page, 0), count(page, 1)
    label_by_a_button(page)
    undo(page, before)
    label_by_a_digit(page)
    add_and_rename_a_class(page)
    ask_for_a_name_that_is_taken(page)
    keep_the_focus(page)
    name_an_outlier(page)
    look_at_the_map(page)
    download(page, tmp_path)
    reload(page)


def label_by_a_button(page: Any) -> None:
    """By the class's button in the bar."""
    session: Session = page.session
    tile(page, "red-4.png").click()
    page.locator('.assign[data-class="0"]').click()
    settled(page, 1)
    red4 = row_of(session, "red-4.png")
    assert session.snapshot().given[red4] == 0
    in_pool = np.array([item.root == "pool" for item in session.project.items])
    where = session.snapshot().most_probable()[in_pool]  # the label is wrong on purpose: others may move too
    assert (count(page, 0), count(page, 1)) == ((where == 0).sum(), (where == 1).sum())
    assert page.inner_text("#n-given").startswith("1 of ")
    assert page.inner_text("#checked") == "0 of 1 right"
    page.evaluate("document.querySelector('#scroller').scrollTop = 0")  # it is the first of its class now
    assert tile(page, "red-4.png").locator(".mark").inner_text() == "✓"


def undo(page: Any, before: tuple[int, int]) -> None:
    """The last change is taken back by a key."""
    session: Session = page.session
    red4 = row_of(session, "red-4.png")
    page.keyboard.press("u")
    settled(page, 2)
    assert session.snapshot().given[red4] == UNLABELED
    assert (count(page, 0), count(page, 1)) == before
    assert page.locator("#undo").is_disabled()


def label_by_a_digit(page: Any) -> None:
    """By a digit, which goes on to the next image."""
    session: Session = page.session
    red4 = row_of(session, "red-4.png")
    tile(page, "red-4.png").click()
    page.keyboard.press("2")
    settled(page, 3)
    assert session.snapshot().given[red4] == 1
    assert page.locator(".tile.selected").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".tile.selected").count() == 0


def add_and_rename_a_class(page: Any) -> None:
    """A new class, one example, and the others follow; then it is renamed."""
    page.fill("#new-name", "<b>green</b>".replace("/", ""))
    page.click("#add-class button")
    settled(page, 4)
    assert "<b>green<b>" in page.locator(".class .name").all_inner_texts()
    tile(page, "green-0.png").drag_to(page.locator('.class[data-class="2"]'))
    settled(page, 5)
    page.wait_for_function("() => Number(document.querySelector('.class[data-class=\"2\"] .count').textContent) >= 10")
    rename(page, 2, "leaf")
    settled(page, 6)
    page.wait_for_function("() => document.querySelector('.class[data-class=\"2\"] .name').textContent === 'leaf'")


def ask_for_a_name_that_is_taken(page: Any) -> None:
    """A name that is taken is refused in words."""
    page.fill("#new-name", "LEAF")
    page.click("#add-class button")
    page.wait_for_selector("#toast:not([hidden])")
    assert "already" in page.inner_text("#toast")
    assert page.inner_text("#saved") == "saved"  # nothing was to be saved
    assert page.input_value("#new-name") == "LEAF"


def keep_the_focus(page: Any) -> None:
    """The focus stays on a view's button, though the buttons are drawn anew."""
    page.locator('[data-view="uncertain"]').press("Enter")
    assert page.evaluate("document.activeElement.dataset.view") == "uncertain"


def name_an_outlier(page: Any) -> None:
    """An outlier, by key, from the suggestions."""
    session: Session = page.session
    page.click('[data-view="suggestions"]')
    asked = int(page.locator(".tile.selected").get_attribute("data-id"))
    page.keyboard.press("0")
    settled(page, 7)
    assert session.snapshot().given[asked] == OUTLIER
    page.click('[data-view="outliers"]')
    page.wait_for_selector(f'.tile[data-id="{asked}"]')


def look_at_the_map(page: Any) -> None:
    """The map: a point under the mouse shows its picture."""
    session: Session = page.session
    red4 = row_of(session, "red-4.png")
    page.click('[data-view="map"]')
    page.wait_for_selector("#map-wait", state="hidden")
    box = page.locator("#points").bounding_box()
    u, v = map(float, pool_map(session.images.features)[red4])
    side = min(box["width"], box["height"]) - 50
    stretch = min(1.7, max(1, box["width"] / box["height"]))
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(middle[0] + (u - 0.5) * side * stretch + 30, middle[1] + (v - 0.5) * side)
    page.mouse.move(middle[0] + (u - 0.5) * side * stretch, middle[1] + (v - 0.5) * side)
    page.wait_for_selector("#peek:not([hidden])")


def download(page: Any, folder: Path) -> None:
    """The table is downloaded, and all files are offered."""
    page.click("#download summary")
    with page.expect_download() as waiting:
        page.click('a[href="download/labels.csv"]')
    waiting.value.save_as(folder / "labels.csv")
    with (folder / "labels.csv").open(newline="") as file:
        rows = {Path(row["path"]).name: row for row in csv.DictReader(file)}
    assert rows["green-0.png"]["label"] == "leaf" and len(rows) == 31
    offered = page.locator("#download a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
    assert offered == [f"download/{name}" for name in DOWNLOADS]


def reload(page: Any) -> None:
    """All of it is there after a reload."""
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.locator(".class .name").all_inner_texts() == ["blue", "red", "leaf", "Outlier"]

"""The page itself in a real browser."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import chromium
from pages import COLOURS, draw, open_session, row_of, running

from sala.projection import pool_map
from sala.session import NONE, UNKNOWN, Session


@pytest.fixture
def page(folders: tuple[Path, Path]) -> Iterator[Any]:
    """The page, open; whatever it complains of on its console is a failure."""
    draw(folders[1] / "<img src=x onerror=alert(1)>.png", COLOURS["red"], np.random.default_rng(1))
    with chromium() as browser, running(open_session(folders)) as server:
        complaints: list[str] = []
        context = browser.new_context(viewport={"width": 1300, "height": 800}, accept_downloads=True)
        opened = context.new_page()
        opened.set_default_timeout(20_000)
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        opened.session = server.session  # type: ignore[attr-defined]
        opened.goto(server.address)
        opened.wait_for_selector("body[data-ready]")
        yield opened
        assert not [text for text in complaints if "400 (Bad Request)" not in text]  # a name that is taken
        context.close()


def tile(page: Any, name: str) -> Any:
    return page.locator(f'.tile[title="{name}"]')


def count(page: Any, number: int) -> int:
    return int(page.locator(f'.class[data-class="{number}"] .count').inner_text())


def settled(page: Any, version: int) -> None:
    """Wait until the page shows this version, saved and fitted."""
    page.wait_for_function(
        "() => document.querySelector('#saved').dataset.state === 'saved' && !document.querySelector('#saved').dataset.fitting"
    )
    assert page.session.snapshot().version == version


def test_the_page_in_a_browser(page: Any, tmp_path: Path) -> None:
    """One long story, since a browser takes long to start: label, undo, add, rename, drag, download."""
    session: Session = page.session
    assert page.locator(".class .name").all_inner_texts() == ["blue", "red", "none of these"]
    before = count(page, 0), count(page, 1)

    # by a click on the class
    tile(page, "red-4.png").click()
    page.locator('.class[data-class="0"] .pick').click()
    settled(page, 1)
    red4 = row_of(session, "red-4.png")
    assert session.snapshot().given[red4] == 0
    in_pool = np.array([item.root == "pool" for item in session.collection.items])
    where = session.snapshot().verdict()[in_pool]  # the label is wrong on purpose: others may move too
    assert (count(page, 0), count(page, 1)) == ((where == 0).sum(), (where == 1).sum())
    assert page.inner_text("#n-given").startswith("1 of ")
    assert page.inner_text("#checked") == "0 of 1 right"
    assert tile(page, "red-4.png").locator(".mark").inner_text() == "✓"

    # undone
    page.keyboard.press("u")
    settled(page, 2)
    assert session.snapshot().given[red4] == UNKNOWN
    assert (count(page, 0), count(page, 1)) == before
    assert page.locator("#undo").is_disabled()

    # by a digit, which goes on to the next image
    tile(page, "red-4.png").click()
    page.keyboard.press("2")
    settled(page, 3)
    assert session.snapshot().given[red4] == 1
    assert page.locator(".tile.selected").count() == 1
    page.keyboard.press("Escape")
    assert page.locator(".tile.selected").count() == 0

    # a new class, one example, and the others follow; then it is renamed
    page.fill("#new-name", "<b>green</b>".replace("/", ""))
    page.click("#add-class button")
    settled(page, 4)
    assert "<b>green<b>" in page.locator(".class .name").all_inner_texts()
    tile(page, "green-0.png").drag_to(page.locator('.class[data-class="2"]'))
    settled(page, 5)
    page.wait_for_function("() => Number(document.querySelector('.class[data-class=\"2\"] .count').textContent) >= 10")
    page.locator('.class[data-class="2"]').hover()
    page.locator('.class[data-class="2"] .rename').click()
    page.keyboard.type("leaf")
    page.keyboard.press("Enter")
    settled(page, 6)
    page.wait_for_function("() => document.querySelector('.class[data-class=\"2\"] .name').textContent === 'leaf'")

    # a name that is taken is refused in words
    page.fill("#new-name", "LEAF")
    page.click("#add-class button")
    page.wait_for_selector("#toast:not([hidden])")
    assert "already" in page.inner_text("#toast")

    # none of these, by key, from the queue
    page.click('[data-view="next"]')
    asked = int(page.locator(".tile.selected").get_attribute("data-id"))
    page.keyboard.press("0")
    settled(page, 7)
    assert session.snapshot().given[asked] == NONE
    page.click('[data-view="junk"]')
    page.wait_for_selector(f'.tile[data-id="{asked}"]')

    # the map: a point under the mouse shows its picture
    page.click('[data-view="map"]')
    page.wait_for_selector("#map-wait", state="hidden")
    box = page.locator("#points").bounding_box()
    u, v = map(float, pool_map(session.features)[red4])
    side = min(box["width"], box["height"]) - 50
    stretch = min(1.7, max(1, box["width"] / box["height"]))
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(middle[0] + (u - 0.5) * side * stretch + 30, middle[1] + (v - 0.5) * side)
    page.mouse.move(middle[0] + (u - 0.5) * side * stretch, middle[1] + (v - 0.5) * side)
    page.wait_for_selector("#peek:not([hidden])")

    # downloads
    page.click("#download summary")
    with page.expect_download() as waiting:
        page.click('a[href="download/labels.csv"]')
    waiting.value.save_as(tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(newline="") as file:
        rows = {row["path"]: row for row in csv.DictReader(file)}
    assert rows["green-0.png"]["label"] == "leaf" and len(rows) == 31

    # and all of it is there after a reload
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.locator(".class .name").all_inner_texts() == ["blue", "red", "leaf", "none of these"]

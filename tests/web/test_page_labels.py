"""Looking and labeling are different gestures, and every label can be taken back where it is told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sala.labeling.project import OUTLIER, UNLABELED
from tests.helpers.open_page import browser_opened, opened, page_opened, settled, tile  # noqa: F401  (fixtures)
from tests.helpers.pages import open_session, row_of

pytestmark = pytest.mark.slow

DONE = "#done .note"


def test_a_click_on_a_class_shows_it_whatever_is_selected(page: Any) -> None:
    for view, number, opens in (
        ("all", 0, "class"),
        ("suggestions", 1, "class"),
        ("all", OUTLIER, "outliers"),
        ("suggestions", OUTLIER, "outliers"),
    ):
        page.click(f'[data-view="{view}"]')
        if view != "suggestions":  # there the first is selected already
            page.locator(".tile").first.click()
        assert page.locator(".tile.selected").count() == 1
        page.click(f'.class[data-class="{number}"] .pick')
        assert page.locator("[aria-current]").get_attribute("data-view") == opens
        assert page.session.n_events == 0 and not page.locator(DONE).count()


def test_what_is_selected_after_a_label_is_only_looked_at(page: Any) -> None:
    """The case that was met: a key selects the next image, a click on a class was to show the class."""
    tile(page, "red-4.png").click()
    page.keyboard.press("2")
    settled(page, 1)
    assert page.locator(".tile.selected").count() == 1
    page.click('.class[data-class="0"] .pick')
    assert page.locator("[aria-current]").get_attribute("data-view") == "class"
    assert page.session.n_events == 1


def test_the_bar_has_a_button_for_each_label_that_says_what_it_does(page: Any) -> None:
    session = page.session
    tile(page, "red-4.png").click()
    tile(page, "red-5.png").click(modifiers=["Control"])
    names = page.locator("#assign button").evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
    assert len(names) == 3 and all("2 images" in name for name in names)
    page.locator(f'.assign[data-class="{OUTLIER}"]').click()
    settled(page, 1)
    assert (
        session.snapshot().given[[row_of(session, "red-4.png"), row_of(session, "red-5.png")]].tolist() == [OUTLIER] * 2
    )


def test_every_label_is_told_with_an_undo_of_its_own(page: Any) -> None:
    session, red4 = page.session, row_of(page.session, "red-4.png")
    assert page.locator("#done").get_attribute("aria-live") == "polite"

    def by_key() -> None:
        page.keyboard.press("1")

    def by_button() -> None:
        page.click('.assign[data-class="0"]')

    def by_dragging() -> None:
        tile(page, "red-4.png").drag_to(page.locator('.class[data-class="0"]'))

    for version, give in zip((1, 3, 5), (by_key, by_button, by_dragging), strict=True):
        tile(page, "red-4.png").click()
        give()
        settled(page, version)
        assert session.snapshot().given[red4] == 0
        assert re.search(r"1 image .*blue", page.inner_text(DONE))
        page.click(f"{DONE} button")
        settled(page, version + 1)
        assert session.snapshot().given[red4] == UNLABELED and page.inner_text(DONE).startswith("Undone")


def test_the_next_label_replaces_what_was_told(page: Any) -> None:
    session = page.session
    for name, key in (("red-4.png", "1"), ("red-5.png", "0")):
        tile(page, name).click()
        page.keyboard.press(key)
    settled(page, 2)
    assert page.locator(DONE).count() == 1 and "Outlier" in page.inner_text(DONE)
    page.click(f"{DONE} button")
    settled(page, 3)
    given = session.snapshot().given
    assert given[row_of(session, "red-4.png")] == 0 and given[row_of(session, "red-5.png")] == UNLABELED


def test_images_of_two_classes_that_are_confirmed_at_once_are_undone_at_once(page: Any) -> None:
    session = page.session
    rows = [row_of(session, "red-4.png"), row_of(session, "blue-4.png")]
    tile(page, "blue-4.png").click()
    tile(page, "red-4.png").click(modifiers=["Control"])
    page.keyboard.press("Enter")
    settled(page, 1)
    assert session.snapshot().given[rows].tolist() == [1, 0]
    assert "red" in page.inner_text(DONE) and "blue" in page.inner_text(DONE)
    page.click(f"{DONE} button")
    settled(page, 2)
    assert session.snapshot().given[rows].tolist() == [UNLABELED, UNLABELED] and session.n_events == 0


def test_undo_takes_back_that_change_and_no_other(page: Any) -> None:
    """Another tab has labeled since."""
    session, red4 = page.session, row_of(page.session, "red-4.png")
    tile(page, "red-4.png").click()
    page.keyboard.press("1")
    settled(page, 1)
    session.label([row_of(session, "red-5.png")], to=OUTLIER)
    page.click(f"{DONE} button")
    page.wait_for_selector("#toast:not([hidden])")
    given = session.snapshot().given
    assert given[red4] == 0 and given[row_of(session, "red-5.png")] == OUTLIER


def test_a_state_that_was_taken_away_is_shown_for_good_and_can_be_downloaded(page: Any, tmp_path: Path) -> None:
    session, red4 = page.session, row_of(page.session, "red-4.png")
    assert page.is_hidden("#stopped")
    session.label([row_of(session, "blue-4.png")], to=OUTLIER)
    session.journal.path.unlink()
    tile(page, "red-4.png").click()
    page.keyboard.press("1")
    page.wait_for_selector("#stopped:not([hidden])")
    assert not page.locator(DONE).count() and page.locator("#saved").get_attribute("data-state") == "failed"
    assert not tile(page, "red-4.png").locator(".mark").inner_text()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.is_visible("#stopped") and page.locator("#saved").get_attribute("data-state") == "failed"
    tile(page, "red-4.png").click()
    page.keyboard.press("1")
    assert session.n_events == 1 and not tile(page, "red-4.png").locator(".mark").inner_text()
    with page.expect_download() as waiting:
        page.click("#stopped a")
    waiting.value.save_as(tmp_path / "taken.jsonl")
    roots = session.project.roots
    again = open_session((roots["labeled"], roots["pool"]), tmp_path / "taken.jsonl")
    assert again.snapshot().given.tolist() == session.snapshot().given.tolist()
    assert again.snapshot().given[red4] == UNLABELED


def test_a_finger_shows_a_class_and_labels_by_the_bar(browser: Any, folders: tuple[Path, Path]) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with opened(browser, folders, **phone) as page:
        page.locator('.class[data-class="1"] .pick').tap()
        assert page.locator("[aria-current]").get_attribute("data-view") == "class"
        page.tap('[data-view="all"]')
        page.fill("#find", "red-")
        tile(page, "red-4.png").tap()
        assert page.is_visible("#add-class")  # a class that is missing can be added
        page.locator(f'.assign[data-class="{OUTLIER}"]').tap()
        settled(page, 1)
        page.tap(f"{DONE} button")
        settled(page, 2)
        assert page.session.n_events == 0

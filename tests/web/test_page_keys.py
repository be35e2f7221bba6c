"""The keyboard, the viewer, and undo and redo, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.labeling.project import OUTLIER, UNLABELED
from sala.web.session import CLEAR
from tests.helpers.open_page import TALL, browser_opened, opened, page_opened, settled, tile  # noqa: F401  (fixtures)
from tests.helpers.pages import COLORS, draw, row_of

pytestmark = pytest.mark.slow

DONE = "#done .note"
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def looked_at(page: Any) -> int:
    return row_of(page.session, page.inner_text("#viewer h2"))


@pytest.fixture(name="many")
def many_classes(browser: Any, folders: tuple[Path, Path]) -> Iterator[Any]:
    """The page of fourteen classes."""
    for i in range(12):
        draw(folders[0] / f"more {i:02}" / "0.png", COLORS["green"], np.random.default_rng(i))
    with opened(browser, folders) as page:
        yield page


def test_the_page_opens_on_suggestions_with_one_sentence(browser: Any, folders: tuple[Path, Path]) -> None:
    for options in ({}, PHONE):
        with opened(browser, folders, view="", **options) as page:
            assert page.locator("[aria-current]").get_attribute("data-view") == "suggestions"
            said = page.inner_text("#hint")
            assert said.startswith("Start here") and said.count(".") == 1
            assert page.locator(".tile.selected").count() == 1 and page.is_visible("#accept")
            page.session.close()


def test_with_ten_classes_a_digit_labels_at_once_and_letters_go_on(many: Any) -> None:
    session = many.session
    assert many.locator(".class kbd").all_inner_texts() == [*"123456789abdef", "0"]
    for version, (key, to) in enumerate([("1", 0), ("a", 9), ("E", 12), ("0", OUTLIER)], 1):
        tile(many, f"blue-{version}.png").click()
        many.keyboard.press(key)
        many.wait_for_function(f"() => document.querySelector('#n-given').textContent.startsWith('{version} of')")
        settled(many, version)
        assert session.snapshot().given[row_of(session, f"blue-{version}.png")] == to


def test_a_key_of_no_class_labels_nothing(page: Any) -> None:
    tile(page, "red-4.png").click()
    for key in ("9", "a", "z"):
        page.keyboard.press(key)
    assert page.session.n_events == 0 and "no class 9" in page.inner_text("#toast")


def test_ctrl_a_selects_the_images_of_the_view(page: Any) -> None:
    page.click('.class[data-class="0"] .pick')
    n = page.locator(".tile").count()
    page.keyboard.press("Control+a")
    assert n > 9 and page.locator(".tile.selected").count() == n and f"{n} images" in page.inner_text("#assign-text")
    assert page.evaluate("String(getSelection())") == ""


def test_keys_label_in_the_viewer_and_go_on(page: Any) -> None:
    session = page.session
    page.click('[data-view="suggestions"]')
    page.keyboard.press(" ")
    first = looked_at(page)
    predicted = session.snapshot().most_probable()[first]
    page.keyboard.press("Enter")
    settled(page, 1)
    assert session.snapshot().given[first] == predicted and page.is_visible("#viewer")

    second = looked_at(page)
    assert second != first
    page.keyboard.press("2")
    settled(page, 2)
    assert session.snapshot().given[second] == 1

    third = looked_at(page)
    assert third not in (first, second)
    page.keyboard.press("ArrowRight")
    fourth = looked_at(page)
    page.keyboard.press("ArrowLeft")
    assert looked_at(page) == third != fourth and session.n_events == 2

    page.keyboard.press("Control+z")
    settled(page, 3)
    assert session.snapshot().given[second] == UNLABELED and page.is_visible("#viewer")
    page.keyboard.press(" ")
    assert not page.is_visible("#viewer") and page.locator(".tile.selected").count() == 1


def test_in_the_viewer_only_the_image_in_sight_is_labeled(page: Any) -> None:
    session = page.session
    tile(page, "blue-4.png").click()
    tile(page, "red-4.png").click(modifiers=["Control"])
    page.click("#look")
    shown = looked_at(page)
    page.click('#viewer .assign[data-class="0"]')
    settled(page, 1)
    assert np.flatnonzero(session.snapshot().given[4:] != UNLABELED).tolist() == [shown - 4]


@pytest.mark.parametrize("options", [{}, PHONE])
def test_buttons_label_in_the_viewer_and_undo_is_in_reach(
    browser: Any, folders: tuple[Path, Path], options: Any
) -> None:
    with opened(browser, folders, view="", **options) as page:
        session = page.session
        page.click("#look")
        first = looked_at(page)
        page.click("#viewer-accept")
        settled(page, 1)
        assert session.snapshot().given[first] != UNLABELED and looked_at(page) != first
        page.click(f"#viewer {DONE} button")
        settled(page, 2)
        assert session.n_events == 0 and page.is_visible("#viewer")
        page.click("#viewer .close")
        page.wait_for_selector("#viewer", state="hidden")


def test_undo_and_redo_by_keys_and_buttons(page: Any) -> None:
    session, red4 = page.session, row_of(page.session, "red-4.png")
    assert page.is_disabled("#undo") and page.is_disabled("#redo")
    tile(page, "red-4.png").click()
    page.keyboard.press("1")
    settled(page, 1)
    ways = [
        (lambda: page.keyboard.press("Control+z"), lambda: page.keyboard.press("Control+y")),
        (lambda: page.keyboard.press("u"), lambda: page.keyboard.press("Control+Shift+z")),
        (lambda: page.click("#undo"), lambda: page.click("#redo")),
        (lambda: page.click(f"{DONE} button"), lambda: page.click(f"{DONE} button")),
    ]
    version = 1
    for back, forth in ways:
        for step, expected in ((back, UNLABELED), (forth, 0)):
            step()
            version += 1
            settled(page, version)
            assert session.snapshot().given[red4] == expected
    assert page.is_enabled("#undo") and page.is_disabled("#redo")


def test_undo_and_redo_in_quick_succession_end_where_they_should(page: Any) -> None:
    session = page.session
    for name, key in (("red-4.png", "1"), ("red-5.png", "0")):
        tile(page, name).click()
        page.keyboard.press(key)
    for key in ("Control+z", "Control+z", "Control+y"):
        page.keyboard.press(key)
    settled(page, 5)
    given = session.snapshot().given
    assert [given[row_of(session, name)] for name in ("red-4.png", "red-5.png")] == [0, UNLABELED]
    assert page.is_enabled("#undo") and page.is_enabled("#redo")


# -- several pages on one state


def test_two_tabs_and_another_browser_follow_each_other_within_a_second(browser: Any, page: Any) -> None:
    session, red4 = page.session, row_of(page.session, "red-4.png")
    others = [page.context.new_page(), browser.new_context().new_page()]
    for one in (page, *others):
        one.set_viewport_size(TALL)
    for other in others:
        other.goto(page.address + "#all")
        other.wait_for_selector("body[data-ready]")

    def all_show(mark: str) -> None:
        for one in (page, *others):
            one.wait_for_function(f"() => document.querySelector('#image{red4} .mark').textContent === '{mark}'")

    tile(others[0], "red-4.png").click()
    others[0].keyboard.press("1")
    all_show("✓")
    others[1].keyboard.press("Control+z")  # what another did can be undone here
    all_show("")
    session.add_class("owl")
    for one in (page, *others):
        one.wait_for_function("() => document.querySelectorAll('.class').length === 4")
    session.label([red4], to=CLEAR)
    others[1].context.close()


def test_what_another_tab_labels_leaves_the_selection_here(browser: Any, page: Any) -> None:
    session = page.session
    page.click('[data-view="suggestions"]')
    selected = page.locator(".tile.selected").get_attribute("data-id")
    n = int(page.inner_text('[data-view="suggestions"] small'))
    other = next(i for i in session.snapshot().suggestions if str(i) != selected)
    session.label([int(other)], to=OUTLIER)
    page.wait_for_function("() => document.querySelector('#n-given').textContent.startsWith('1 of')")
    assert n and page.locator(".tile.selected").get_attribute("data-id") == selected

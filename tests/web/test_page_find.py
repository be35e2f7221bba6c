"""Searching, sorting, filtering, and the lasso of the map, in a real browser."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.open_page import browser_opened, opened, page_opened, settled, tile  # noqa: F401  (fixtures)
from tests.helpers.pages import COLORS, draw, row_of

pytestmark = pytest.mark.slow

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def shown(page: Any) -> list[str]:
    found: list[str] = page.locator(".tile img").evaluate_all("all => all.map((one) => one.alt)")
    return found


@pytest.mark.parametrize("options", [{}, PHONE])
def test_images_are_searched_sorted_and_filtered(browser: Any, folders: tuple[Path, Path], options: Any) -> None:
    for i in range(3):
        draw(folders[1] / "trip" / f"red-{20 + i}.png", COLORS["red"], np.random.default_rng(50 + i))
        os.utime(folders[1] / "trip" / f"red-{20 + i}.png", (86_400 * (9 - i), 86_400 * (9 - i)))
    with opened(browser, folders, **options) as page:
        page.fill("#find", "RED-2")
        assert set(shown(page)) == {"red-2.png", *(f"trip/red-{20 + i}.png" for i in range(3))}
        page.select_option("#sort", "name")
        assert shown(page) == ["red-2.png", *(f"trip/red-{20 + i}.png" for i in range(3))]
        page.select_option("#sort", "date")
        page.wait_for_function("() => document.querySelector('.heading span')?.textContent === '1970-01-08'")
        assert shown(page)[:3] == [f"trip/red-{22 - i}.png" for i in range(3)]
        page.select_option("#only", "in trip")
        page.fill("#find", "")
        page.select_option("#sort", "folder")
        assert len(shown(page)) == 3 and page.locator(".heading span").all_inner_texts() == ["trip"]
        page.fill("#find", "nothing")
        assert shown(page) == [] and "matches" in page.inner_text("#hint")
        assert page.session.n_events == 0


def test_a_label_that_the_others_speak_against_is_found(page: Any) -> None:
    session = page.session
    session.label([row_of(session, "red-4.png")], to=0)
    session.label([row_of(session, "blue-4.png")], to=0)
    page.wait_for_function("() => document.querySelector('#n-given').textContent.startsWith('2 of')")
    page.select_option("#only", "suspect")
    page.wait_for_function("() => document.querySelectorAll('.tile').length === 1")
    assert shown(page) == ["red-4.png"]
    page.select_option("#only", "given")
    page.select_option("#sort", "suspect")
    page.wait_for_function("() => document.querySelectorAll('.tile').length === 2")
    assert shown(page) == ["red-4.png", "blue-4.png"]


def test_what_is_typed_into_the_search_labels_nothing(page: Any) -> None:
    tile(page, "red-4.png").click()
    page.keyboard.press("/")
    page.keyboard.type("1 0 a")
    assert page.input_value("#find") == "1 0 a" and page.session.n_events == 0


def test_ctrl_a_selects_what_is_found(page: Any) -> None:
    page.fill("#find", "blue-")
    page.keyboard.press("Enter")
    page.keyboard.press("Control+a")
    assert "10 images" in page.inner_text("#assign-text")


@pytest.mark.parametrize("options", [{}, PHONE])
def test_a_loop_on_the_map_selects_what_is_inside(browser: Any, folders: tuple[Path, Path], options: Any) -> None:
    with opened(browser, folders, view="#map", **options) as page:
        page.wait_for_selector("#map-wait", state="hidden")
        page.click("#lasso")
        box = page.locator("#points").bounding_box()
        left, top = box["x"] + 2, box["y"] + 50
        right, bottom = box["x"] + box["width"] - 2, box["y"] + box["height"] - 2
        page.mouse.move(left, top)
        page.mouse.down()
        for x, y in ((right, top), (right, bottom), (left, bottom)):
            page.mouse.move(x, y, steps=3)
        page.mouse.up()
        n = int(page.inner_text("#assign-text").split()[1])
        assert n > 25 and page.session.n_events == 0
        page.click('.assign[data-class="1"]')
        settled(page, 1)
        assert (page.session.snapshot().given == 1).sum() >= n
        assert page.session.n_events == 1


def test_the_map_is_walked_and_labeled_by_keys_alone(browser: Any, folders: tuple[Path, Path]) -> None:
    with opened(browser, folders, view="#map") as page:
        page.wait_for_selector("#map-wait", state="hidden")
        page.focus("#points")
        page.keyboard.press("ArrowRight")
        first = page.inner_text("#bar-text")
        assert page.locator("#peek").is_visible() and "1 image" in page.inner_text("#assign-text")
        for key in ("Shift+ArrowRight", "Shift+ArrowLeft", "Shift+ArrowUp", "Shift+ArrowDown"):
            page.keyboard.press(key)
        n = int(page.inner_text("#assign-text").split()[1])
        assert n > 1 and page.session.n_events == 0
        page.keyboard.press("2")
        settled(page, 1)
        given = page.session.snapshot().given
        assert (given[4:] == 1).sum() == n and given[row_of(page.session, first)] == 1


def test_a_loop_is_drawn_by_keys_alone(browser: Any, folders: tuple[Path, Path]) -> None:
    with opened(browser, folders, view="#map") as page:
        page.wait_for_selector("#map-wait", state="hidden")
        page.focus("#lasso")
        page.keyboard.press("Enter")
        for key in ["Shift+ArrowLeft"] * 40 + ["Shift+ArrowUp"] * 40:  # to the corner
            page.keyboard.press(key)
        page.keyboard.press("Enter")
        for key in ["Shift+ArrowRight"] * 40 + ["Shift+ArrowDown"] * 40 + ["Shift+ArrowLeft"] * 40:
            page.keyboard.press(key)
        assert not page.locator("#bar").is_visible()
        page.keyboard.press("Enter")
        assert int(page.inner_text("#assign-text").split()[1]) > 25
        page.keyboard.press("Escape")
        assert page.get_attribute("#lasso", "aria-pressed") == "false" and page.session.n_events == 0


def test_several_images_and_all_of_a_view_are_selected_by_the_mouse_alone(page: Any) -> None:
    tile(page, "red-4.png").click()
    page.click("#more")
    tile(page, "red-5.png").click()
    assert "2 images" in page.inner_text("#assign-text")
    page.click("#select-all")
    n_pool = sum(item.root == "pool" for item in page.session.project.items)
    assert f"{n_pool} images" in page.inner_text("#assign-text") and page.session.n_events == 0

"""The view of what is of none of the classes, in a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest
from open_page import page_opened, settled  # noqa: F401  (fixture)
from pages import row_of

from sala.session import NONE


def test_what_may_be_junk_is_listed_below_what_was_set_aside(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sala.session.aside_threshold", lambda *_: 2.0)  # nothing is so surely junk
    page.session.label([row_of(page.session, "green-3.png")], to=NONE)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.click('[data-view="junk"]')
    names = page.locator(".tile img").evaluate_all("all => all.map((one) => one.alt)")
    assert names[0] == "green-3.png" and sorted(names) == [f"green-{i}.png" for i in range(10)]
    assert page.locator("h3 small").all_inner_texts() == ["1", "9"]
    assert page.inner_text('[data-view="junk"] small') == "1"


def test_among_what_may_be_junk_enter_says_that_it_is_and_the_next_is_in_sight(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sala.session.aside_threshold", lambda *_: 2.0)
    session = page.session
    session.label([0, row_of(session, "green-3.png")], to=NONE)  # an example, too
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.click('[data-view="junk"]')
    assert page.locator("h3 small").all_inner_texts() == ["1", "9", "1"]
    assert page.locator(".tile").last.get_attribute("id") == "image0"
    perhaps = page.locator(".tile:not(.given)").first
    assert perhaps.locator("b").inner_text() == "none of these?"
    assert re.fullmatch(r"\d+ % sure, else (red|blue)", perhaps.locator(".caption span").inner_text())
    first = int(perhaps.get_attribute("data-id"))
    perhaps.click()
    page.keyboard.press("Enter")
    settled(page, 2)
    shown = session.snapshot()
    assert shown.given[first] == NONE and (shown.n_checked, shown.n_agreed) == (2, 2)  # it was said to be rather none
    selected = page.locator(".tile.selected").bounding_box()
    assert (
        selected is not None
        and selected["y"] >= 0
        and selected["y"] + selected["height"] <= page.viewport_size["height"]
    )


def test_what_is_more_probably_an_outlier_is_not_confirmed_as_a_class(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sala.session.aside_threshold", lambda *_: 2.0)  # it stays with its class
    session = page.session
    session.label([row_of(session, "green-3.png")], to=NONE)
    shown = session.snapshot()
    green4, green5, red = (row_of(session, name) for name in ("green-4.png", "green-5.png", "red-4.png"))
    assert shown.is_likely_outlier[[green4, green5, red]].tolist() == [True, True, False]
    assert shown.verdict()[green4] == shown.label[green4] != NONE
    page.reload()
    page.wait_for_selector("body[data-ready]")
    steps = [("all", green4, "Enter", "none"), ("all", red, "Enter", "red"), ("doubtful", green5, "button", "none")]
    for version, (view, i, gesture, said) in enumerate(steps, 2):
        page.click(f'[data-view="{view}"]')
        assert said in page.inner_text(f"#image{i} b")
        page.click(f"#image{i}")
        assert said in page.inner_text("#accept")
        page.click("#accept") if gesture == "button" else page.keyboard.press(gesture)
        settled(page, version)
        assert session.snapshot().given[i] == (shown.label[red] if i == red else NONE)

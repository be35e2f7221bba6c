"""The view of outliers, in a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sala.labeling.project import OUTLIER
from tests.helpers.open_page import browser_opened, page_opened, settled  # noqa: F401  (fixtures)
from tests.helpers.pages import row_of

pytestmark = pytest.mark.slow


def test_possible_outliers_are_listed_first_and_counted(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sala.labeling.label.answered_threshold", lambda *_: 1.0)  # nothing is rejected
    page.session.label([row_of(page.session, "green-3.png")], to=OUTLIER)
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.click('[data-view="outliers"]')
    names = page.locator(".tile img").evaluate_all("all => all.map((one) => one.alt)")
    assert names[-1] == "green-3.png" and sorted(names) == [f"green-{i}.png" for i in range(10)]
    probability = page.session.snapshot().outlier_probability
    of_possible = [round(float(probability[row_of(page.session, name)]), 4) for name in names[:-1]]
    assert of_possible == sorted(of_possible)  # the borderline first
    assert [text.split(" ")[0] for text in page.locator(".heading small").all_inner_texts()] == ["9", "1"]
    assert page.inner_text('[data-view="outliers"] small') == "10"
    assert page.inner_text(f'.class[data-class="{OUTLIER}"] .count') == "10"


def test_enter_confirms_a_possible_outlier_and_the_next_is_in_sight(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sala.labeling.label.answered_threshold", lambda *_: 1.0)
    session = page.session
    session.label([0, row_of(session, "green-3.png")], to=OUTLIER)  # an example, too
    before = session.snapshot()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    page.click('[data-view="outliers"]')
    assert [text.split(" ")[0] for text in page.locator(".heading small").all_inner_texts()] == ["9", "1", "1"]
    assert page.locator(".tile").last.get_attribute("id") == "image0"
    perhaps = page.locator(".tile:not(.given)").first
    assert perhaps.locator("b").inner_text() == "Outlier?"
    assert re.fullmatch(r"\d+ % confident, else (red|blue)", perhaps.locator(".caption span").inner_text())
    first = int(perhaps.get_attribute("data-id"))
    perhaps.click()
    page.keyboard.press("Enter")
    settled(page, 2)
    shown = session.snapshot()
    assert shown.given[first] == OUTLIER  # as was predicted
    assert (shown.n_checked - before.n_checked, shown.n_agreed - before.n_agreed) == (1, 1)
    selected = page.locator(".tile.selected").bounding_box()
    assert (
        selected is not None
        and selected["y"] >= 0
        and selected["y"] + selected["height"] <= page.viewport_size["height"]
    )


def test_what_is_more_probably_an_outlier_is_not_confirmed_as_a_class(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sala.labeling.label.answered_threshold", lambda *_: 1.0)  # it stays with its class
    session = page.session
    session.label([row_of(session, "green-3.png")], to=OUTLIER)
    shown = session.snapshot()
    green4, green5, red = (row_of(session, name) for name in ("green-4.png", "green-5.png", "red-4.png"))
    assert shown.is_likely_outlier[[green4, green5, red]].tolist() == [True, True, False]
    assert shown.placed()[green4] == shown.label[green4] != OUTLIER
    page.reload()
    page.wait_for_selector("body[data-ready]")
    steps = [
        ("all", green4, "Enter", "Outlier"),
        ("all", red, "Enter", "red"),
        ("uncertain", green5, "button", "Outlier"),
    ]
    for version, (view, i, gesture, said) in enumerate(steps, 2):
        page.click(f'[data-view="{view}"]')
        page.evaluate("document.querySelector('#scroller').scrollTop = " + ("1e6" if said == "Outlier" else "0"))
        assert said in page.inner_text(f"#image{i} b")
        page.click(f"#image{i}")
        assert said in page.inner_text("#accept")
        page.click("#accept") if gesture == "button" else page.keyboard.press(gesture)
        settled(page, version)
        assert session.snapshot().given[i] == (shown.label[red] if i == red else OUTLIER)


def test_the_view_says_why_nothing_is_rejected_until_an_outlier_is_known(page: Any) -> None:
    page.click('[data-view="outliers"]')
    why = page.session.snapshot().result.rejection_obstacle
    assert why and page.inner_text("#hint").endswith(why)
    page.session.label([row_of(page.session, "green-3.png")], to=OUTLIER)
    page.wait_for_function("() => !document.querySelector('#hint').textContent.includes('No image is rejected')")


def test_images_that_are_rejected_together_are_told_in_every_view_window_and_dialog(page: Any) -> None:
    other = page.context.new_page()
    other.goto(page.address + "#map")
    other.wait_for_selector("body[data-ready]")
    assert page.locator("#moved").is_hidden() and other.locator("#moved").is_hidden()
    for name in ("green-0.png", "green-1.png", "green-2.png"):
        page.click(f'.tile:has(img[alt="{name}"])', modifiers=["Control"])
    page.keyboard.press("0")
    settled(page, 1)
    page.wait_for_selector("#moved:visible")
    n = int(page.session.snapshot().is_rejected.sum())
    said = page.inner_text("#moved")
    assert said.startswith(f"{n} more images are rejected as outliers: there is an example of an outlier now")
    for view in ("suggestions", "uncertain", "outliers", "groups", "map", "all"):
        page.click(f'[data-view="{view}"]')
        assert page.locator("#moved").is_visible() and page.inner_text("#moved") == said
    other.wait_for_selector("#moved:visible")
    assert other.inner_text("#moved") == said
    page.click('.tile:has(img[alt="red-4.png"])')
    page.keyboard.press("Space")
    page.wait_for_selector("#viewer #moved:visible")
    page.keyboard.press("Enter")  # the sentence stays for some changes
    settled(page, 2)
    page.wait_for_function("() => document.querySelector('#viewer #moved')?.textContent.startsWith('1 change ago: ')")
    page.keyboard.press("Escape")
    assert page.inner_text("main > #moved") == f"1 change ago: {said}"
    other.close()

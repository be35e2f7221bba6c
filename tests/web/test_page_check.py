"""Labels to check on the page: what the server finds, the dialog, and an image beside examples."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.web.checks import Checks
from sala.web.session import Session
from tests.helpers.open_page import TALL, browser_opened, opened, settled, tile  # noqa: F401  (fixtures)
from tests.helpers.pages import COLORS, draw, open_session, row_of


@pytest.fixture
def wrong(folders: tuple[Path, Path]) -> tuple[Path, Path]:
    """Six images of each class more, and a red one among the blue."""
    rng = np.random.default_rng(9)
    for name in ("red", "blue"):
        for i in range(6):
            draw(folders[0] / name / f"more-{i}.png", COLORS[name], rng)
    draw(folders[0] / "blue" / "wrong.png", COLORS["red"], rng)
    return folders


def test_the_wrong_label_is_the_first_suspect_until_it_is_corrected(wrong: tuple[Path, Path]) -> None:
    session = open_session(wrong)
    checks, image = Checks(session), row_of(session, "blue/wrong.png")
    first = checks.describe()["suspects"][0]
    names = session.snapshot().names
    assert (first["image"], names[first["label"]], names[first["predicted"]]) == (image, "blue", "red")
    assert checks.suspects()["suspects"][0] == image
    session.label([image], to=first["predicted"])
    assert image not in [suspect["image"] for suspect in checks.describe()["suspects"]]


def test_a_class_with_one_example_is_named_and_without_examples_nothing_is_found(session: Session) -> None:
    session.add_class("green")
    session.label([row_of(session, "green-0.png")], to=2)
    assert 2 in Checks(session).describe()["unchecked"]
    session.label(list(range(4)), to=-3)
    session.label([row_of(session, "green-0.png")], to=-3)
    found = Checks(session).describe()
    assert (found["suspects"], found["near_duplicates"], found["hints"]) == ([], [], {})


def test_the_server_tells_what_to_check(port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/check") as answer:
        found = json.loads(answer.read())
    assert set(found) == {"version", "suspects", "unchecked", "near_duplicates", "hints", "measured", "can_turn"}
    assert found["measured"] > 0


@pytest.mark.slow
def test_a_suspect_is_shown_compared_and_corrected(browser: Any, wrong: tuple[Path, Path]) -> None:
    with opened(browser, wrong) as page:
        page.get_by_role("button", name="Check labels").click()
        first = page.locator("#check figure").first
        first.wait_for()
        assert first.locator("img").get_attribute("alt") == "blue/wrong.png"
        first.get_by_role("button", name="Compare").click()
        assert page.locator("#compare .column h2").all_inner_texts() == ["blue/wrong.png", "blue", "red"]
        page.keyboard.press("Escape")
        first.get_by_role("button", name="Label as red").click()
        settled(page, 1)
        session = page.session
        assert session.snapshot().given[row_of(session, "blue/wrong.png")] == session.snapshot().names.index("red")
        assert page.locator("#check .done img").get_attribute("alt") == "blue/wrong.png"
        page.keyboard.press("Control+z")
        settled(page, 2)
        assert session.snapshot().given[row_of(session, "blue/wrong.png")] == session.snapshot().names.index("blue")
        assert page.locator("#check .done").count() == 0


@pytest.mark.slow
def test_a_correction_in_the_dialog_is_told_there_with_an_undo(browser: Any, wrong: tuple[Path, Path]) -> None:
    with opened(browser, wrong) as page:
        page.get_by_role("button", name="Check labels").click()
        page.locator("#check figure").first.get_by_role("button", name="Label as red").click()
        page.locator("#check .undo-this").click()  # the rest of the page is inert
        settled(page, 2)
        assert page.session.n_events == 0


@pytest.mark.slow
def test_a_key_and_a_button_label_what_is_compared(browser: Any, folders: tuple[Path, Path]) -> None:
    with opened(browser, folders, viewport=TALL) as page:
        session: Session = page.session
        red4 = row_of(session, "red-4.png")
        tile(page, "red-4.png").click()
        page.keyboard.press("c")
        page.keyboard.press("1")
        settled(page, 1)
        assert session.snapshot().given[red4] == 0 and not page.locator("#compare").is_visible()
        tile(page, "red-4.png").dblclick()
        page.click("#viewer-compare")
        page.locator("#compare").get_by_role("button", name="Label as red").click()
        settled(page, 2)
        assert session.snapshot().given[red4] == 1


@pytest.mark.slow
def test_all_pictures_zoom_at_once(browser: Any, folders: tuple[Path, Path]) -> None:
    with opened(browser, folders) as page:
        tile(page, "red-4.png").click()
        page.keyboard.press("c")
        assert page.get_by_role("dialog", name="The image beside examples").is_visible()
        page.keyboard.press("+")
        scales = page.locator("#compare img").evaluate_all(
            "all => all.map((one) => new DOMMatrix(getComputedStyle(one).transform).a)"
        )
        assert len(scales) >= 3 and set(scales) == {1.5}
        page.locator("#compare .zoomed").first.hover()
        page.mouse.wheel(0, -100)
        assert "180 %" in page.inner_text("#compare .zoom")
        page.keyboard.press("Escape")
        assert page.session.n_events == 0

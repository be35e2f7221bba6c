"""The page itself in a real browser."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.labeling.project import OUTLIER, UNLABELED
from sala.web.downloads import to_csv
from sala.web.session import Session
from tests.helpers.open_page import browser_opened, count, opened, page_opened, rename, settled, tile  # noqa: F401  (fixtures)
from tests.helpers.pages import COLORS, HOSTILE, draw, fail_once, row_of


@pytest.mark.slow
def test_what_was_not_saved_is_said_so_until_something_is(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def say(name: str, to: int, state: str) -> None:
        tile(page, name).click()
        page.keyboard.press(str(to + 1))
        page.wait_for_selector(f'#saved[data-state="{state}"]')

    fail_once(monkeypatch, "fsync")
    say("red-4.png", 0, "failed")
    assert page.inner_text("#saved") == "not saved" and "No space left" in page.inner_text("#toast")
    assert not tile(page, "red-4.png").locator(".mark").inner_text()
    page.fill("#new-name", "red")  # a refusal in between changes nothing of that
    page.click("#add-class button")
    page.wait_for_function("() => document.querySelector('#toast').textContent.includes('already')")
    assert page.inner_text("#saved") == "not saved"
    page.fill("#new-name", "")
    say("red-4.png", 1, "saved")
    settled(page, 1)
    page.context.set_offline(True)
    say("red-5.png", 1, "failed")
    assert "does not answer" in page.inner_text("#toast")


@pytest.mark.slow
def test_the_page_counts_what_the_table_counts(page: Any) -> None:
    """Also where a confidence is below the threshold by less than is shown of it."""
    session: Session = page.session
    i = row_of(session, "blue-3.png")
    session.precision = float(session.snapshot().confidence[i]) + 1e-7
    session.label([row_of(session, "green-1.png")], to=OUTLIER)
    session.undo()
    page.reload()
    page.wait_for_selector("body[data-ready]")
    table = b"".join(to_csv(session)).decode()
    rows = list(csv.DictReader(io.StringIO(table)))
    uncertain = [Path(row["path"]).name for row in rows if row["verdict"] == "uncertain"]
    assert "blue-3.png" in uncertain
    assert page.inner_text('[data-view="uncertain"] small') == str(len(uncertain))
    page.click('[data-view="uncertain"]')
    assert sorted(page.locator(".tile img").evaluate_all("all => all.map((one) => one.alt)")) == sorted(uncertain)


@pytest.mark.slow
def test_a_caption_has_one_number_and_its_explanation_adds_up(page: Any) -> None:
    page.session.precision = 0.999  # so that some are uncertain
    page.session.add_class("not used")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    captions = page.locator(".tile:not(.given) .caption")
    for told, title in captions.evaluate_all("all => all.map((one) => [one.children[1].textContent, one.title])"):
        assert told.count("%") == 1 and "% confident" in told
        shares = [int(share) for share in re.findall(r"(\d+) %", title.replace("under 1 %", "0 %"))]
        assert 98 <= sum(shares) <= 101
    assert "else" in "".join(captions.all_inner_texts())


@pytest.mark.slow
def test_names_of_any_kind_are_shown_as_text(browser: Any, folders: tuple[Path, Path]) -> None:
    rng = np.random.default_rng(0)
    names = [name.replace("/", "∕") for name in HOSTILE if name.isprintable() or "\n" in name]
    for name in names:
        draw(folders[0] / name / "0.png", COLORS["green"], rng)
        draw(folders[1] / f"{name}.png", COLORS["green"], rng)
    with opened(browser, folders) as page:
        told = page.locator(".class .name").evaluate_all("all => all.map((one) => one.textContent)")
        assert set(told) == {*names, "blue", "red", "Outlier"}
        for name in names:
            page.fill("#find", name.splitlines()[0])  # so that it is in sight
            image = page.locator(".tile").filter(has=page.get_by_alt_text(f"{name}.png", exact=True))
            assert image.locator(".frame").get_attribute("title") == f"{name}.png"
        image.click()
        page.keyboard.press(str(told.index("<script>alert(1)<") + 1))
        settled(page, 1)
        page.keyboard.press("Escape")
        page.locator(".class", has_text="<script>alert(1)<").locator(".pick").click()
        assert image.locator("b").text_content() == "<script>alert(1)<"
        image.dblclick()
        assert page.locator("#viewer h2").text_content() == f"{names[-1]}.png"
        page.click("#viewer .close")
        rename(page, 0, "\"'><svg onload=alert(1)>")
        settled(page, 2)
        assert "\"'><svg onload=alert(1)>" in page.locator(".class .name").all_inner_texts()


@pytest.mark.slow
def test_enter_confirms_also_after_a_click_on_a_button(page: Any) -> None:
    """A button that was clicked has the focus, and Enter would press it again."""
    session: Session = page.session
    page.click('[data-view="suggestions"]')
    asked = int(page.locator(".tile.selected").get_attribute("data-id"))
    predicted = int(session.snapshot().most_probable()[asked])
    page.keyboard.press("Enter")
    settled(page, 1)
    assert session.snapshot().given[asked] == predicted

    first = int(page.locator(".tile.selected").get_attribute("data-id"))
    wrong = 1 - max(0, int(session.snapshot().most_probable()[first]))
    page.click(f'.assign[data-class="{wrong}"]')
    settled(page, 2)
    asked = int(page.locator(".tile.selected").get_attribute("data-id"))
    predicted = int(session.snapshot().most_probable()[asked])
    page.keyboard.press("Enter")
    settled(page, 3)
    assert session.snapshot().given[[first, asked]].tolist() == [wrong, predicted]


@pytest.mark.slow
def test_a_class_whose_adding_is_undone_is_left(page: Any) -> None:
    page.fill("#new-name", "leaf")
    page.click("#add-class button")
    settled(page, 1)
    page.click('.class[data-class="2"] .pick')
    assert "No image is in this class" in page.inner_text("#hint")
    page.click("#undo")
    settled(page, 2)
    assert page.locator("[aria-current]").get_attribute("data-view") == "all"


@pytest.mark.slow
def test_skipped_files_are_counted_in_sight_and_listed(browser: Any, folders: tuple[Path, Path]) -> None:
    (folders[1] / "empty.png").write_bytes(b"")
    (folders[1] / "<b>page.jpg").write_bytes(b"<script>alert(1)</script>")
    with opened(browser, folders) as page:
        assert page.inner_text("#skipped-button") == "2 files skipped"
        page.click("#skipped-button")
        sentences = page.locator("#skipped li").all_inner_texts()
        assert len(sentences) == 2 and any("<b>page.jpg" in sentence for sentence in sentences)
        page.click("#skipped form button")
        assert not page.locator("#skipped").is_visible()


@pytest.mark.slow
def test_a_finger_labels_looks_and_undoes(browser: Any, folders: tuple[Path, Path]) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with opened(browser, folders, **phone) as page:
        session: Session = page.session
        assert "press" not in page.inner_text("#hint").lower() and "Tap" in page.inner_text("#hint")
        assert not page.locator("kbd:visible").count()
        page.fill("#find", "red-")  # so that they are in sight
        tile(page, "red-4.png").tap()
        page.locator('.assign[data-class="0"]').tap()
        settled(page, 1)
        red4, red5 = row_of(session, "red-4.png"), row_of(session, "red-5.png")
        assert session.snapshot().given[red4] == 0
        page.tap("#undo")
        settled(page, 2)
        assert session.snapshot().given[red4] == UNLABELED

        # more than one
        tile(page, "red-4.png").tap()
        page.tap("#more")
        tile(page, "red-5.png").tap()
        page.locator('.assign[data-class="1"]').tap()
        settled(page, 3)
        assert session.snapshot().given[[red4, red5]].tolist() == [1, 1]

        # the large picture says what else the image may be, since a finger cannot point
        image = page.locator(".tile:not(.given)").first
        name = image.locator("img").get_attribute("alt")
        image.tap()
        page.tap("#look")
        assert page.inner_text("#viewer h2") == name and "How probable" in page.inner_text("#viewer")
        page.tap('[data-arrow="ArrowRight"]')
        assert page.inner_text("#viewer h2") != name
        page.tap("#viewer .close")

        # the map: a tap shows the picture; help speaks of taps
        page.tap('[data-view="map"]')
        page.wait_for_selector("#map-wait", state="hidden")
        x, y = page.evaluate(POINT, row_of(session, "red-7.png"))
        page.touchscreen.tap(x, y)
        page.wait_for_selector("#peek:not([hidden])")
        page.tap("#help-button")
        assert "tap an image" in page.inner_text("#help") and "Ctrl" not in page.inner_text("#help")


# where an image is on the map, at its first zoom
POINT = """async (id) => {
  const { points } = await (await fetch("api/map")).json(), box = document.querySelector("#points").getBoundingClientRect();
  const side = Math.min(box.width, box.height) - 50, stretch = Math.min(1.7, Math.max(1, box.width / box.height));
  return [box.x + box.width / 2 + (points[2 * id] / 4095 - 0.5) * side * stretch,
          box.y + box.height / 2 + (points[2 * id + 1] / 4095 - 0.5) * side];
}"""

"""Labels of a file, in a real browser: chosen by mouse or keys, dropped, told in a sentence, undone at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.open_page import browser_opened, opened, settled  # noqa: F401  (fixtures)

pytestmark = pytest.mark.slow
TABLE = "path,label\ngreen-0.png,green\ngreen-1.png,green\nred-3.png,outlier\nnowhere.png,red\n"
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
DROP = """([text, n]) => {
  const data = new DataTransfer();
  for (let i = 0; i < n; i++) data.items.add(new File([text], "labels.csv"));
  for (const kind of ["dragover", "drop"])
    document.querySelector("main").dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def choose(page: Any, press: Any, path: Path) -> None:
    """Press what opens a file chooser. Playwright catches choosers some time after it was asked to: one that opens at once
    is lost, so an answer of the page is waited for in between."""
    page.once("filechooser", lambda chooser: chooser.set_files(path))
    page.evaluate("0")
    press()


@pytest.mark.parametrize("options", [{}, PHONE], ids=["desktop", "phone"])
def test_a_file_is_taken_told_of_and_undone_at_once(
    browser: Any, folders: tuple[Path, Path], tmp_path: Path, options: Any
) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    with opened(browser, folders, **options) as page:
        choose(page, page.locator("#upload").click, tmp_path / "t.csv")
        note = page.locator("#done .note")
        note.wait_for()
        for told in ("3 labels taken", "1 new class: green", "1 file is not in this pool"):
            assert told in note.inner_text()
        settled(page, 1)
        assert "green" in page.session.snapshot().names
        note.get_by_role("button", name="Undo").click()
        settled(page, 2)
        assert page.session.n_events == 0 and "green" not in page.session.snapshot().names


def test_a_file_is_taken_by_keys_alone(browser: Any, folders: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TABLE)
    with opened(browser, folders) as page:
        for _ in range(100):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id") == "upload":
                break
        assert page.evaluate("document.activeElement.id") == "upload"
        choose(page, lambda: page.keyboard.press("Enter"), tmp_path / "t.csv")
        page.locator("#done .note").wait_for()
        settled(page, 1)
        page.keyboard.press("Control+z")
        settled(page, 2)
        page.keyboard.press("Control+y")
        settled(page, 3)
        assert page.session.n_events == 1


def test_a_dropped_file_is_taken_and_two_are_not(browser: Any, folders: tuple[Path, Path]) -> None:
    with opened(browser, folders) as page:
        page.evaluate(DROP, [TABLE, 2])
        page.locator("#toast").get_by_text("one file").wait_for()
        page.evaluate(DROP, [TABLE, 1])
        page.locator("#done .note").wait_for()
        settled(page, 1)


def test_a_file_without_labels_is_told_in_a_sentence_and_changes_nothing(
    browser: Any, folders: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("nothing\n")
    with opened(browser, folders) as page:
        choose(page, page.locator("#upload").click, tmp_path / "t.csv")
        page.locator("#toast").get_by_text("columns path and label").wait_for()
        assert page.locator("#saved").get_attribute("data-state") == "saved"
        assert page.session.n_events == 0 and page.locator("#undo").is_disabled()

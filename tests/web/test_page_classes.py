"""Classes are moved, merged and deleted on the page, and no label is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sala.labeling.project import UNLABELED
from tests.helpers.open_page import browser_opened, opened, page_opened, settled, tile  # noqa: F401  (fixtures)
from tests.helpers.pages import row_of

pytestmark = pytest.mark.slow

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
DONE = "#done .note"


def open_menu(page: Any, number: int) -> None:
    page.locator(f'.class[data-class="{number}"] .pick').click()  # on a phone only the open class has its menu
    page.locator(f'.class[data-class="{number}"] .menu-button').click()


def names(page: Any) -> list[str]:
    found: list[str] = page.locator(".class .name").all_inner_texts()
    return found


@pytest.mark.parametrize("options", [{}, PHONE])
def test_a_class_is_moved_merged_and_deleted_and_all_of_it_undone(
    browser: Any, folders: tuple[Path, Path], options: Any
) -> None:
    with opened(browser, folders, **options) as page:
        session = page.session
        before = session.snapshot().given.tolist()

        open_menu(page, 1)
        page.click("#class-up")
        settled(page, 1)
        assert names(page) == ["red", "blue", "Outlier"]
        assert page.locator("[aria-current]").inner_text().startswith("red")  # the class in view has moved along

        open_menu(page, 1)
        assert "2 labels" in page.inner_text("#class-merge-text")
        page.click("#class-merge")
        settled(page, 2)
        assert names(page) == ["red", "Outlier"] and (session.snapshot().given[:4] == 0).all()
        assert "blue merged into red" in page.inner_text(DONE)
        page.click(f"{DONE} button")
        settled(page, 3)
        assert names(page) == ["red", "blue", "Outlier"]

        open_menu(page, 0)
        page.click("#class-delete")
        settled(page, 4)
        assert names(page) == ["blue", "Outlier"] and (session.snapshot().given[2:4] == UNLABELED).all()
        page.click("#undo")
        settled(page, 5)
        page.click("#undo")
        settled(page, 6)
        assert names(page) == ["blue", "red", "Outlier"] and session.snapshot().given.tolist() == before


def test_a_key_means_the_class_that_is_seen(page: Any) -> None:
    """Another tab moves the classes just before the key is pressed."""
    session, red4 = page.session, row_of(page.session, "red-4.png")
    tile(page, "red-4.png").click()
    page.route("**/api/changes*", lambda route: route.abort())  # what the other does is not known here yet
    page.route("**/api/state", lambda route: route.abort())
    session.order_classes([1, 0])
    page.keyboard.press("1")
    page.wait_for_selector("#toast:not([hidden])")
    assert session.snapshot().given[red4] == UNLABELED and session.n_events == 1

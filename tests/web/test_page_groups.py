"""Groups of similar images, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.labeling.project import OUTLIER, UNLABELED
from sala.web.details import LazyDetails
from sala.web.groups import LazyGroups
from sala.web.session import Session
from tests.helpers.open_page import browser_opened, opened, page_opened, settled  # noqa: F401  (fixtures)
from tests.helpers.pages import row_of

pytestmark = pytest.mark.slow

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
DONE = "#done .note"


def groups(session: Session) -> dict[str, Any]:
    return LazyGroups(session, LazyDetails(session)).describe()


@pytest.mark.parametrize("options", [{}, PHONE])
def test_one_click_confirms_a_group_and_one_undo_takes_it_back(
    browser: Any, folders: tuple[Path, Path], options: Any
) -> None:
    with opened(browser, folders, view="#groups", **options) as page:
        session = page.session
        page.wait_for_selector(".heading .main")
        to, images = groups(session)["groups"][0]
        n = page.locator(".heading").count()
        assert n > 1 and f"all {len(images)}" in page.locator(".heading .main").first.inner_text()
        page.locator(".heading .main").first.click()
        settled(page, 1)
        assert (session.snapshot().given[images] == to).all() and session.n_events == 1
        assert (session.snapshot().given[4:] != UNLABELED).sum() == len(images)
        assert f"{len(images)} images" in page.inner_text(DONE)
        page.click(f"{DONE} button")
        settled(page, 2)
        assert (session.snapshot().given[4:] == UNLABELED).all()
        assert page.locator(".heading").count() == n


def test_a_group_is_looked_at_and_corrected(page: Any) -> None:
    session = page.session
    page.click('[data-view="groups"]')
    page.wait_for_selector(".heading .main")
    images = groups(session)["groups"][0][1]
    heading = page.locator(".heading").first
    heading.get_by_text("Select").click()
    assert f"{len(images)} images" in page.inner_text("#assign-text") and session.n_events == 0
    page.click(f'.assign[data-class="{OUTLIER}"]')
    settled(page, 1)
    assert (session.snapshot().given[images] == OUTLIER).all()


def test_a_group_is_confirmed_by_keys_alone(page: Any) -> None:
    session = page.session
    page.click('[data-view="groups"]')
    page.wait_for_selector(".heading .main")
    to, images = groups(session)["groups"][0]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Enter")
    settled(page, 1)
    assert (session.snapshot().given[images] == to).all()


def test_an_image_that_was_labeled_meanwhile_leaves_its_group(page: Any) -> None:
    session = page.session
    page.click('[data-view="groups"]')
    page.wait_for_selector(".heading .main")
    to, images = groups(session)["groups"][0]
    session.label(images[:1], to=to)
    page.wait_for_function("() => document.querySelector('#n-given').textContent.startsWith('1 of')")
    page.locator(".heading .main").first.click()
    settled(page, 2)
    given = session.snapshot().given
    assert np.isin(given[images], [to, UNLABELED]).all() and given[row_of(session, "red-0.png")] in (1, UNLABELED)

"""The page, open in a real browser, and what one does there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.browser import chromium
from tests.helpers.pages import COLORS, draw, open_session, running

TALL: Any = {"width": 1300, "height": 2000}  # all tiles of the small pool are there, wherever a label moves them


@pytest.fixture(name="browser", scope="module")
def browser_opened() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@contextmanager
def opened(browser: Any, folders: tuple[Path, Path], view: str = "#all", **options: Any) -> Iterator[Any]:
    """Open the page at a view; whatever it complains of on its console is a failure."""
    with running(open_session(folders)) as server:
        complaints: list[str] = []
        size = {"width": 1300, "height": 800}
        context = browser.new_context(**({"viewport": size, "accept_downloads": True} | options))
        page = context.new_page()
        page.set_default_timeout(180_000)  # machines may be busy
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.session = server.session  # type: ignore[attr-defined]
        page.address = server.address  # type: ignore[attr-defined]
        page.goto(server.address + view)
        page.wait_for_selector("body[data-ready]")
        yield page
        assert not [text for text in complaints if "Failed to load resource" not in text]  # what a test asks for
        context.close()


@pytest.fixture(name="page")
def page_opened(browser: Any, folders: tuple[Path, Path]) -> Iterator[Any]:
    draw(folders[1] / "<img src=x onerror=alert(1)>.png", COLORS["red"], np.random.default_rng(1))
    with opened(browser, folders) as page:
        yield page


def tile(page: Any, name: str) -> Any:
    return page.locator(".tile").filter(has=page.get_by_alt_text(name, exact=True))


def count(page: Any, number: int) -> int:
    return int(page.locator(f'.class[data-class="{number}"] .count').inner_text())


def rename(page: Any, number: int, name: str) -> None:
    page.locator(f'.class[data-class="{number}"] .pick').hover()
    page.locator(f'.class[data-class="{number}"] .rename').click()
    page.keyboard.type(name)
    page.keyboard.press("Enter")


def settled(page: Any, version: int) -> None:
    """Wait until the page shows this version, saved and fitted."""
    page.wait_for_function(
        "() => document.querySelector('#saved').dataset.state === 'saved' && !document.querySelector('#saved').dataset.fitting"
    )
    assert page.session.snapshot().version == version

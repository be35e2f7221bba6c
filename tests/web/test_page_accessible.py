"""Who cannot see, or uses keys alone, can label: axe-core finds nothing serious, and Tab follows the order of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.open_page import browser_opened, opened  # noqa: F401  (fixtures)

pytestmark = pytest.mark.slow
DESKTOP: dict[str, Any] = {"viewport": {"width": 1300, "height": 800}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
SIZES = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
VIEWS = ("suggestions", "uncertain", "outliers", "groups", "all", "map", "class-0")
OPENERS = {  # of each dialog
    "help": "#help-button",
    "progress": "#progress-button",
    "class-menu": '.class[data-class="0"] .menu-button',
    "viewer": "#look",
    "compare": "#compare-button",
    "check": "#check-button",
}
FOCUSED = """() => {
  const one = document.activeElement, box = one.getBoundingClientRect(), style = getComputedStyle(one);
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== "none";
  return { name: one.id || one.dataset.view || one.className, part: one.closest("header, nav, aside, main, footer")?.localName,
           visible: box.width > 0 && box.height > 0, seen };
}"""


def findings(page: Any) -> list[str]:
    """What axe-core calls serious or critical in light and in dark, with the elements."""
    from axe_playwright_python.sync_playwright import Axe

    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for one in Axe().run(page).response["violations"]:
            if one["impact"] in ("serious", "critical"):
                node = one["nodes"][0]
                found.append(f"{scheme}: {one['id']}: {node['html'][:160]}: {node['failureSummary'][:300]}")
    return found


@SIZES
def test_axe_finds_nothing_serious_in_any_view(browser: Any, folders: tuple[Path, Path], size: Any) -> None:
    found: dict[str, list[str]] = {}
    with opened(browser, folders, **size) as page:
        for view in VIEWS:
            page.evaluate("(view) => { location.hash = view; }", view)
            shown = "class" if view.startswith("class") else view
            page.wait_for_selector(f'[data-view="{shown}"][aria-current="true"]')
            if page.locator(".tile:visible").count():  # some views are empty at first
                page.locator(".tile:visible").first.click()  # what is selected brings the bar
            found[view] = findings(page)
    assert not {view: some for view, some in found.items() if some}


@SIZES
def test_axe_finds_nothing_serious_in_any_dialog(browser: Any, folders: tuple[Path, Path], size: Any) -> None:
    found: dict[str, list[str]] = {}
    with opened(browser, folders, **size) as page:
        for dialog, opener in OPENERS.items():
            if dialog == "class-menu":  # a phone has the menu of the open class only, and none beside a selection
                page.locator('.class[data-class="0"] .pick').click()
            if dialog == "viewer":
                page.locator(".tile:visible").first.click()
            page.locator(opener).click()
            page.wait_for_selector(f"#{dialog}[open]")
            found[dialog] = findings(page)
            page.keyboard.press("Escape")
            page.wait_for_selector(f"#{dialog}", state="hidden")
    assert not {dialog: some for dialog, some in found.items() if some}


def test_tab_goes_through_the_parts_in_their_order_and_is_seen(browser: Any, folders: tuple[Path, Path]) -> None:
    with opened(browser, folders, "#all") as page:
        page.locator(".tile").first.click()
        page.evaluate("() => { document.body.tabIndex = -1; document.body.focus(); }")  # Tab begins at the top
        stops = []
        for _ in range(80):
            page.keyboard.press("Tab")
            stops.append(page.evaluate(FOCUSED))
            if stops[-1]["part"] is None:  # behind the last part the browser begins anew
                break
    stops = [stop for stop in stops if stop["part"] is not None]
    assert all(stop["visible"] and stop["seen"] for stop in stops), [
        s for s in stops if not (s["visible"] and s["seen"])
    ]
    parts = list(dict.fromkeys(stop["part"] for stop in stops))
    assert parts == ["header", "nav", "aside", "main", "footer"]
    assert [stop["part"] for stop in stops] == sorted((stop["part"] for stop in stops), key=parts.index)
    assert {"upload", "suggestions", "new-name", "find", "scroller", "accept"} <= {stop["name"] for stop in stops}

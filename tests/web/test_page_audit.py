"""The random audit and the goal in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sala.web.session import OUTLIER, UNLABELED, Session
from tests.helpers.open_page import browser_opened, opened, settled  # noqa: F401  (fixture)
from tests.helpers.pages import row_of


def test_images_are_drawn_checked_and_told_of(browser: Any, folders: tuple[Path, Path]) -> None:
    with opened(browser, folders) as page:
        session: Session = page.session
        page.wait_for_function("() => /–/.test(document.querySelector('#estimate').textContent)")
        page.click("#audit-button")
        page.click("#audit-go")
        page.wait_for_selector("#audit[open]")
        for n in range(20):
            page.wait_for_function(f"() => document.querySelector('#audit-count').textContent === '{n + 1} of 20'")
            item = session.audit().upcoming[0]
            assert page.locator("#audit .asked p").inner_text() == session.project.items[item].path
            name = session.project.items[item].path.partition("-")[0]
            page.keyboard.press({"blue": "1", "red": "2"}.get(name, "0"))
        page.wait_for_selector("#progress[open]")
        page.wait_for_selector("#audit-shares:not([hidden])")
        share = session.audit().shares["all"]
        assert session.audit().n_drawn == 20 and f"{share.n_right} of 20" in page.inner_text("#audit-shares")
        assert re.search(r"between \d+ and \d+ % right", page.inner_text("#audit-shares"))
        page.click("#progress form[method=dialog] button")
        session.label([row_of(session, session.project.items[4].path)], OUTLIER)
        page.reload()
        page.wait_for_selector("body[data-ready]")
        page.wait_for_function("() => /–/.test(document.querySelector('#audited').textContent)")
        page.click("#audit-button")
        assert "since" in page.inner_text("#audit-stale")


def test_an_answer_is_taken_back_and_its_image_asked_for_again(browser: Any, folders: tuple[Path, Path]) -> None:
    with opened(browser, folders) as page:
        session: Session = page.session
        page.wait_for_function("() => /–/.test(document.querySelector('#estimate').textContent)")
        page.click("#audit-button")
        page.click("#audit-go")
        page.wait_for_selector("#audit[open]")
        drawn, asked = session.audit().upcoming[0], page.inner_text("#audit .asked p")
        page.keyboard.press("1")
        page.click("#audit .undo-this")
        settled(page, 3)
        page.wait_for_function("() => !document.querySelector('#audit').classList.contains('waiting')")
        assert session.snapshot().given[drawn] == UNLABELED and session.audit().n_drawn == 0
        page.keyboard.press("1")
        page.wait_for_function("() => document.querySelector('#audit-count').textContent === '2 of 20'")
        assert session.snapshot().given[drawn] == 0
        page.keyboard.press("Control+z")
        page.wait_for_function("() => document.querySelector('#audit-count').textContent === '1 of 20'")
        assert session.snapshot().given[drawn] == UNLABELED and page.inner_text("#audit .asked p") == asked


def test_a_goal_is_kept_and_answered(browser: Any, folders: tuple[Path, Path]) -> None:
    with opened(browser, folders) as page:
        page.wait_for_function("() => /–/.test(document.querySelector('#estimate').textContent)")
        page.click("#progress-button")
        assert page.evaluate("document.activeElement.id") == "progress"  # no field: a phone would show its keyboard
        page.fill("#goal", "99.5")
        page.wait_for_function("() => /at most/.test(document.querySelector('#goal-text').textContent)")
        page.fill("#goal", "5")
        page.wait_for_function("() => /Reached/.test(document.querySelector('#goal-text').textContent)")
        page.reload()
        page.wait_for_function("() => /–/.test(document.querySelector('#estimate').textContent)")
        page.click("#progress-button")
        assert page.input_value("#goal") == "5"


def test_outliers_that_leave_together_are_explained_on_the_screen(browser: Any, folders: tuple[Path, Path]) -> None:
    with opened(browser, folders) as page:
        session: Session = page.session
        session.label([row_of(session, f"green-{i}.png") for i in range(3)], OUTLIER)
        n_rejected = session.snapshot().is_rejected.sum()
        assert n_rejected > 3
        session.add_class("green")
        page.reload()
        page.wait_for_selector("body[data-ready]")
        for i in range(3):
            page.locator(f'.tile[data-id="{row_of(session, f"green-{i}.png")}"]').click(modifiers=["Control"])
        page.click('.assign[data-class="2"]')
        settled(page, 3)
        assert not session.snapshot().is_rejected.any()
        told = page.evaluate(
            "() => fetch('api/progress').then((answer) => answer.json()).then((all) => all.rejections)"
        )
        assert told.startswith(f"{n_rejected} ")
        page.locator("#moved").get_by_text(told, exact=True).wait_for()

"""A real browser for tests: the system's Chromium, or the one that Playwright fetches, driven by Playwright."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless browser. Where there is none the test is skipped; under CI that is a failure."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        missing("Playwright is not installed; run `pip install playwright`, or `make test`, which does")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=executable(playwright), args=["--no-sandbox"])
        except Error as error:
            missing(f"Chromium does not start: {str(error).splitlines()[0]}")
        try:
            yield browser
        finally:
            browser.close()


def executable(playwright: Any) -> str:
    """$SALA_CHROMIUM, the system's, Playwright's, or Playwright's after fetching it."""
    system = [os.environ.get("SALA_CHROMIUM"), *map(shutil.which, NAMES), playwright.chromium.executable_path]
    for path in system:
        if path and os.path.isfile(path):
            return path
    command = [sys.executable, "-m", "playwright", "install", "chromium"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=600)
    except (subprocess.SubprocessError, OSError):
        missing("there is no Chromium here and Playwright cannot fetch one; install the system's package `chromium`")
    return str(playwright.chromium.executable_path)


def missing(reason: str) -> None:
    if os.environ.get("CI") or os.environ.get("SALA_CI"):
        pytest.fail(f"THE PAGE WAS NOT TESTED IN A BROWSER, which CI must: {reason}")
    pytest.skip(f"THE PAGE WAS NOT TESTED IN A BROWSER: {reason}")

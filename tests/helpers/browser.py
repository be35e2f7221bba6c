"""A real browser for tests: the system's Chromium, or the one that Playwright fetches, driven by Playwright."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

UNATTENDED = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
ALONE = [  # no sandbox for root; no talk to the maker's servers
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip
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
            browser = playwright.chromium.launch(executable_path=executable(playwright), args=ALONE)
        except Error as error:
            missing(f"Chromium does not start: {str(error).splitlines()[0]}")
        try:
            yield browser
        finally:
            browser.close()


def executable(playwright: Any) -> str:
    """$SALA_CHROMIUM, the system's, or Playwright's; where there is none, the system's package is installed if we are
    root (as in a container), else Playwright fetches its own."""
    if path := found(playwright):
        return path
    commands = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if shutil.which("apt-get") and os.geteuid() == 0:
        commands = [
            ["apt-get", "-qq", "update"],
            ["apt-get", "-qqy", "install", "--no-install-recommends", "chromium"],
            *commands,
        ]
    for command in commands:
        with suppress(subprocess.SubprocessError, OSError):
            subprocess.run(command, check=True, capture_output=True, timeout=600, env=UNATTENDED)
        if path := found(playwright):
            return path
    missing("there is no Chromium here and none can be fetched; install the system's package `chromium`")
    raise AssertionError


def found(playwright: Any) -> str | None:
    places = [os.environ.get("SALA_CHROMIUM"), *map(shutil.which, NAMES), playwright.chromium.executable_path]
    return next((path for path in places if path and os.path.isfile(path)), None)


def missing(reason: str) -> None:
    if os.environ.get("CI") or os.environ.get("SALA_CI"):
        pytest.fail(f"THE PAGE WAS NOT TESTED IN A BROWSER, which CI must: {reason}")
    pytest.skip(f"THE PAGE WAS NOT TESTED IN A BROWSER: {reason}")

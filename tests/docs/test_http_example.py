"""The example of the HTTP reference runs as it stands, and the page lists no address that the reference does not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from sala.web.downloads import DOWNLOADS
from sala.web.session import Session
from tests.helpers.pages import COLORS, draw, folders, open_session, running  # noqa: F401  (fixture)

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")


def test_a_script_labels_as_the_reference_says(folders: tuple[Path, Path]) -> None:  # noqa: F811
    for i in range(3):
        draw(folders[1] / f"owl-{i}.png", COLORS["green"], np.random.default_rng(50 + i))
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    session: Session = open_session(folders)
    with running(session) as server:
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, env={**os.environ, "SALA_PAGE": server.address}, capture_output=True, text=True, check=True
        )
        shown = session.snapshot()
    owls = [i for i, item in enumerate(session.project.items) if "owl" in item.path]
    assert shown.names == ("blue", "red", "owl") and shown.given[owls].tolist() == [2, 2, 2]
    assert {"low", "mean", "high", "why"} <= set(re.findall(r"'(\w+)'", done.stdout))


def test_every_address_of_the_page_is_in_the_reference() -> None:
    app = (ROOT / "sala" / "web" / "app.py").read_text(encoding="utf-8")
    for path in re.findall(r'Route\("(/[a-z/]+?)(?:/\{number\})?"', app):
        assert path in PAGE, path
    assert all(name in PAGE for name in DOWNLOADS)
    api = (ROOT / "sala" / "web" / "api.py").read_text(encoding="utf-8")
    for what in re.findall(r'what == "(\w+)"', api):
        assert f'"do": "{what}"' in PAGE, what

"""The built site: no broken link, every public name, nothing from the network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import sala

pytest.importorskip("mkdocs", reason="the docs are built with the extra `docs`")
ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=[\"']?(https?:)?//|url\([\"']?https?:|@import"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "api.html").read_text(encoding="utf-8")
    missing = [name for name in sala.__all__ if f'id="sala.{name}"' not in text]
    assert not missing


@pytest.mark.slow
def test_the_pages_load_nothing_from_the_network(site: Path) -> None:
    for path in [*site.glob("**/*.html"), *site.glob("**/*.css")]:
        assert not LOADED.search(path.read_text(encoding="utf-8")), path


@pytest.mark.slow
def test_equations_are_mathml(site: Path) -> None:
    text = (site / "explanation" / "classifier.html").read_text(encoding="utf-8")
    assert text.count("<math") > 20
    assert "arithmatex" not in text

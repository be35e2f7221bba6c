"""The wheel: built from a clean copy, installed elsewhere, with every file it needs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import sala

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {p.relative_to(ROOT).as_posix() for p in Path(sala.__file__).parent.rglob("*") if p.is_file()}
    wanted = {name for name in package if "__pycache__" not in name}
    assert wanted <= names
    assert all(name.startswith("sala/") or ".dist-info/" in name for name in names)

"""The code of the tutorials and of the reference runs as it stands there, with less data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sala.data import ImageStore
from tests.helpers.documented import blocks, run_page, run_python


def test_the_tutorial_on_features_runs(tmp_path: Path) -> None:
    printed = run_page("docs/tutorials/classifier.md", tmp_path)
    ours, baseline, auroc = (float(x) for x in re.findall(r": (0\.\d+)", printed))
    assert ours > baseline
    assert auroc > 0.7
    assert (tmp_path / "digits.safetensors").exists()


@pytest.mark.slow
def test_the_tutorial_on_photos_runs(tmp_path: Path) -> None:
    run_page("docs/tutorials/label-photos.md", tmp_path)
    assert {"labels.csv", "report.html", "model.safetensors"} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert (tmp_path / "new.csv").read_text().count("\n") == 3


@pytest.mark.slow
def test_the_tutorial_on_comparisons_runs(tmp_path: Path, glyphs: ImageStore) -> None:
    assert "±" in run_page("docs/tutorials/compare-methods.md", tmp_path)


@pytest.mark.slow
def test_the_page_on_the_library_runs(tmp_path: Path, glyphs: ImageStore) -> None:
    printed = run_page("docs/reference/library.md", tmp_path)
    assert "paired difference:" in printed and "\n4 [(2, " in printed  # stopped after the second validation


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_the_lines_beside_those_of_other_libraries_run(number: int, tmp_path: Path, glyphs: ImageStore) -> None:
    pages = [block.body for block in blocks("docs/reference/from-other-libraries.md", "python")]
    ours, theirs = pages[2 * number + 1], pages[2 * number]
    assert ours.startswith("import sala\n") and "sala" not in theirs
    assert "±" in run_python(ours, tmp_path)

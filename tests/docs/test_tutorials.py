"""The code of the README, the tutorials and the page on methods of one's own runs as it stands there, with less data."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sala.data import ImageStore

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)(?: title=\"([\w.]+)\")?\n(.*?)^```", re.DOTALL | re.MULTILINE)
LEFT_TO_READERS = ("pip ", "make ", "sala serve ")  # what installs, or waits for a user
LESS = {  # less data and fewer episodes than a reader takes
    "range(30 if": "range(6 if",
    "--episodes 1000": "--episodes 6",
    "--episodes 500": "--episodes 6",
    "--episodes 300": "--episodes 6",
    "n_episodes=500": "n_episodes=6",
    "n_episodes=200": "n_episodes=6",
}


def run_page(page: str, folder: Path) -> str:
    """All blocks of a page in their order: files with a title are written, commands and Python run. Gives what was printed."""
    printed, session = "", ""
    for language, title, body in FENCE.findall((ROOT / page).read_text(encoding="utf-8")):
        for much, less in LESS.items():
            body = body.replace(much, less)
        if title:
            (folder / title).write_text(body, encoding="utf-8")
        elif language == "python":
            session += body
        elif language == "console":
            printed += "".join(run(words, folder) for words in commands_of(body))
    if session:
        (folder / "session.py").write_text(session, encoding="utf-8")
        printed += run([sys.executable, "-W", "error", "session.py"], folder)
    return printed


def commands_of(block: str) -> list[list[str]]:
    lines = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    python = {"sala": [sys.executable, "-m", "sala"], "python": [sys.executable]}
    found = []
    for line in lines:
        if not line.startswith(LEFT_TO_READERS) and "--state" not in line:
            first, *words = shlex.split(line, comments=True)
            found.append([*python.get(first, [first]), *words])
    return found


def run(command: list[str], folder: Path) -> str:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr}"
    return done.stdout


def test_the_readme_example_runs(tmp_path: Path) -> None:
    (code,) = [
        body
        for language, _, body in FENCE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
        if language == "python"
    ]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    (tmp_path / "example.py").write_text(code)
    assert re.search(r"\d\d\.\d% right", run([sys.executable, "-W", "error", "example.py"], tmp_path))


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
def test_the_documented_method_is_trained_measured_and_compared(tmp_path: Path, glyphs: ImageStore) -> None:
    assert "±" in run_page("docs/how-to/write-a-method.md", tmp_path)


@pytest.mark.slow
def test_a_changed_or_foreign_method_file_is_not_run_by_opening_a_run(tmp_path: Path, glyphs: ImageStore) -> None:
    page = (ROOT / "docs/how-to/write-a-method.md").read_text(encoding="utf-8")
    (source,) = [body for _, title, body in FENCE.findall(page) if title == "confident.py"]
    name, path, sala = "confident.py:Confident", tmp_path / "confident.py", [sys.executable, "-m", "sala"]
    path.write_text(source)
    run([*sala, "train", "--method", name, "--episodes", "4", "--threads", "1", "--out", "run"], tmp_path)
    path.write_text(source + "\nopen('executed', 'w').close()\n")
    test = [*sala, "evaluate", "run", "--episodes", "4"]
    refused = subprocess.run(test, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "trust" in refused.stderr
    assert not (tmp_path / "executed").exists()
    run([*test, "--method", name], tmp_path)
    assert (tmp_path / "executed").exists()

"""What the README and the docs show is run here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sala.data import ImageStore
from sala.methods import METHODS

ROOT = Path(__file__).parent.parent


def blocks(document: str, language: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
    )


def test_the_example_in_the_readme_runs(tmp_path: Path, glyphs: ImageStore) -> None:
    (example,) = blocks("README.md", "python")
    assert len([line for line in example.splitlines() if line.strip()]) <= 12
    quick = example.replace("n_episodes=500", "n_episodes=20").replace("n_episodes=200", "n_episodes=10")
    assert quick != example
    (tmp_path / "example.py").write_text(quick)
    result = run([sys.executable, "-W", "error", "example.py"], tmp_path)
    assert result.returncode == 0, result.stderr
    assert re.search(r"\d\d\.\d\d ± \d+\.\d\d %", result.stdout)


@pytest.fixture
def own_method(tmp_path: Path) -> Path:
    (code,) = blocks("docs/your-own-method.md", "python")
    assert len(code.splitlines()) <= 50
    (tmp_path / "confident.py").write_text(code)
    return tmp_path


def test_the_documented_method_is_trained_measured_and_compared(own_method: Path, glyphs: ImageStore) -> None:
    """The very commands of the page, with fewer episodes."""
    (session,) = blocks("docs/your-own-method.md", "console")
    for line in session.splitlines():
        words = line.removeprefix("$ sala ").replace("--episodes 300", "--episodes 6").split()
        result = run([sys.executable, "-m", "sala", *words], own_method)
        assert result.returncode == 0, f"{line}\n{result.stderr}"


def test_a_changed_or_foreign_file_is_not_run_by_opening_a_run(own_method: Path, glyphs: ImageStore) -> None:
    name = "confident.py:Confident"
    sala = [sys.executable, "-m", "sala"]
    train = ["train", "--method", name, "--episodes", "4", "--threads", "1", "--out", "run"]
    assert run([*sala, *train], own_method).returncode == 0
    source = own_method / "confident.py"
    source.write_text(source.read_text() + "\nopen('executed', 'w').close()\n")
    refused = run([*sala, "evaluate", "run", "--episodes", "4"], own_method)
    assert refused.returncode == 1
    assert "if you trust it, name it" in refused.stderr.replace("\n", " ")
    assert not (own_method / "executed").exists()
    trusted = run([*sala, "evaluate", "run", "--episodes", "4", "--method", name], own_method)
    assert trusted.returncode == 0, trusted.stderr
    assert (own_method / "executed").exists()


def test_every_command_named_in_the_documents_exists() -> None:
    from typer.main import get_command

    from sala.cli import app

    known = set(get_command(app).commands)  # type: ignore[attr-defined]
    for document in ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]:
        text = (ROOT / document).read_text(encoding="utf-8")
        named = set(re.findall(r"(?:`|\$ )sala ([a-z]+)", text))
        assert named <= known, f"{document} names {named - known}"


def test_the_lines_of_code_beside_the_equations_exist() -> None:
    text = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    section_file, n_lines = "", 0
    for line in text.splitlines():
        files = re.findall(r"\]\(\.\./(sala/[\w/]+\.py)\)", line)
        if line.startswith("| equation"):
            (section_file,) = files
        elif line.startswith("| ") and section_file:
            (quoted,) = re.findall(r"\| `(.*)` \|$", line)
            source = (ROOT / (files[0] if files else section_file)).read_text(encoding="utf-8")
            lines = [code.strip() for code in source.splitlines()]
            assert quoted.replace(r"\|", "|") in lines, f"no line {quoted!r} in {files or section_file}"
            n_lines += 1
        elif not line.startswith("|"):
            section_file = ""
    assert n_lines > 25


def test_every_method_has_its_chapter() -> None:
    text = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    headings = " ".join(re.findall(r"^## (.*)$", text, flags=re.MULTILINE))
    assert all(name in headings.replace("and ", "").split() for name in METHODS)


def test_pages_show_what_results_have() -> None:
    """README and docs/results.md hold the tables that the records in results/ give."""
    done = subprocess.run([sys.executable, "docs/fill.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_commands_for_a_folder_of_images_run(tmp_path: Path) -> None:
    """The very commands of the page, on flat pictures and with features that are ready."""
    import numpy as np
    from PIL import Image

    names = ["labelled/cat/a.png", "labelled/dog/b.png", *(f"photos/{i}.png" for i in range(6)), "new-photos/x.png"]
    for i, name in enumerate(names):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (20 * i, 0, 255 * (i % 2))).save(tmp_path / name)
    np.save(tmp_path / "f.npy", np.random.default_rng(0).normal(size=(len(names), 4)))
    (tmp_path / "f.txt").write_text("\n".join(names))
    lines = [line for block in blocks("docs/labelling.md", "console") for line in block.splitlines()]
    for line in (line for line in lines if line.startswith("$ sala ")):
        command = [sys.executable, "-m", "sala", *line.removeprefix("$ sala ").split(), "--encoder", "f.npy"]
        result = run(command, tmp_path)
        assert result.returncode == 0, f"{line}\n{result.stderr}"
    assert (tmp_path / "new.csv").read_text().count("\n") == 2
    assert sorted(p.name for p in (tmp_path / "out").iterdir())[0] == "labels.csv"


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.name)
def test_every_benchmark_can_be_loaded(script: Path) -> None:
    """What it imports is there; the measurements themselves take minutes."""
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='loaded')"
    path = os.pathsep.join([str(ROOT), str(script.parent)])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr

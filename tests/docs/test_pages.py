"""What the pages say exists: commands, options, functions, results."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sala
from sala.heads import HEADS
from sala.methods import BEYOND, COMPARED

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("**/*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
METHODS_PAGES = {"methods.md": COMPARED, "methods-beyond.md": BEYOND}


def commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each `sala` command in a console block, and the options that it is given."""
    for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        for name, rest in re.findall(r"(?:\$|-m|\|) ?sala ([a-z]+)([^|#\n]*)", block):
            yield name, re.findall(r"(?<!\S)(--[a-z-]+)", rest)


def options_of(command: Any) -> set[str]:
    inner = getattr(command, "commands", None)
    if inner is not None:
        return set().union(*map(options_of, inner.values()))
    return {"--help"}.union(*(param.opts + param.secondary_opts for param in command.params))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_options_of_a_page_exist(page: Path) -> None:
    from sala.cli.app import COMMANDS, imported

    named = set(re.findall(r"`sala ([a-z]+)", page.read_text(encoding="utf-8")))
    assert named <= set(COMMANDS)
    for name, options in commands(page):
        assert name in COMMANDS
        assert set(options) <= options_of(imported(name)), f"sala {name} has no {options}"


def test_python_of_the_pages_uses_public_names_alone() -> None:
    named = set()
    for page in PAGES:
        for block in re.findall(r"```python[^\n]*\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            assert not re.search(r"\b(from|import) sala\.", block), page
            named |= set(re.findall(r"\bsala\.(\w+)", block))
            for names in re.findall(r"^from sala import (.*)$", block, flags=re.MULTILINE):
                named |= {name.strip() for name in names.split(",")}
    assert len(named) > 10
    assert named <= set(sala.__all__)


def test_functions_beside_the_equations_exist() -> None:
    section_file, n_named = "", 0
    for line in "\n".join(map(methods_page, METHODS_PAGES)).splitlines():
        files = re.findall(r"`(sala/[\w/]+\.py)`", line)
        if line.startswith("| equation"):
            (section_file,) = files
        elif line.startswith("| ") and section_file:
            (name,) = re.findall(r"\| `([\w.]+)`(?: \(`sala/[\w/]+\.py`\))? \|$", line)
            assert name in defined(files[0] if files else section_file), f"{name} is not in {files or section_file}"
            n_named += 1
        elif not line.startswith("|"):
            section_file = ""
    assert n_named > 25


def defined(file: str) -> set[str]:
    """Functions of a module, and methods as Class.method."""
    tree, found = ast.parse((ROOT / file).read_text(encoding="utf-8")), set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("page", METHODS_PAGES)
def test_every_method_has_its_chapter_on_the_page_of_its_group(page: str) -> None:
    headings = " ".join(re.findall(r"^## (.*)$", methods_page(page), flags=re.MULTILINE))
    assert all(name in headings.replace("and ", "").split() for name in METHODS_PAGES[page])


def methods_page(name: str) -> str:
    return (ROOT / "docs/explanation" / name).read_text(encoding="utf-8")


def test_every_head_has_its_row() -> None:
    page = (ROOT / "docs/how-to/heads.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| (yes|no) \|$", page, flags=re.MULTILINE)
    assert rows == [(name, "yes" if head.is_transductive else "no") for name, head in HEADS.items()]


def test_pages_show_what_results_have() -> None:
    fill = [sys.executable, "docs/tools/fill.py", "--check"]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(fill, cwd=ROOT, capture_output=True, text=True, env=path, check=False)
    assert done.returncode == 0, done.stderr


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").glob("**/*.py")), ids=lambda path: path.name)
def test_every_benchmark_can_be_loaded(script: Path) -> None:
    """What it imports is there; the measurements themselves take minutes."""
    code = f"import runpy; runpy.run_path({str(script)!r}, run_name='loaded')"
    path = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(script.parent)])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=path, check=False)
    assert done.returncode == 0, done.stderr

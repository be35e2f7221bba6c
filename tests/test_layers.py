"""Rooms import one way, modules and functions stay small, and the public names exist."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import sala

ROOT = Path(sala.__file__).parent
# A room imports only rooms before it in this list, and itself.
FOUNDATION = ["errors", "text", "cache", "locks", "atomic", "data"]
RESEARCH = ["episodes", "nn", "functional", "methods", "heads", "evaluation", "training", "templates", "reproduction"]
LABELING = ["encoders", "classifier", "labeling", "web"]
ORDER = [*FOUNDATION, *RESEARCH, *LABELING, "cli", "__main__"]
# methods know tensors only; photos are labeled without anything that trains
FORBIDDEN = {
    "functional": {"data", "methods", "nn.backbones", "episodes.sampler", "episodes.protocol"},
    "methods": {"data", "episodes.sampler", "episodes.protocol"},
    "heads": {"data", "nn", "methods", "episodes.sampler", "episodes.protocol"},
    **{room: {*RESEARCH} - {"functional", "templates"} for room in LABELING},
}
# an encoder from a run, and its card, are opened when they are asked for, and the classifier as a head when that is
LAZILY = {("encoders.run", "training"), ("encoders.run_card", "training"), ("heads.classifier", "classifier")}
MAX_MODULE, MAX_FUNCTION, MAX_TOP = 300, 45, 8


def modules() -> Iterator[tuple[str, Path]]:
    for path in ROOT.rglob("*.py"):
        yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path


def imports(path: Path) -> set[str]:
    """What a module imports of the package: `room` or `room.module`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sala":
            name = node.module.removeprefix("sala").removeprefix(".")
            found |= {name} if "." in name else {f"{name}.{alias.name}".strip(".") for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("sala.") for alias in node.names if alias.name.startswith("sala.")}
    return found


def test_a_room_imports_only_the_rooms_before_it() -> None:
    for name, path in modules():
        room = name.split(".")[0]
        if name == "__init__":
            continue
        for other in imports(path):
            its_room = other.split(".")[0]
            if (name, its_room) in LAZILY:
                continue
            assert ORDER.index(its_room) <= ORDER.index(room), f"{name} imports {other}, of a later room"
            names = {its_room, ".".join(other.split(".")[:2])}
            assert not names & FORBIDDEN.get(room, set()), f"{name} may not import {other}"


def test_the_package_itself_holds_few_files() -> None:
    assert len([path for path in ROOT.iterdir() if path.is_file()]) <= MAX_TOP


def test_modules_and_functions_are_short() -> None:
    for name, path in modules():
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= MAX_MODULE, f"{name} is too long"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert n_lines(node) <= MAX_FUNCTION, f"{name}.{node.name} is too long"


def test_modules_of_tests_and_benchmarks_are_short() -> None:
    for room in ("tests", "benchmarks", "stress", "docs"):
        for path in (ROOT.parent / room).rglob("*.py"):
            assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_MODULE, f"{path} is too long"


def n_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without the docstring, which may be as long as it needs to teach."""
    first = node.body[0]
    has_docstring = ast.get_docstring(node, clean=False) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
    return (node.end_lineno or 0) - node.lineno + 1 - docstring


def test_every_room_says_what_it_is() -> None:
    for folder in ROOT.iterdir():
        if (folder / "__init__.py").is_file():
            docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
            assert docstring and len(docstring) > 80, f"{folder.name}/__init__.py says nothing"


def test_public_names_are_sorted_and_exist() -> None:
    names = sala.__all__
    groups = [[n for n in names if n.isupper()], [n for n in names if n[0].isupper() and not n.isupper()]]
    groups.append([n for n in names if n[0].islower()])
    assert names == [n for group in groups for n in sorted(group)]
    assert all(hasattr(sala, name) for name in names)
    assert {*sala._MODULE_OF, "SalaError"} == set(names) <= set(dir(sala))


def test_type_checkers_and_the_table_see_the_same_public_names() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: str(node.module).removeprefix("sala.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == sala._MODULE_OF


def test_photos_are_labeled_without_the_trainer() -> None:
    code = "import sys, sala.labeling.label, sala.encoders; print([m for m in sys.modules if 'sala.training' in m])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

"""Code from outside the package: a class in a user's own file, or an installed package's entry point.

A file is code, and naming one on the command line is what runs it. A run folder may come from anyone, so a file that is
only named in a run's configuration is run only if this user has named that very file (same content) before.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from sala.atomic import write_json
from sala.cache import cache_folder
from sala.errors import SalaError


def is_file(name: str) -> bool:
    """Whether a name is of the form path/to/file.py:Class."""
    return ".py:" in name


def entry_point_names(group: str) -> list[str]:
    """What installed packages register in a group."""
    return [point.name for point in entry_points(group=group)]


def from_entry_point(name: str, group: str) -> Any:
    """What an installed package registers under this name; None if there is no such name."""
    point = next((point for point in entry_points(group=group) if point.name == name), None)
    if point is None:
        return None
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise SalaError(
            f"an installed package registers {name!r} as {point.value}, which cannot be imported: {type(error).__name__}: "
            f"{error}; correct its entry point, or install it again"
        ) from error


def code_hash(name: str, group: str) -> str | None:
    """Of the file with the class of a user or of an installed package; None for what comes with `sala`."""
    if is_file(name):
        path = Path(name.rpartition(":")[0])
    elif (found := from_entry_point(name, group)) is not None:
        path = file_of(found)
    else:
        return None
    return _digest(path) if path.is_file() else None


def from_file(name: str, kind: str) -> Any:
    """Import path/to/file.py and take its Class, which is a `kind`: a method or a backbone."""
    path, class_name = _parts(name, kind)
    spec = importlib.util.spec_from_file_location(f"sala_user_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise SalaError(f"{path} cannot be imported: {type(error).__name__}: {error}{_line(error, path)}") from error
    if not hasattr(module, class_name):
        raise SalaError(f"{path} defines no {class_name!r}; write the name of its class after the colon")
    return getattr(module, class_name)


def file_of(cls: type) -> Path:
    """Where a class is written; nowhere, if it was typed in."""
    return Path(getattr(sys.modules.get(cls.__module__), "__file__", None) or "")


@contextmanager
def blaming(what: str, file: Path) -> Iterator[None]:
    """Say in one sentence that code from outside failed, and in which line of its file."""
    try:
        yield
    except (SalaError, OSError):
        raise
    except Exception as error:
        raise SalaError(f"{what} failed: {type(error).__name__}: {error}{_line(error, file)}") from error


def _line(error: BaseException, path: Path) -> str:
    """Where in a file an error comes from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()]
    return f" ({path.name}, line {frames[-1].lineno})" if frames else ""


def _parts(name: str, kind: str) -> tuple[Path, str]:
    path, _, class_name = name.rpartition(":")
    if not Path(path).is_file():
        raise SalaError(
            f"the {kind} {name!r} should be in {path}, and there is no such file; give the place where it is: --{kind} "
            f"path/to/file.py:{class_name}"
        )
    return Path(path), class_name


def absolute(name: str, kind: str = "method") -> str:
    """The name with its path made absolute, so that a run can be opened from anywhere; other names as they are."""
    if not is_file(name):
        return name
    path, class_name = _parts(name, kind)
    return f"{path.resolve()}:{class_name}"


def remember(name: str, kind: str = "method") -> None:
    """The user named this file on the command line: runs made with it may be opened later without naming it again."""
    if not is_file(name):
        return
    path, _ = _parts(name, kind)
    trusted = _trusted()
    trusted[str(path.resolve())] = _digest(path)
    _registry().parent.mkdir(parents=True, exist_ok=True)
    write_json(_registry(), trusted)


def check_known(name: str, kind: str = "method") -> None:
    """Refuse a file that this user has not named before, or that has changed since."""
    if not is_file(name):
        return
    path, _ = _parts(name, kind)
    if _trusted().get(str(path.resolve())) != _digest(path):
        raise SalaError(
            f"this run's {kind} is code in {path}, which you have not run in its present form; if you trust it, name it: "
            f"--{kind} {name}"
        )


def trusted(name: str, again: str | None, kind: str = "method") -> str:
    """The name to take of a run's own and of what the user names again, which may have moved: only known code is run."""
    if again is None:
        check_known(name, kind)
        return name
    remember(again, kind)
    return again


def _registry() -> Path:
    return cache_folder() / "trusted-methods.json"


def _trusted() -> dict[str, str]:
    if not _registry().is_file():
        return {}
    try:
        content = json.loads(_registry().read_text(encoding="utf-8"))
    except ValueError:
        return {}  # damaged: files are trusted again when they are named again
    return content if isinstance(content, dict) else {}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

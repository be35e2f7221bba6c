"""Methods from outside the package: a user's own file, or an installed package's entry point.

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
from sala.methods.base import Method


def is_file(name: str) -> bool:
    """Whether a method's name is of the form path/to/file.py:Class."""
    return ".py:" in name


def installed_plugins() -> list[str]:
    """Names of the entry points of the group `sala.methods`."""
    return [point.name for point in entry_points(group="sala.methods")]


def from_entry_point(name: str) -> type[Method] | None:
    """The class that an installed package registers under this name, if there is one."""
    for point in entry_points(group="sala.methods"):
        if point.name == name:
            return _checked(point.load(), name)
    return None


def from_file(name: str) -> type[Method]:
    """Import path/to/file.py and take its Class."""
    path, class_name = _parts(name)
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
    return _checked(getattr(module, class_name), name)


@contextmanager
def blaming(method: Method, name: str) -> Iterator[None]:
    """Say in one sentence that a method from outside failed, and in which line; `name` is what the user calls it."""
    try:
        yield
    except (SalaError, OSError):
        raise
    except Exception as error:
        where = _line(error, Path(sys.modules[type(method).__module__].__file__ or ""))
        raise SalaError(f"the method {name} failed: {type(error).__name__}: {error}{where}") from error


def _line(error: BaseException, path: Path) -> str:
    """Where in a file an error comes from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()]
    return f" ({path.name}, line {frames[-1].lineno})" if frames else ""


def _parts(name: str) -> tuple[Path, str]:
    path, _, class_name = name.rpartition(":")
    if not Path(path).is_file():
        raise SalaError(f"the method {name!r} should be in {path}, and there is no such file")
    return Path(path), class_name


def _checked(cls: Any, name: str) -> type[Method]:
    if not (isinstance(cls, type) and issubclass(cls, Method)):
        raise SalaError(f"{name} is not a subclass of sala.Method")
    return cls


def absolute(name: str) -> str:
    """The name with its path made absolute, so that a run can be opened from anywhere."""
    path, class_name = _parts(name)
    return f"{path.resolve()}:{class_name}"


def remember(name: str) -> None:
    """The user named this file on the command line: runs made with it may be opened later without naming it again."""
    path, _ = _parts(name)
    trusted = _trusted()
    trusted[str(path.resolve())] = _digest(path)
    _registry().parent.mkdir(parents=True, exist_ok=True)
    write_json(_registry(), trusted)


def check_known(name: str) -> None:
    """Refuse a file that this user has not named before, or that has changed since."""
    path, _ = _parts(name)
    if _trusted().get(str(path.resolve())) != _digest(path):
        raise SalaError(
            f"this run's method is code in {path}, which you have not run in its present form; if you trust it, name it: "
            f"--method {name}"
        )


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

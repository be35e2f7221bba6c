"""Atomic writes: a file is written beside its place and renamed when it is whole."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sala.errors import writing
from sala.locks import is_running

HOST = hashlib.sha256(platform.node().encode("utf-8", "replace")).hexdigest()[:8]  # folders may be shared by machines
NAME = re.compile(r"\..*\.(\d+)(?:-(\w+))?\.partial", re.DOTALL)  # .target.PROCESS-HOST.partial


@contextmanager
def partial_file(path: Path, name: str | None = None) -> Iterator[Path]:
    """A place beside `path` to write to, for the caller to rename. What is left of it in the end is removed.

    `name` stands for the name of the target in its own, where that would be too long.
    """
    place = path.with_name(f".{name or path.name}.{os.getpid()}-{HOST}.partial")
    try:
        yield place
    finally:
        place.unlink(missing_ok=True)


def remove_stale(folder: Path) -> None:
    """Remove what killed processes have left in a folder: partial files whose process is gone. Of another machine's processes
    nobody here knows; theirs stay."""
    for place in folder.glob(".*.partial"):
        found = NAME.fullmatch(place.name)
        if found and found[2] in (None, HOST) and not _is_under_way(int(found[1])):
            place.unlink(missing_ok=True)


def _is_under_way(process: int) -> bool:
    if process == os.getpid():
        return False  # this one, or one before it that had its number: whoever asks has nothing under way there
    return is_running(process)


def write_atomically(path: Path, content: bytes, previous: Path | None = None) -> None:
    """Write a file whole or not at all. What was there before stays as `previous`, if that is named."""
    with replaced(path, previous) as partial:
        partial.write_bytes(content)


@contextmanager
def replaced(path: Path, previous: Path | None = None) -> Iterator[Path]:
    """A place to write a file to. In the end that is on disk and replaces `path`, which until then, and after an error, is as
    it was."""
    remove_stale(path.parent)
    with partial_file(path) as partial:
        with writing(path):
            yield partial
            with partial.open("r+b") as file:
                os.fsync(file.fileno())
        if previous is not None and path.exists():
            _keep(path, previous)
        os.replace(partial, path)


def _keep(path: Path, previous: Path) -> None:
    """A second name for the file, so that there is no moment without the first; where there are no links, a new name."""
    with partial_file(previous) as link:
        try:
            os.link(path, link)
        except OSError:
            os.replace(path, previous)
        else:
            os.replace(link, previous)


def write_json(path: Path, content: Any) -> None:
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())

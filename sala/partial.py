"""Files that are written beside their place and renamed when they are whole."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = re.compile(r"\..*\.(\d+)\.partial", re.DOTALL)  # .target.PROCESS.partial


@contextmanager
def partial_file(path: Path, name: str | None = None) -> Iterator[Path]:
    """A place beside `path` to write to, for the caller to rename. What is left of it in the end is removed.

    `name` stands for the name of the target in its own, where that would be too long.
    """
    place = path.with_name(f".{name or path.name}.{os.getpid()}.partial")
    try:
        yield place
    finally:
        place.unlink(missing_ok=True)


def remove_stale(folder: Path) -> None:
    """Remove what killed processes have left in a folder: partial files whose process is gone."""
    for place in folder.glob(".*.partial"):
        found = NAME.fullmatch(place.name)
        if found and not _is_running(int(found[1])):
            place.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    if process == os.getpid():
        return False  # this one, or one before it that had its number: whoever asks has nothing under way there
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        return True
    return True

"""An append-only file of JSON lines. What `append` has returned from is on disk, whatever happens to the process next.

A line that was cut short by a crash was never confirmed to anyone; it is removed when the file is next opened.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from sala.errors import SalaError
from sala.wording import printable

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

HEADER = {"kind": "sala-labels", "format": 1}


class NotSavedError(SalaError):
    """A change that could not be put on disk, and so has not happened."""


class Journal:
    """`events` are those that were there on opening. One process at a time."""

    def __init__(self, path: Path):
        self.path, self._n_bytes = path, 0  # of whole lines
        is_new = not path.exists()
        self._fd = _opened(path)
        try:
            self._lock()
            content = _read_all(self._fd)
            complete = content[: content.rfind(b"\n") + 1]
            self.events = _parse(complete, path) if complete else []
            if content and not complete and not _line(HEADER).startswith(content):
                raise SalaError(f"{path} is not a state that sala wrote; choose another --state")
            if len(complete) < len(content):
                os.ftruncate(self._fd, len(complete))
            self._n_bytes = len(complete)
            if not complete:
                self.append(HEADER)
            if is_new:
                _sync_folder(path.parent)
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, event: dict[str, Any]) -> None:
        """Write one line and wait until it is on disk. A line that cannot be written whole is taken back."""
        line = _line(event)
        try:
            if os.fstat(self._fd).st_size > self._n_bytes:  # what an earlier failure left
                os.ftruncate(self._fd, self._n_bytes)
            if os.write(self._fd, line) != len(line):
                raise OSError("the disk is full")
            os.fsync(self._fd)
        except OSError as error:
            with suppress(OSError):  # else before the next line is written
                os.ftruncate(self._fd, self._n_bytes)
            raise NotSavedError(
                f"{self.path} cannot be written ({error.strerror or error}); make room, try again"
            ) from None
        self._n_bytes += len(line)

    def close(self) -> None:
        os.close(self._fd)

    def _lock(self) -> None:
        try:
            if fcntl is not None:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SalaError(
                f"{self.path} is open in another `sala serve`; end that one or give another --state"
            ) from None


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise SalaError(
            f"{printable(str(path))}, where each change is saved, cannot be written ({error.strerror or error}); name a file "
            "in a folder that you may write to with --state"
        ) from None


def _line(event: dict[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _read_all(fd: int) -> bytes:
    parts = []
    os.lseek(fd, 0, os.SEEK_SET)
    while part := os.read(fd, 1 << 20):
        parts.append(part)
    return b"".join(parts)


def _parse(content: bytes, path: Path) -> list[dict[str, Any]]:
    lines = content.splitlines()
    events = []
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if not isinstance(event, dict) or (number == 1 and {k: event.get(k) for k in HEADER} != HEADER):
            raise SalaError(
                f"{path}, line {number}, is not of a state that sala wrote; restore it or choose another --state"
            )
        events.append(event)
    return events[1:]


def _sync_folder(folder: Path) -> None:
    """So that the file's name is on disk too."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

"""An append-only file of JSON lines. When `append` returns, the event is on disk, whatever happens to the process next.

A line that a crash cut short was never confirmed; it is removed when the file is next opened. Where another program deletes,
replaces or changes the open file, every further change is refused, and `content` has what was confirmed. A file of format 1
is converted on opening (state_format.py).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from sala.cache import cache_folder
from sala.errors import SalaError
from sala.locks import is_same_file
from sala.text import printable
from sala.web.events import FORMAT, HEADER, MAX_LINE, Event, encoded
from sala.web.in_force import InForce
from sala.web.state_format import FIRST_LINES, check_readable, format_of, parsed_as, replace_old, sync_folder, write_new
from sala.web.state_lock import hold_path, lock_file

MAX_BYTES = 256 << 20


class NotSavedError(SalaError):
    """A change that could not be written to disk, and so has not happened."""


class Journal:
    """The events of a state file, for one process and one thread at a time. `in_force` is what they came to on opening."""

    def __init__(self, path: Path):
        self.path = path
        self.stopped: str | None = None  # why no more changes are taken
        self._content = bytearray()  # what was confirmed
        self._format = FORMAT
        with ExitStack() as opened, told_of(path):
            opened.enter_context(hold_path(path))
            is_new = not os.path.exists(path)
            self._open(opened)
            self.in_force = self._read()
            if self._format != FORMAT:  # the old file stays locked
                replace_old(path, self._all(), bytes(self._content))
                self._open(opened)
            if not self._content:
                self._write(encoded(HEADER))
            if is_new:
                sync_folder(Path(os.path.realpath(path)).parent)
            self._opened = opened.pop_all()

    @property
    def content(self) -> bytes:
        """The header and every confirmed event: a state that can be opened again."""
        return bytes(self._content)

    @property
    def events(self) -> list[Event]:
        """The changes in force on opening."""
        return self.in_force.events

    def append(self, event: Event) -> None:
        """Write one line and wait until it is on disk, in the file that the path leads to."""
        line = encoded(event)
        if len(line) > MAX_LINE:
            raise SalaError("these are too many images for one change; label fewer at once")
        if len(self._content) + len(line) > MAX_BYTES:
            raise NotSavedError(
                f"{self._name} is full: a state has at most {MAX_BYTES >> 20} MiB; choose another --state"
            )
        self._write(line)

    def close(self) -> None:
        self._opened.close()

    def where(self) -> Path:
        """Return the file with all that was confirmed: the state, or a new file if another program changed that."""
        try:
            self._check(len(self._content))
        except NotSavedError:
            return self._rescue()
        return self.path

    def _rescue(self) -> Path:
        """Write a new file beside the state, or in the cache where the folder is gone or full."""
        for folder in (self.path.parent, cache_folder()):
            for n in count(1):
                place = folder / f"{self.path.name}.rescued-{n}"
                try:
                    write_new(place, self._content)
                    return place
                except FileExistsError:
                    continue
                except OSError:
                    break
        raise NotSavedError(
            f"what was saved in {self._name} can be written nowhere: {len(self._content):,} bytes are lost"
        )

    @property
    def _name(self) -> str:
        return printable(str(self.path))

    def _write(self, line: bytes) -> None:
        self._check(len(self._content))
        try:
            if os.write(self._fd, line) != len(line):
                raise OSError("the disk is full")
            os.fsync(self._fd)
        except OSError as error:
            self._take_back(error)
        self._check(len(self._content) + len(line))  # it may have been deleted while we waited
        self._content += line

    def _take_back(self, error: OSError) -> None:
        """Restore the file; where that fails nobody knows what it holds, and nothing more is written to it."""
        why = error.strerror or error
        try:
            if os.fstat(self._fd).st_size < len(self._content):  # another program cut it: truncate would add zeros
                raise error
            os.ftruncate(self._fd, len(self._content))
            os.fsync(self._fd)
        except OSError:
            self._stop(f"could not be written ({why}), nor be put back as it was")
        raise NotSavedError(self.stopped or f"{self._name} cannot be written ({why}); make room, try again") from None

    def _check(self, n_bytes: int) -> None:
        """Stop for good unless the path leads to the open file and that has the expected length."""
        if self.stopped is None and (why := self._trouble(n_bytes)) is not None:
            self._stop(why)
        if self.stopped is not None:
            raise NotSavedError(self.stopped)

    def _trouble(self, n_bytes: int) -> str | None:
        try:
            if not is_same_file(self.path, self._fd):
                return "was deleted or replaced while it was open"
            if os.fstat(self._fd).st_size != n_bytes:
                return "was changed by another program while it was open"
        except OSError as error:
            return f"cannot be looked up any more ({error.strerror or error})"
        return None

    def _stop(self, why: str) -> None:
        self.stopped = (
            f"{self._name} {why}: this change is not saved, and no more are taken. Download the state, end `sala serve`, and "
            "start it again with the downloaded file as --state"
        )

    def _open(self, opened: ExitStack) -> None:
        self._fd = _opened(self.path)
        opened.callback(os.close, self._fd)
        lock_file(self._fd, self.path)

    def _all(self) -> bytes:
        with open(self._fd, "rb", closefd=False) as file:
            file.seek(0)
            return file.read()

    def _read(self) -> InForce:
        """Return what is in force. A last line that was cut short is dropped, from the file too."""
        in_force, cut = InForce(), b""
        with open(self._fd, "rb", closefd=False) as file:
            for number in count(1):
                line = file.readline(MAX_LINE + 1)
                if not line.endswith(b"\n"):
                    cut = line
                    break
                self._take(line, number, in_force)
        if len(cut) > MAX_LINE:
            raise self._damaged(number, "it is too long")
        if not self._content and not any(line.startswith(cut) for line in FIRST_LINES):
            raise SalaError(f"{self._name} is not a state that sala wrote; choose another --state")
        if cut and self._format == FORMAT:
            os.ftruncate(self._fd, len(self._content))
        return in_force

    def _take(self, line: bytes, number: int, in_force: InForce) -> None:
        try:
            if number == 1:
                self._format = format_of(line)
                check_readable(self._format, self._name)
                line = line if self._format == FORMAT else encoded(HEADER)
            else:
                event, line = parsed_as(self._format, line)
                in_force.take(event)
        except ValueError as error:
            raise self._damaged(number, str(error)) from None
        self._content += line

    def _damaged(self, number: int, why: str) -> SalaError:
        return SalaError(
            f"{self._name}, line {number}, is not of a state that sala wrote ({why}); restore it or choose another --state"
        )


@contextmanager
def told_of(path: Path) -> Iterator[None]:
    """Turn what fails while a state is opened into one sentence."""
    try:
        yield
    except OSError as error:
        raise SalaError(
            f"{printable(str(path))}, where each change is saved, cannot be written ({error.strerror or error}); name a file "
            "in a folder that you may write to with --state"
        ) from None


def _opened(path: Path) -> int:
    """Open a regular file of bounded size. Devices and pipes are refused, not waited for."""
    if os.path.exists(path):
        _check_kind(os.stat(path), path)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"):  # as far as the system has them; O_BINARY: no \r is put in
        flags |= getattr(os, name, 0)
    fd = os.open(path, flags, 0o600)
    try:
        _check_kind(os.fstat(fd), path)
    except SalaError:
        os.close(fd)
        raise
    return fd


def _check_kind(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SalaError(
            f"{printable(str(path))} is not a file, where each change could be saved; name one with --state"
        )
    if found.st_size > MAX_BYTES:
        raise SalaError(
            f"{printable(str(path))} has more than the {MAX_BYTES >> 20} MiB that a state may have; choose another --state"
        )

"""Locks that keep a state file to one `sala serve` at a time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sala.cache import cache_folder
from sala.errors import SalaError
from sala.locks import CAN_LOCK, is_same_file, try_lock
from sala.text import printable

CAN_REMOVE_OPEN_FILES = os.name != "nt"
FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

# A state has two locks, both of the system (sala/locks.py), which a killed process cannot leave behind.
#
# - On the state's own file (`lock_file`): whoever opens the same file is refused, by whatever path, link or machine.
#   It says nothing once the file is deleted or replaced: the next server would make, and lock, another file.
# - So also on a small file named after the state's resolved path (`hold_path`), in the cache folder: that lock survives
#   whatever happens to the state or to its folder. It is taken before the state is opened, so that a server which is
#   refused makes no file. Where the cache cannot be written it lies beside the state. Where that folder cannot be
#   written either, nobody can delete or replace the state in it, and the lock on the file is enough.
#
# The lock file is removed at a normal end. After a kill it stays, unlocked: the next server takes it over, and removes
# it. If somebody deletes it the state's own lock still holds; with both gone a second server may open a new file at
# that path, while the first, whose file that is not, refuses every change (sala/web/journal.py): there is one writer still.


@contextmanager
def hold_path(path: Path) -> Iterator[None]:
    """Hold the lock on the path of a state. SalaError where another process has it."""
    found = _held(path) if CAN_LOCK else None
    try:
        yield
    finally:
        if found is not None:
            fd, place = found
            _give_back(place, fd)


def _give_back(place: Path, fd: int) -> None:
    """Remove a lock file that is ours, and close it: in the other order where no open file can be removed (Windows)."""
    is_ours = is_same_file(place, fd)
    if is_ours and CAN_REMOVE_OPEN_FILES:
        os.unlink(place)
    os.close(fd)
    if is_ours and not CAN_REMOVE_OPEN_FILES:
        with suppress(OSError):  # another server has opened it by now, and keeps it
            os.unlink(place)


def lock_file(fd: int, path: Path) -> None:
    """Lock an open state. SalaError where another process has it, or where it cannot be locked."""
    try:
        _lock(fd, path)
    except OSError as error:
        raise SalaError(
            f"{printable(str(path))} cannot be locked ({error.strerror or error}); give a --state on another disk"
        ) from None


def _lock(fd: int, path: Path) -> None:
    if not try_lock(fd):
        raise SalaError(f"{printable(str(path))} is open in another `sala serve`; end that one or give another --state")


def _held(path: Path) -> tuple[int, Path] | None:
    """The lock of a path and where it lies; None where no folder for it can be written."""
    real = os.path.realpath(path)
    name = f"{hashlib.sha256(os.fsencode(real)).hexdigest()[:32]}.lock"
    for place in (cache_folder() / "locks" / name, Path(real).with_name(f".{name}")):
        try:
            if place.parent != Path(real).parent:
                place.parent.mkdir(parents=True, exist_ok=True)
            while True:
                fd = os.open(place, FLAGS, 0o600)
                if _is_locked(fd, place, path):
                    return fd, place
        except OSError:  # it cannot be written or locked there
            continue
    return None


def _is_locked(fd: int, place: Path, path: Path) -> bool:
    """False where its last holder removed the file after we had opened it."""
    try:
        _lock(fd, path)
        if is_same_file(place, fd):
            return True
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return False

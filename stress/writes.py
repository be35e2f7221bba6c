"""Every write of a process, found without a change to the product: what happens at the n-th of them is the suite's choice.

`watch(folder, act)` wraps, in this process, whatever changes files below a folder: `open` for writing with its writes and its
close, `os.write`, `os.fsync`, `os.replace`, ..., and SQLite's statements and commits. `act(point)` is called before each.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ON_PATHS = ("replace", "rename", "link", "symlink", "unlink", "remove", "mkdir", "rmdir", "truncate")
ON_DESCRIPTORS = ("write", "fsync", "ftruncate", "sendfile")
NEEDS_ROOM = {"open", "write", "mkdir", "link", "symlink", "sendfile", "fsync", "execute", "executemany", "commit"}


@dataclass(frozen=True)
class Point:
    """One write that is about to happen: the n-th. `half` does half of it, where there is anything to halve."""

    n: int
    what: str
    path: str
    half: Callable[[], None] | None = None


Act = Callable[[Point], None]


def watch(folder: Path, act: Act) -> None:
    """From now on, in this process."""
    _Watch(folder, act).install()


def kill_at(n: int, *, torn: bool = False) -> Act:
    """kill -9 before the n-th write; or, torn, in the middle of it."""

    def act(point: Point) -> None:
        if point.n == n:
            if torn and point.half is not None:
                point.half()
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def fail_from(n: int, number: int, n_times: int = 10**9) -> Act:
    """An OSError of this number (ENOSPC, EROFS, ...) at the n-th write and at those after it that need room."""

    def act(point: Point) -> None:
        if n <= point.n < n + n_times and point.what in NEEDS_ROOM:
            if point.what in ("execute", "executemany", "commit"):
                raise sqlite3.OperationalError("database or disk is full")
            raise OSError(number, os.strerror(number), point.path)

    return act


def do_at(n: int, action: Callable[[], object]) -> Act:
    """Something else that happens just before the n-th write."""

    def act(point: Point) -> None:
        if point.n == n:
            action()

    return act


def listing(file: Path) -> Act:
    """Write down each point: a line `what path`. The file must be outside of what is watched."""
    fd, write = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), os.write

    def act(point: Point) -> None:
        write(fd, f"{point.what} {'half' if point.half else 'whole'} {point.path}\n".encode())

    return act


class _Watch:
    def __init__(self, folder: Path, act: Act):
        self.folder, self.act, self.n, self.is_acting = os.path.realpath(folder) + os.sep, act, 0, False
        self.open, self.write = io.open, os.write

    def install(self) -> None:
        for name in ON_PATHS:
            setattr(os, name, partial(self._on_path, name, getattr(os, name)))
        for name in ON_DESCRIPTORS:
            setattr(os, name, partial(self._on_descriptor, name, getattr(os, name)))
        os.open = partial(self._on_open, os.open)  # type: ignore[assignment]
        builtins.open = io.open = self._open  # type: ignore[assignment]
        connect, connection = sqlite3.connect, _connection(self)
        sqlite3.connect = lambda *a, **k: connect(*a, **{"factory": connection, **k})  # type: ignore[assignment]

    def point(self, what: str, path: object, half: Callable[[], None] | None = None) -> None:
        place = os.path.abspath(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else ""
        if place.startswith(self.folder) and not self.is_acting:
            self.n += 1
            self.is_acting = True  # what the action writes is no point
            try:
                self.act(Point(self.n, what, place, half))
            finally:
                self.is_acting = False

    def _on_path(self, name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        # shutil and pathlib may give a name below a folder's descriptor
        place = args[-1] if name in ("replace", "rename", "link", "symlink") else args[0]
        if (fd := options.get("dir_fd")) is not None:
            place = os.path.join(_path_of(fd), place)
        self.point(name, place)
        return function(*args, **options)

    def _on_descriptor(self, name: str, function: Callable[..., Any], fd: int, *args: Any, **options: Any) -> Any:
        half = (lambda: self._halve(fd, args[0])) if name == "write" else None
        self.point(name, _path_of(fd), half)
        return function(fd, *args, **options)

    def _on_open(self, function: Callable[..., int], path: Any, flags: int, *args: Any, **options: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            self.point("open", path)
        return function(path, flags, *args, **options)

    def _halve(self, fd: int, content: bytes) -> None:
        self.write(fd, content[: len(content) // 2])

    def _open(self, file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if not set(mode) & set("wax+") or isinstance(file, int):
            return self.open(file, mode, *args, **options)
        self.point("open", file)
        return _File(self.open(file, mode, *args, **options), self, file)


class _File:
    """A file open for writing, whose writes and close are points."""

    def __init__(self, file: Any, watch: _Watch, path: object):
        self._file, self._watch, self._path = file, watch, path

    def write(self, content: Any) -> Any:
        self._watch.point("write", self._path, lambda: self._halve(content))
        return self._file.write(content)

    def _halve(self, content: Any) -> None:
        self._file.write(content[: len(content) // 2])
        self._file.flush()

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def close(self) -> None:
        if not self._file.closed:
            self._watch.point("close", self._path)
        self._file.close()

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Any:
        return iter(self._file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _connection(watch: _Watch) -> type[sqlite3.Connection]:
    class Connection(sqlite3.Connection):
        def _point(self, what: str) -> None:
            places = super().execute("PRAGMA database_list").fetchall()
            watch.point(what, places[0][2])

        def execute(self, sql: str, *args: Any) -> Any:
            if not sql.lstrip().upper().startswith("SELECT"):
                self._point("execute")
            return super().execute(sql, *args)

        def executemany(self, *args: Any) -> Any:
            self._point("executemany")
            return super().executemany(*args)

        def commit(self) -> None:
            self._point("commit")
            super().commit()

        def __exit__(self, kind: Any, *rest: Any) -> Any:
            if kind is None:
                self._point("commit")
            return super().__exit__(kind, *rest)

    return Connection


def _path_of(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""

"""Processes to try something in: forked from this one, in a session of their own, with limits on time and memory.

PyTorch is imported once, by the parent, which never computes: a fork of a process that has only one thread is sound.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 60.0  # seconds of a command, unless said otherwise
ROOM = 3 << 30  # bytes of address space that a child may take beyond what the parent has
CRASHED = 70  # exit code of a child whose function raised


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code, negative for a signal; what it said."""

    code: int
    out: str
    err: str
    seconds: float
    timed_out: bool = False

    @property
    def trouble(self) -> str | None:
        """What no command may do, whatever it was asked."""
        if self.timed_out:
            return f"no end after {self.seconds:.0f} s"
        if "Traceback (most recent call last)" in self.err or self.code == CRASHED:
            return f"a traceback: {last_line(self.err)}"
        return None


class Child:
    """A running fork. Its output goes to files in `folder`."""

    def __init__(self, function: Callable[[], object], folder: Path, name: str = "child"):
        self.folder, self.name, self.begun = folder, name, time.monotonic()
        self._ended: Ended | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(function, folder / f"{name}.out", folder / f"{name}.err")

    def poll(self) -> Ended | None:
        if self._ended is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._ended = self._read(os.waitstatus_to_exitcode(status), timed_out=False)
        return self._ended

    def wait(self, timeout: float = TIMEOUT) -> Ended:
        """Its end, which comes by SIGKILL when the time is over."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
                os.waitpid(self.pid, 0)
                self._ended = self._read(-signal.SIGKILL, timed_out=True)
            time.sleep(0.002)
        assert self._ended is not None
        return self._ended

    def signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def said(self, stream: str = "out") -> str:
        path = self.folder / f"{self.name}.{stream}"
        return path.read_text(errors="replace") if path.exists() else ""

    def _read(self, code: int, *, timed_out: bool) -> Ended:
        return Ended(code, self.said("out"), self.said("err"), time.monotonic() - self.begun, timed_out)


def run(function: Callable[[], object], folder: Path, timeout: float = TIMEOUT, name: str = "child") -> Ended:
    return Child(function, folder, name).wait(timeout)


def command(words: list[object]) -> Callable[[], object]:
    """`sala` with these words, as a function for a child."""

    def call() -> object:
        from sala.cli import app as cli

        sys.argv = ["sala", *map(str, words)]
        return cli.main()

    return call


def sala(words: list[object], folder: Path, timeout: float = TIMEOUT, name: str = "child") -> Ended:
    return run(command(words), folder, timeout, name)


def _be_child(function: Callable[[], object], out: Path, err: Path) -> None:
    code = CRASHED
    try:
        os.setsid()
        die_with_parent()
        for path, fd in ((Path(os.devnull), 0), (out, 1), (err, 2)):
            opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(opened, fd)
            os.close(opened)
        sys.stdout, sys.stderr = (os.fdopen(fd, "w", closefd=False, errors="backslashreplace") for fd in (1, 2))
        limit = address_space() + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        function()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def die_with_parent() -> None:
    """So that nothing is left running if the suite itself is killed (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def address_space() -> int:
    return 1024 * status_of("VmSize")


def status_of(what: str, pid: int | str = "self") -> int:
    """A number of /proc/PID/status, in KiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1])
    raise KeyError(what)


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "(nothing was said)"


def one_sentence(ended: Ended, codes: tuple[int, ...] = (1,)) -> str | None:
    """What is wrong with the end of a command that could not do its work."""
    if ended.trouble:
        return ended.trouble
    if ended.code not in codes:
        return f"it ended with {ended.code}: {last_line(ended.err)}"
    sentences = [line for line in ended.err.splitlines() if line.startswith(("error: ", "stopped"))]
    return None if len(sentences) == 1 else f"not one sentence: {ended.err[-200:]!r}"

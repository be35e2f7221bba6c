"""What differs between systems: locks, processes, and what only POSIX has. Windows' ways are tried on any system."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest

import sala
from sala import locks
from sala.errors import SalaError
from sala.labeling.export import local_file
from sala.training.folder import alone
from sala.web import journal, state_lock
from tests.helpers.systems import lacking

POSIX_ONLY = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty"}  # modules
GUARDED = {"O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "fork", "getuid", "geteuid", "mkfifo", "sched_getaffinity",
           "SIGKILL", "SIGHUP", "SIGUSR1", "kill", "killpg", "getpgid", "setsid"}  # fmt: skip


def test_a_running_process_is_told_from_one_that_has_ended() -> None:
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    assert locks.is_running(os.getpid())
    assert not locks.is_running(ended.pid)
    assert not locks.is_running(10**12)


def test_what_only_posix_has_is_used_behind_one_door() -> None:
    """Only sala/locks.py, which has a way for Windows beside it, names such modules and functions."""
    for path in Path(sala.__file__).parent.rglob("*.py"):
        if path.name == "locks.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {alias.name for alias in node.names} | {getattr(node, "module", None) or ""}
                assert not names & POSIX_ONLY, f"{path} imports {names}"
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in ("os", "signal")
            ):
                assert node.attr not in GUARDED, f"{path}:{node.lineno} uses {node.value.id}.{node.attr}"


def test_processes_are_started_without_fork() -> None:
    from sala.reproduction.runner import SPAWN

    assert SPAWN.get_start_method() == "spawn"


def test_where_folders_cannot_be_opened_a_file_beside_a_run_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "CAN_OPEN_FOLDERS", False)
    run = tmp_path / "run"
    run.mkdir()
    with alone(run), pytest.raises(SalaError, match="another training"), alone(run):
        pass
    assert list(run.iterdir()) == []
    with alone(run):  # free again
        pass


def test_where_open_files_cannot_be_removed_the_lock_of_a_state_is_closed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_lock, "CAN_REMOVE_OPEN_FILES", False)
    monkeypatch.setenv("SALA_CACHE", str(tmp_path / "cache"))
    open_ones, unlink = set[int](), os.unlink
    close = os.close
    monkeypatch.setattr(state_lock.os, "close", lambda fd: (open_ones.discard(fd), close(fd))[1])

    def refusing(place: Path) -> None:
        if open_ones:
            raise PermissionError(place)
        unlink(place)

    monkeypatch.setattr(state_lock.os, "unlink", refusing)
    with state_lock.hold_path(tmp_path / "state.jsonl"):
        (place,) = (tmp_path / "cache" / "locks").iterdir()
        fd = os.open(place, os.O_RDONLY)
        held = next(n for n in range(fd) if _is_at(n, place))
        close(fd)
        open_ones.add(held)
    assert not place.exists()


def _is_at(fd: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), place.stat())
    except OSError:
        return False


def test_a_state_is_opened_in_binary_where_the_system_would_change_line_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = os.open
    monkeypatch.setattr(journal.os, "O_BINARY", 1 << 28, raising=False)

    def opened(path: Path, flags: int, mode: int = 0o777) -> int:
        asked.append(flags)
        return real(path, flags & ~(1 << 28), mode)

    monkeypatch.setattr(journal.os, "open", opened)
    os.close(journal._opened(tmp_path / "state.jsonl"))
    assert asked[0] & 1 << 28


def test_label_studio_gets_slashes_from_any_system() -> None:
    assert local_file(PureWindowsPath("photos\\my cat.jpg")) == "/data/local-files/?d=photos/my%20cat.jpg"  # type: ignore[arg-type]


@pytest.mark.skipif(sys.platform == "win32", reason="writes as Windows' C library, on other systems")
def test_a_path_keeps_its_bytes_for_label_studio() -> None:
    assert local_file(Path(os.fsdecode(b"a\xff.png"))) == "/data/local-files/?d=a%FF.png"


def test_a_test_is_skipped_for_what_windows_lacks_and_nothing_else() -> None:
    for error, what in (
        (AttributeError(name="mkfifo", obj=os), "os.mkfifo"),
        (AttributeError(name="mkfifo", obj=Path()), ""),
        (OSError(22, "Invalid argument"), ""),
    ):
        assert lacking(error) == what

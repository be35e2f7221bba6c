"""A state file that is taken away, replaced or changed while the page runs: what was confirmed is never lost."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sala.errors import SalaError
from sala.labeling.project import OUTLIER, UNLABELED
from sala.web.journal import Journal, NotSavedError
from sala.web.session import Session
from stress.asking import ask
from tests.helpers.pages import end, open_session, running, start


def delete(state: Path) -> None:
    state.unlink()


def empty(state: Path) -> None:
    state.write_bytes(b"")


def truncate(state: Path) -> None:
    os.truncate(state, state.stat().st_size - 3)


def replace(state: Path) -> None:
    """By a copy of the same content, as an editor or a backup does."""
    state.with_name("copy").write_bytes(state.read_bytes())
    state.with_name("copy").replace(state)


def append(state: Path) -> None:
    with state.open("ab") as file:
        file.write(b'{"do":"undo"}\n')


FAULTS = [delete, empty, truncate, replace, append]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_change_is_not_confirmed_once_the_file_is_not_ours(
    session: Session, fault: Callable[[Path], None], tmp_path: Path
) -> None:
    state = session.journal.path
    session.label([20], to=OUTLIER)
    before = state.read_bytes()
    fault(state)
    with running(session) as server:
        for _ in range(2):
            answer = ask(server.port, "/api/act", {"do": "label", "items": [21], "to": 0})
            assert answer.status == 500 and answer.json["stopped"] and str(state) in answer.json["error"]
        shown = ask(server.port, "/api/state").json
        assert shown["stopped"] and shown["given"][20] == OUTLIER and shown["given"][21] == UNLABELED
        state.unlink(missing_ok=True)
        state.write_bytes(before)  # put back: it is another file now
        for change in ({"do": "label", "items": [22], "to": 0}, {"do": "undo"}, {"do": "add", "name": "owl"}):
            assert ask(server.port, "/api/act", change).status == 500
        assert state.read_bytes() == before and session.n_events == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_file_that_changes_while_the_disk_is_waited_for_is_not_confirmed(
    session: Session, fault: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def slow(fd: int) -> None:
        fsync(fd)
        fault(session.journal.path)

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(NotSavedError):
        session.label([20], to=OUTLIER)
    assert session.snapshot().given[20] == UNLABELED and session.stopped is not None


def test_the_state_can_be_downloaded_and_taken_up_again(folders: tuple[Path, Path]) -> None:
    first = open_session(folders)
    first.add_class("green")
    first.label([20, 21], to=2)
    first.label([22], to=OUTLIER)
    first.undo()
    content = first.journal.path.read_bytes()
    with running(first) as server:
        assert ask(server.port, "/download/state.jsonl").body == content
        delete(first.journal.path)
        assert ask(server.port, "/api/act", {"do": "undo"}).status == 500
        saved = ask(server.port, "/download/state.jsonl")
        assert saved.status == 200 and "attachment" in saved.headers["content-disposition"]
    (elsewhere := folders[1].parent / "downloaded.jsonl").write_bytes(saved.body)
    again = open_session(folders, elsewhere)
    assert saved.body == content
    assert again.snapshot().names == first.snapshot().names and again.n_events == first.n_events == 2
    assert again.snapshot().given.tolist() == first.snapshot().given.tolist()


@pytest.mark.slow
def test_a_second_command_is_refused_and_what_was_confirmed_is_written_beside_the_state(
    folders: tuple[Path, Path],
) -> None:
    process, address = start(folders, "--port", "0", "--state", str(state := folders[1].parent / "state.jsonl"))
    port = int(address.rstrip("/").rpartition(":")[2])
    assert ask(port, "/api/act", {"do": "label", "items": [20], "to": OUTLIER}).status == 200
    content = state.read_bytes()
    delete(state)
    assert ask(port, "/api/act", {"do": "label", "items": [21], "to": OUTLIER}).status == 500
    with pytest.raises(AssertionError, match=state.name):
        start(folders, "--port", "0", "--state", str(state))
    end(process, signal.SIGINT)
    rescued = [path for path in state.parent.iterdir() if path.name.startswith(f"{state.name}.")]
    assert [path.read_bytes() for path in rescued] == [content]
    assert stat.S_IMODE(rescued[0].stat().st_mode) == 0o600 and not state.exists()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_session_that_ends_says_where_its_changes_are(session: Session, fault: Callable[[Path], None]) -> None:
    """Also where no change was tried after the fault."""
    journal = session.journal
    session.label([20], to=OUTLIER)
    before = journal.path.read_bytes()
    assert journal.where() == journal.path
    fault(journal.path)
    assert journal.where() != journal.path and journal.where().read_bytes() == before


def test_where_the_whole_folder_is_gone_changes_are_kept_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    journal = Journal(tmp_path / "folder" / "state")
    journal.append({"do": "add", "name": "owl"})
    shutil.rmtree(tmp_path / "folder")
    assert journal.where().read_bytes() == journal.content
    journal.close()


def test_what_another_program_cut_is_not_lengthened_again(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails is taken back by cutting the file, which would fill a shorter one up with zeros."""

    def fails(fd: int, line: bytes) -> int:
        empty(session.journal.path)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", fails)
        with pytest.raises(NotSavedError):
            session.label([20], to=OUTLIER)
    with pytest.raises(NotSavedError):
        session.label([20], to=OUTLIER)
    assert session.journal.path.read_bytes() == b""


# -- one server at a time


@pytest.mark.parametrize("fault", [delete, replace])
def test_a_second_server_is_refused_though_the_file_is_gone(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    journal = Journal(tmp_path / "state")
    fault(tmp_path / "state")
    there = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(SalaError):
        Journal(tmp_path / "state")
    assert sorted(path.name for path in tmp_path.iterdir()) == there  # and it makes no file
    journal.close()
    Journal(tmp_path / "state").close()


def test_one_state_by_two_paths_is_one_state(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a", target_is_directory=True)
    (tmp_path / "alias").symlink_to(tmp_path / "a" / "state")
    journal = Journal(tmp_path / "a" / "state")
    os.link(tmp_path / "a" / "state", tmp_path / "hard")
    for other in (tmp_path / "link" / "state", tmp_path / "alias", tmp_path / "hard"):
        with pytest.raises(SalaError):
            Journal(other)
    journal.close()


def locks(cache: Path) -> list[Path]:
    return list((cache / "locks").iterdir())


def test_without_its_lock_file_the_state_is_locked_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALA_CACHE", str(tmp_path / "cache"))
    journal = Journal(tmp_path / "state")
    for path in locks(tmp_path / "cache"):
        path.unlink()
    with pytest.raises(SalaError):
        Journal(tmp_path / "state")
    journal.append({"do": "add", "name": "owl"})
    journal.close()


@pytest.mark.slow
def test_a_normal_end_leaves_no_lock_file_and_a_kill_no_lock(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SALA_CACHE", str(tmp_path / "cache"))
    for ending in (signal.SIGKILL, signal.SIGINT):  # what the first leaves is taken over, and removed
        process, _ = start(folders, "--port", "0")
        end(process, ending)
    assert locks(tmp_path / "cache") == []
    assert {path.name for path in folders[1].parent.iterdir() if path.is_file()} == {
        "features.npy", "features.txt", f"{folders[1].name}.sala.jsonl",
    }  # fmt: skip


def test_where_the_cache_cannot_be_written_the_lock_lies_beside_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_bytes(b"not a folder")
    monkeypatch.setenv("SALA_CACHE", str(tmp_path / "cache"))
    journal = Journal(tmp_path / "state")
    delete(tmp_path / "state")
    with pytest.raises(SalaError):
        Journal(tmp_path / "state")
    journal.close()
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


# -- what is no file


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    """In a process of its own, since it would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/zero")
    places = [str(tmp_path / name) for name in ("pipe", "folder", "link")] + ["/dev/zero"]
    said = subprocess.run([sys.executable, "-c", OPEN_EACH, *places], capture_output=True, text=True, check=True).stdout
    assert [line.startswith(place) for line, place in zip(said.splitlines(), places, strict=True)] == [True] * 4


OPEN_EACH = """
import sys
from pathlib import Path
from sala.errors import SalaError
from sala.web.journal import Journal
for place in sys.argv[1:]:
    try:
        Journal(Path(place))
    except SalaError as error:
        print(error)
"""


def test_a_state_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "state").open("wb") as file:
        file.truncate(1 << 40)  # no block of it is on disk
    with pytest.raises(SalaError):
        Journal(tmp_path / "state")


def test_no_more_is_written_than_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "state")
    event = {"do": "label", "items": [f"pool/{i}.jpg" for i in range(100)], "to": "outlier", "checked": 0, "agreed": 0}
    journal.append(event)
    monkeypatch.setattr("sala.web.journal.MAX_BYTES", 2000)
    with pytest.raises(NotSavedError):
        journal.append(event)
    monkeypatch.setattr("sala.web.journal.MAX_LINE", 1000)
    with pytest.raises(SalaError):
        journal.append(event)
    assert journal.stopped is None
    journal.append({"do": "add", "name": "owl"})
    journal.close()
    monkeypatch.setattr("sala.web.journal.MAX_LINE", 2000)
    again = Journal(tmp_path / "state")
    assert [event["do"] for event in again.events] == ["label", "add"]
    again.close()

"""A session's journal on disk: what was confirmed is there, whatever happened, and what was not is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sala.errors import SalaError
from sala.labeling.project import OUTLIER, UNLABELED
from sala.web.journal import Journal, NotSavedError
from sala.web.session import Session
from tests.helpers.pages import fail_once, full, open_session, row_of


def test_a_session_goes_on_where_the_journal_ends(folders: tuple[Path, Path]) -> None:
    first = open_session(folders)
    first.add_class("green")
    first.label([20, 21], to=2)
    first.rename_class(0, "sky")
    first.undo()
    first.close()
    (folders[0] / "amber").mkdir()  # a folder that comes between the others
    again = open_session(folders)
    shown = again.snapshot()
    assert shown.names == ("amber", "blue", "red", "green")
    assert [shown.names[c] for c in shown.given[[20, 21]]] == ["green", "green"]


def test_a_line_that_was_cut_short_is_removed_and_the_rest_is_kept(folders: tuple[Path, Path]) -> None:
    state = folders[1].parent / "state.jsonl"
    first = open_session(folders)
    first.label([20], to=OUTLIER)
    first.close()
    whole = state.read_bytes()
    for cut in (b'{"do":"lab', b"\0\0\0"):
        state.write_bytes(whole + cut)
        again = open_session(folders)
        assert again.snapshot().given[20] == OUTLIER
        again.close()
        assert state.read_bytes() == whole


@pytest.mark.parametrize(
    "content", [b"my diary\n", b"my diary", b'{"kind":"sala-labels","format":0}\n', b"[]\n", b"{}\n"]
)
def test_a_file_that_is_no_state_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(SalaError, match="not"):
        Journal(tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == content


def test_one_state_is_not_written_by_two(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "state")
    with pytest.raises(SalaError, match="open in another"):
        Journal(tmp_path / "state")
    journal.close()


def test_labels_of_images_that_are_gone_are_counted_and_kept(folders: tuple[Path, Path]) -> None:
    first = open_session(folders)
    first.label([row_of(first, "red-0.png")], to=OUTLIER)
    first.close()
    (folders[1] / "red-0.png").rename(folders[1] / "elsewhere.png")
    assert open_session(folders).n_lost == 1


def test_labels_of_a_class_whose_folder_is_gone_are_lost_and_come_back_with_it(folders: tuple[Path, Path]) -> None:
    first = open_session(folders)
    red, green = row_of(first, "red-0.png"), row_of(first, "green-0.png")
    first.label([red, green], to=1)
    first.close()
    (folders[0] / "red").rename(folders[0].parent / "elsewhere")
    without = open_session(folders)
    without.close()
    assert without.n_lost == 2 and without.snapshot().given[row_of(without, "red-0.png")] == UNLABELED
    (folders[0].parent / "elsewhere").rename(folders[0] / "red")
    again = open_session(folders)
    assert again.n_lost == 0 and again.snapshot().given[[red, green]].tolist() == [1, 1]


def test_a_name_for_a_class_whose_folder_is_gone_is_passed_over(folders: tuple[Path, Path]) -> None:
    first = open_session(folders)
    first.rename_class(1, "rose")
    first.close()
    (folders[0] / "red").rename(folders[0].parent / "elsewhere")
    assert open_session(folders).snapshot().names == ("blue",)


def test_a_new_state_is_its_owners_alone_and_its_name_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda fd: synced.add(os.fstat(fd).st_ino))
    Journal(tmp_path / "state").close()
    assert {tmp_path.stat().st_ino, (tmp_path / "state").stat().st_ino} == synced
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_what_cannot_be_saved_has_not_happened(session: Session, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    size = session.journal.path.stat().st_size
    fail_once(monkeypatch, call)
    with pytest.raises(NotSavedError, match="No space left"):
        session.label([20], to=OUTLIER)
    assert session.snapshot().given[20] == UNLABELED
    assert session.journal.path.stat().st_size == size
    session.label([21], to=OUTLIER)  # what comes after it does not bring it back
    assert session.snapshot().given[[20, 21]].tolist() == [UNLABELED, OUTLIER] and session.n_events == 1


@pytest.mark.parametrize("broken", ["fsync", "ftruncate"])
def test_after_a_line_that_could_not_be_taken_back_nothing_is_written(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """What the file holds is not known then: half a line, a whole one, or what was there before."""
    session, write = open_session(folders), os.write
    session.label([19], to=OUTLIER)
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", lambda fd, line: write(fd, line[:9]))
        disk.setattr(os, broken, full)
        with pytest.raises(NotSavedError):
            session.label([20], to=OUTLIER)
    with pytest.raises(NotSavedError):
        session.label([21], to=OUTLIER)
    assert session.stopped is not None and session.n_events == 1
    session.close()
    again = open_session(folders)
    assert again.snapshot().given[[19, 20, 21]].tolist() == [OUTLIER, UNLABELED, UNLABELED]


def test_a_state_of_any_length_is_read_to_its_end(tmp_path: Path) -> None:
    """More than a megabyte; what is written next is put behind it."""
    journal = Journal(tmp_path / "state")
    many = [f"pool/{i:060d}.jpg" for i in range(6_000)]
    for i in range(4):
        journal.append({"do": "label", "items": many, "to": "outlier", "checked": i, "agreed": 0})
    journal.close()
    again = Journal(tmp_path / "state")
    assert [event["checked"] for event in again.events] == [0, 1, 2, 3]
    again.append({"do": "undo"})
    again.close()
    last = Journal(tmp_path / "state")
    assert [event["checked"] for event in last.events] == [0, 1, 2]
    last.close()


def test_a_crash_a_full_disk_and_then_a_label_leave_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line that a crash cut short is longer than what is there afterwards, and must not be counted again."""
    journal = Journal(tmp_path / "state")
    journal.append({"do": "add", "name": "owl"})
    journal.close()
    with (tmp_path / "state").open("ab") as file:
        file.write(b'{"do":"label","items":["pool/cut-sh')
    journal = Journal(tmp_path / "state")
    fail_once(monkeypatch, "fsync")
    with pytest.raises(NotSavedError):
        journal.append({"do": "undo"})
    journal.append({"do": "add", "name": "cat"})
    journal.close()
    lines = (tmp_path / "state").read_bytes().splitlines()
    assert lines[1:] == [b'{"do":"add","name":"owl"}', b'{"do":"add","name":"cat"}']


def test_a_file_that_was_refused_is_let_go(tmp_path: Path) -> None:
    """It may be mended and opened by the same process."""
    (tmp_path / "state").write_bytes(b"my diary\n")
    for _ in range(2):
        with pytest.raises(SalaError, match="line 1"):
            Journal(tmp_path / "state")
    (tmp_path / "state").write_bytes(b"")
    Journal(tmp_path / "state").close()


def test_a_first_line_that_was_cut_short_is_written_anew(tmp_path: Path) -> None:
    Journal(tmp_path / "state").close()
    whole = (tmp_path / "state").read_bytes()
    for n in range(len(whole)):
        (tmp_path / "state").write_bytes(whole[:n])
        Journal(tmp_path / "state").close()
        assert (tmp_path / "state").read_bytes() == whole


def test_a_place_that_cannot_be_written_is_told_with_the_option_for_another(tmp_path: Path) -> None:
    with pytest.raises(SalaError, match=r"away.state\.jsonl.*cannot be written.*--state"):
        Journal(tmp_path / "away" / "state.jsonl")


# -- formats


FORMAT_1 = b"""{"kind":"sala-labels","format":1}
{"do":"label","items":["labelled/red/0.png","pool/red-0.png"],"to":"none","checked":1,"agreed":0}
{"do":"add","name":"green"}
{"do":"label","items":["pool/green-0.png"],"to":"added/0","checked":0,"agreed":0}
{"do":"label","items":["pool/blue-0.png"],"to":"none","checked":0,"agreed":0}
{"do":"undo"}
"""


@pytest.mark.parametrize("tail", [b"", b'{"do":"label","items":["pool/cut-sh'])
def test_a_state_of_format_1_is_converted_and_kept(folders: tuple[Path, Path], tail: bytes) -> None:
    state = folders[1].parent / "state.jsonl"
    backup = state.with_name("state.jsonl.format-1.bak")
    state.write_bytes(FORMAT_1 + tail)
    backup.write_bytes(FORMAT_1 + tail)  # a conversion was cut short
    session = open_session(folders)
    shown = session.snapshot()
    given = {session.project.items[i].key: int(shown.given[i]) for i in range(len(shown.given))}
    assert (given["labeled/red/0.png"], given["pool/red-0.png"]) == (OUTLIER, OUTLIER)
    assert (given["pool/green-0.png"], given["pool/blue-0.png"]) == (2, UNLABELED)
    assert shown.names == ("blue", "red", "green") and session.n_lost == 0
    session.undo()
    session.close()
    again = open_session(folders)
    assert again.n_events == 2 and backup.read_bytes() == FORMAT_1 + tail
    lines = state.read_bytes().splitlines()
    assert lines[0] == b'{"kind":"sala-labels","format":2}' and b"labelled" not in state.read_bytes()
    assert len(lines) == len(FORMAT_1.splitlines()) + 1
    assert state.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("call", ["open", "replace", "fsync"])
def test_a_conversion_that_fails_leaves_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    state = tmp_path / "state"
    state.write_bytes(FORMAT_1)
    with monkeypatch.context() as disk:
        module = "sala.web.state_format.os." + call
        disk.setattr(module, full) if call != "open" else disk.setattr("sala.web.state_format.write_new", full)
        with pytest.raises(SalaError, match=r"No space left|disk is full"):
            Journal(state)
    assert state.read_bytes() == FORMAT_1
    journal = Journal(state)
    assert len(journal.events) == 3
    journal.close()


@pytest.mark.parametrize("line", [b'{"do":"add"}\n', b'{"do":"undo"}\n' * 5, b'{"do":"add","name":1e999}\n'])
def test_a_damaged_state_of_format_1_is_left_alone(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "state").write_bytes(FORMAT_1 + line)
    with pytest.raises(SalaError, match="line"):
        Journal(tmp_path / "state")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("state", FORMAT_1 + line)]


def test_a_backup_of_another_state_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(FORMAT_1)
    (tmp_path / "state.format-1.bak").write_bytes(b"another")
    with pytest.raises(SalaError, match=r"format-1\.bak"):
        Journal(tmp_path / "state")
    assert (tmp_path / "state.format-1.bak").read_bytes() == b"another"


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(content := b'{"kind":"sala-labels","format":3}\n{"do":"new"}\n')
    with pytest.raises(SalaError, match=r"format 3.*update sala"):
        Journal(tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == content

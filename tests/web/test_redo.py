"""Undo and redo are each other's inverse, over every kind of change and over a kill."""

from __future__ import annotations

import random
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.errors import SalaError
from sala.labeling.project import OUTLIER, UNLABELED
from sala.web.journal import Journal
from sala.web.session import CLEAR, Session
from stress.asking import ask
from tests.helpers.pages import end, open_session, start
from tests.web.test_state_fuzz import TOY, lines_of


def look(session: Session) -> tuple[Any, ...]:
    state = session._state
    return tuple(state.names), state.given.tolist(), state.n_checked, state.n_agreed


def make_changes(session: Session) -> list[tuple[Any, ...]]:
    """What the state looks like before each change, and after the last."""
    session.snapshot()
    seen = [look(session)]
    for change in (
        lambda: session.label([10, 11], to=0),
        lambda: session.add_class("green"),
        lambda: session.give([(2, [20, 21]), (OUTLIER, [12]), (CLEAR, [10])]),
        lambda: session.rename_class(2, "leaf"),
        lambda: session.order_classes([2, 0, 1]),
        lambda: session.merge_class(0, into=2),
        lambda: session.delete_class(0),
    ):
        change()
        seen.append(look(session))
    return seen


def test_undo_and_redo_walk_the_same_way_back_and_forth(session: Session) -> None:
    seen = make_changes(session)
    assert len({str(one) for one in seen}) == len(seen)
    for expected in reversed(seen[:-1]):
        session.undo()
        assert look(session) == expected
    for expected in seen[1:]:
        session.redo()
        assert look(session) == expected
    with pytest.raises(SalaError, match="nothing to redo"):
        session.redo()


def test_what_was_undone_can_be_made_again_after_a_kill(folders: tuple[Path, Path]) -> None:
    first = open_session(folders)
    seen = make_changes(first)
    for _ in range(4):
        first.undo()
    first.redo()
    first.journal.close()  # nothing is written at the end: this is all that a kill leaves
    again = open_session(folders)
    shown = again.snapshot()
    assert (shown.n_undo, shown.n_redo) == (4, 3)
    for expected in seen[5:]:
        again.redo()
        assert look(again) == expected


def test_a_new_change_forgets_what_was_undone(session: Session) -> None:
    session.label([10], to=0)
    session.undo()
    session.label([11], to=0)
    with pytest.raises(SalaError, match="nothing to redo"):
        session.redo()
    assert session.snapshot().given[[10, 11]].tolist() == [UNLABELED, 0]


def test_the_undo_of_a_change_that_was_redone_takes_back_that_one(session: Session) -> None:
    first = session.label([10], to=0)
    session.undo(first)
    again = session.redo()
    with pytest.raises(SalaError, match="undone already"):
        session.undo(first)
    session.undo(again)
    assert session.n_events == 0


def wander(session: Session, rng: random.Random, step: int) -> None:
    """One change of any kind, or none where it cannot be made."""
    n = len(session._state.names)
    changes = [
        lambda: session.label([rng.randrange(10)], to=rng.choice([OUTLIER, CLEAR, *range(n)])),
        lambda: session.add_class(f"class {step}"),
        lambda: session.merge_class(*rng.sample(range(n), 2)),
        lambda: session.order_classes(rng.sample(range(n), n)),
        lambda: session.delete_class(rng.randrange(n)),
        *[session.undo, session.redo] * 4,
    ]
    with suppress(SalaError, ValueError):  # nothing to undo; too few classes
        rng.choice(changes)()


def test_any_walk_of_undo_and_redo_is_the_same_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda fd: None)
    rng = random.Random(0)
    session = Session(TOY, Journal(tmp_path / "state"))
    for step in range(200):
        wander(session, rng, step)
        if step % 20 == 0:
            expected = look(session), session.n_events, len(session._in_force.undone)
            session.close()
            session = Session(TOY, Journal(tmp_path / "state"))
            assert (look(session), session.n_events, len(session._in_force.undone)) == expected
    session.close()


# -- classes


def test_a_merged_class_gives_its_labels_to_the_other_and_gets_them_back(session: Session) -> None:
    session.label([10, 11], to=0)
    before = session.snapshot()
    session.merge_class(0, into=1)
    shown = session.snapshot()
    assert shown.names == ("red",) and shown.given[[0, 1, 2, 3, 10, 11]].tolist() == [0] * 6
    session.undo()
    assert session.snapshot().names == before.names
    np.testing.assert_array_equal(session.snapshot().given, before.given)


def test_a_label_of_a_class_that_was_merged_twice_is_not_lost(session: Session) -> None:
    session.add_class("green")
    session.label([20], to=2)
    session.merge_class(2, into=0)
    session.merge_class(0, into=1)
    shown = session.snapshot()
    assert shown.names == ("red",) and shown.given[20] == 0
    session.undo()
    assert session.snapshot().names == ("blue", "red") and session.snapshot().given[20] == 0


def test_images_of_a_deleted_class_have_no_label_and_its_name_is_free(session: Session) -> None:
    session.label([10], to=0)
    session.delete_class(0)
    shown = session.snapshot()
    assert shown.names == ("red",) and shown.given[[0, 1, 2, 10]].tolist() == [UNLABELED, UNLABELED, 0, UNLABELED]
    session.add_class("blue")
    session.label([10], to=1)
    assert session.snapshot().given[[0, 10]].tolist() == [UNLABELED, 1]
    for _ in range(3):
        session.undo()
    assert session.snapshot().given[[0, 1, 2, 10]].tolist() == [0, 0, 1, 0]


def test_the_last_class_may_be_deleted(session: Session) -> None:
    session.delete_class(0)
    session.delete_class(0)
    shown = session.snapshot()
    assert shown.names == () and (shown.given == UNLABELED).all()


def test_classes_stay_in_the_users_order_and_a_new_folder_comes_last(folders: tuple[Path, Path]) -> None:
    first = open_session(folders)
    first.order_classes([1, 0])
    first.label([10], to=0)
    assert first.snapshot().names == ("red", "blue") and first.snapshot().given[[0, 10]].tolist() == [1, 0]
    first.close()
    (folders[0] / "amber").mkdir()
    again = open_session(folders)
    assert again.snapshot().names == ("red", "blue", "amber")
    assert again.snapshot().given[[0, 10]].tolist() == [1, 0]


@pytest.mark.parametrize(
    "change",
    [
        lambda session: session.merge_class(0, into=0),
        lambda session: session.merge_class(0, into=2),
        lambda session: session.delete_class(-2),
        lambda session: session.order_classes([0]),
        lambda session: session.order_classes([0, 0]),
        lambda session: session.give([]),
        lambda session: session.give([(0, [10]), (7, [11])]),
    ],
)
def test_a_change_that_names_no_class_is_refused(session: Session, change: Any) -> None:
    with pytest.raises(SalaError):
        change(session)
    assert session.n_events == 0


@pytest.mark.parametrize(
    "event",
    [
        {"do": "redo"},
        {"do": "merge", "class": "folder/red", "into": "folder/red"},
        {"do": "merge", "class": "folder/red", "into": "added/0"},
        {"do": "merge", "class": "folder/red", "into": "outlier"},
        {"do": "delete", "class": "added/0"},
        {"do": "order", "classes": ["folder/red", "folder/red"]},
        {"do": "order", "classes": []},
        {"do": "labels", "parts": [], "checked": 0, "agreed": 0},
        {"do": "labels", "parts": [{"items": ["pool/0.png"], "to": "added/3"}], "checked": 0, "agreed": 0},
        {"do": "labels", "parts": [{"items": ["pool/0.png"], "to": "clear"}], "checked": 2, "agreed": 0},
    ],
)
def test_a_line_that_sala_does_not_write_is_refused(tmp_path: Path, event: dict[str, Any]) -> None:
    (tmp_path / "state").write_bytes(lines_of([event]))
    with pytest.raises(SalaError, match="line 2"):
        Journal(tmp_path / "state")


def test_what_merges_a_folder_that_is_gone_is_passed_over(folders: tuple[Path, Path]) -> None:
    first = open_session(folders)
    first.merge_class(0, into=1)
    first.close()
    (folders[0] / "red").rename(folders[0].parent / "elsewhere")
    assert open_session(folders).snapshot().names == ("blue",)


def test_a_number_of_a_class_that_another_tab_moved_is_refused(session: Session) -> None:
    shown = session.snapshot()
    for change in (
        lambda: session.add_class("green"),  # behind the others: no number changes
        lambda: session.rename_class(0, "sky"),
    ):
        change()
        with session.numbered(shown.numbering):
            pass
    for change in (lambda: session.order_classes([1, 0, 2]), session.undo, lambda: session.delete_class(0)):
        known = session.snapshot().numbering
        change()
        with pytest.raises(SalaError, match="another tab"), session.numbered(known):
            session.label([10], to=0)
    assert session.snapshot().given[10] == UNLABELED


@pytest.mark.slow
def test_a_kill_leaves_what_was_undone_to_be_made_again(folders: tuple[Path, Path]) -> None:
    def served() -> tuple[Any, int]:
        process, address = start(folders, "--port", "0")
        return process, int(address.rstrip("/").rpartition(":")[2])

    process, port = served()
    for body in ({"do": "label", "items": [10], "to": 0}, {"do": "merge", "class": 0, "into": 1}, {"do": "undo"}):
        assert ask(port, "/api/act", body).status == 200
    end(process, signal.SIGKILL)
    process, port = served()
    shown = ask(port, "/api/state").json
    assert (shown["classes"], shown["undo"], shown["redo"]) == (["blue", "red"], 1, 1)
    assert ask(port, "/api/act", {"do": "redo"}).status == 200
    shown = ask(port, "/api/state").json
    assert (shown["classes"], shown["given"][10], shown["redo"]) == (["red"], 0, 0)
    end(process, signal.SIGINT)

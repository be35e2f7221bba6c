"""The random audit of a session: what is drawn, what an answer judges, and what is on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sala.errors import SalaError
from sala.labeling.audit import clopper_pearson
from sala.web.api import act
from sala.web.session import CLEAR, OUTLIER, UNLABELED, Session
from tests.helpers.pages import open_session, row_of


def truth(session: Session, item: int) -> int:
    """Green images are of no class."""
    name = session.project.items[item].path.partition("-")[0]
    return {"blue": 0, "red": 1}.get(name, OUTLIER)


def answer_all(session: Session, n: int) -> list[int]:
    asked = []
    for _ in range(n):
        session.snapshot()
        item = session.audit().upcoming[0]
        session.answer(item, truth(session, item))
        asked.append(item)
    return asked


def test_an_answer_judges_the_prediction_that_stood_and_labels_the_image(session: Session) -> None:
    session.begin_audit(5)
    shown = session.snapshot()
    item = session.audit().upcoming[0]
    said, verdict = int(shown.placed()[item]), str(shown.verdicts()[item])
    session.answer(item, truth(session, item))
    found = session.audit()
    assert found.n_drawn == 1 and found.shares["all"].n_right == (said == truth(session, item))
    assert found.shares.get(verdict, found.shares["all"]).n == 1
    assert session.snapshot().given[item] == truth(session, item)
    assert session.snapshot().n_checked == 0  # what chance drew is counted apart from what was suggested


def test_the_interval_is_told_once_all_images_are_drawn(session: Session) -> None:
    session.begin_audit(6)
    answer_all(session, 5)
    assert not session.audit().is_complete
    answer_all(session, 1)
    found = session.audit()
    assert found.is_complete and found.upcoming == []
    everything = found.shares["all"]
    assert (everything.low, everything.high) == clopper_pearson(everything.n_right, 6)
    session.begin_audit(9)  # three more, of the same order
    assert session.audit().n_drawn == 6 and not session.audit().is_complete


def test_only_the_image_that_was_drawn_is_answered(session: Session) -> None:
    session.snapshot()
    with pytest.raises(SalaError, match="another image"):
        session.answer(10, OUTLIER)
    session.begin_audit(5)
    first, second, *_ = session.audit().upcoming
    with pytest.raises(SalaError, match="another image"):
        session.answer(second, OUTLIER)
    session.answer(first, OUTLIER)
    with pytest.raises(SalaError, match="another image"):
        session.answer(first, OUTLIER)


def test_labels_given_elsewhere_do_not_change_the_order_and_are_not_drawn(session: Session) -> None:
    session.begin_audit(20)
    session.snapshot()
    order = session.audit().upcoming
    session.label([order[1]], truth(session, order[1]))
    assert session.audit().upcoming[:2] == [order[0], order[2]]
    assert session.audit().n_drawn == 0


def test_everything_of_an_audit_is_there_after_a_restart(folders: tuple[Path, Path]) -> None:
    session = open_session(folders)
    session.begin_audit(8)
    answer_all(session, 4)
    before = session.audit()
    session.close()
    again = open_session(folders)
    assert again.audit() == before
    again.close()


def test_an_undone_answer_is_asked_again(session: Session) -> None:
    session.begin_audit(5)
    (item,) = answer_all(session, 1)
    session.undo()
    assert session.audit().upcoming[0] == item and session.audit().n_drawn == 0


def test_a_mistaken_answer_that_is_corrected_later_counts_as_corrected(session: Session) -> None:
    session.begin_audit(3)
    session.snapshot()
    item = row_of(session, session.project.items[session.audit().upcoming[0]].path)
    said = int(session.snapshot().placed()[item])
    wrong = OUTLIER if said != OUTLIER else 0
    session.answer(item, wrong)
    assert session.audit().shares["all"].n_right == 0
    session.label([item], said)
    assert session.audit().shares["all"].n_right == 1
    assert session.audit().n_later == 1  # a label since the last answer: the interval is of the labels before it


def test_who_cannot_tell_leaves_the_image_open(session: Session) -> None:
    session.begin_audit(2)
    session.snapshot()
    item = session.audit().upcoming[0]
    session.answer(item, CLEAR)
    found = session.audit()
    assert session.snapshot().given[item] == UNLABELED and found.upcoming[0] != item
    assert (found.shares["all"].n, found.shares["all"].n_open) == (1, 1)


def test_another_audit_is_drawn_anew(session: Session) -> None:
    session.begin_audit(3)
    answer_all(session, 3)
    session.begin_audit(20, anew=True)
    assert session.audit().n_drawn == 0
    seeds = [
        event["seed"] for event in map(json.loads, session.saved_state().splitlines()) if event.get("do") == "audit"
    ]
    assert len(set(seeds)) == 2


def test_a_pool_smaller_than_the_audit_is_drawn_whole(session: Session) -> None:
    session.begin_audit(500)
    n = int(session.project.is_pool.sum())
    answer_all(session, n)
    assert session.audit().is_complete and session.audit().n_drawn == n


def test_an_audit_needs_a_prediction_and_a_size(session: Session) -> None:
    with pytest.raises(SalaError, match="1 to"):
        session.begin_audit(0)
    act(session, {"do": "audit", "n": 2}, "run")
    with pytest.raises(SalaError, match="nothing is predicted"):
        session.answer(session.audit().upcoming[0], 0)  # no fit was made yet


def test_audits_of_many_pools_cover_the_true_share(session: Session) -> None:
    """The labels are as they stood at the beginning: what was drawn is judged by the journal, whatever is learned later."""
    session.snapshot()
    pool = np.flatnonzero(session.project.is_pool)
    right = session.snapshot().placed()[pool] == [truth(session, int(i)) for i in pool]
    covered = []
    for _ in range(40):
        session.begin_audit(10, anew=True)
        for _ in range(10):
            item = session.audit().upcoming[0]
            session.answer(item, truth(session, item))  # no fit in between
        share = session.audit().shares["all"]
        covered.append(share.low <= right.mean() <= share.high)
        for _ in range(11):
            session.undo()
    assert np.mean(covered) >= 0.9


def test_a_prediction_is_right_if_its_class_was_merged_into_the_answer(session: Session) -> None:
    session.begin_audit(1)
    shown = session.snapshot()
    item = session.audit().upcoming[0]
    said = int(shown.placed()[item])
    session.answer(item, 1 - said)
    assert session.audit().shares["all"].n_right == 0
    session.merge_class(said, into=1 - said)
    assert session.audit().shares["all"].n_right == 1
    session.undo()
    assert session.audit().shares["all"].n_right == 0


def test_several_labels_in_one_change_are_answers_each(session: Session) -> None:
    shown = session.snapshot()
    items = [row_of(session, name) for name in ("red-4.png", "blue-4.png")]
    session.give([(1, items[:1]), (0, items[1:])])
    found = session.snapshot()
    assert found.is_confirmed[items].tolist() == (shown.most_probable()[items] == [1, 0]).tolist()
    assert found.n_checked == 2

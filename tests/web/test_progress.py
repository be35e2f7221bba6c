"""What a session tells of its progress: range, reasons, goal."""

from __future__ import annotations

from sala.web.progress import describe_progress
from sala.web.session import OUTLIER, Session
from tests.helpers.pages import row_of


def told(session: Session, goal: float = 0.95) -> dict[str, dict[str, object]]:
    session.snapshot()
    return describe_progress(session.progress, session.audit(), goal)


def test_labels_move_the_range_up_and_say_why(session: Session) -> None:
    before = told(session)["expected"]
    assert before["low"] <= before["mean"] <= before["high"]  # type: ignore[operator]
    session.label([row_of(session, f"green-{i}.png") for i in range(8)], to=OUTLIER)
    after = told(session)["expected"]
    assert after["why"] and isinstance(after["why"], str)


def test_a_goal_says_how_many_labels_it_takes_and_when_it_is_reached(session: Session) -> None:
    goal = told(session, 0.999)["goal"]
    assert goal["reached_by"] is None and goal["labels_at_most"] > 0 and goal["labels_at_pace"] is None  # type: ignore[operator]
    assert told(session, 0.01)["goal"]["reached_by"] == "expectation"
    for item in range(4, len(session.project.items)):
        name = session.project.items[item].path.partition("-")[0]
        session.label([item], {"blue": 0, "red": 1}.get(name, OUTLIER))
    done = told(session, 1.0)["goal"]
    assert done["reached_by"] == "expectation" and done["labels_at_most"] == 0  # every image has a label


def test_an_audit_reaches_a_goal_that_its_lower_bound_is_above(session: Session) -> None:
    session.snapshot()
    session.begin_audit(5)
    for _ in range(5):
        item = session.audit().upcoming[0]
        session.answer(item, int(session.snapshot().placed()[item]))
    assert told(session, 0.5)["goal"]["reached_by"] == "audit"
    assert told(session, 0.99)["goal"]["reached_by"] != "audit"


def test_outliers_that_leave_together_are_told(session: Session) -> None:
    session.label([row_of(session, f"green-{i}.png") for i in range(3)], to=OUTLIER)
    assert session.snapshot().is_rejected.sum() > 3
    session.add_class("green")
    session.label([row_of(session, f"green-{i}.png") for i in range(3)], to=2)
    said = told(session)["rejections"]
    assert "left the outliers" in str(said)

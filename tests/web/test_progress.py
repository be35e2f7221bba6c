"""What a session tells of its progress: range, reasons, goal."""

from __future__ import annotations

from collections.abc import Callable

from sala.labeling.moves import FEW
from sala.web.progress import N_TOLD, describe_progress
from sala.web.session import OUTLIER, UNLABELED, Session
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


def test_images_that_are_rejected_together_are_told_with_the_reason_for_some_changes(session: Session) -> None:
    assert not told(session)["rejections"]
    session.label([row_of(session, f"green-{i}.png") for i in range(3)], to=OUTLIER)
    first = str(told(session)["rejections"])
    assert first.endswith("there is an example of an outlier now, and rejection waits for one.")
    n = int(session.snapshot().is_rejected.sum())
    assert n > FEW and first.startswith(f"{n} more images are rejected")
    for n_later in range(1, N_TOLD + 2):  # who labels quickly reads it a little later
        session.add_class(f"class {n_later}")
        said = str(told(session)["rejections"])
        assert said == ("" if n_later > N_TOLD else f"{n_later} change{'s' * (n_later > 1)} ago: {first}")


def test_every_change_that_moves_more_than_a_few_rejected_images_is_told(session: Session) -> None:
    """Labels, undo and changes of classes; of which some move many images, and some few."""
    greens = [row_of(session, f"green-{i}.png") for i in range(3)]
    changes: list[Callable[[], int]] = [
        lambda: session.label(greens, to=OUTLIER),
        lambda: session.add_class("green"),
        lambda: session.label(greens, to=2),
        session.undo,
        session.redo,
        lambda: session.merge_class(2, into=0),
        lambda: session.label([row_of(session, "red-0.png")], to=1),
        lambda: session.label([0], to=OUTLIER),  # an example
        session.undo,
    ]
    n_moves, before = [], session.snapshot()
    for change in changes:
        version = change()
        after = session.snapshot()
        is_open = (before.given == UNLABELED) & (after.given == UNLABELED)
        n_moves.append(int((is_open & (before.is_rejected != after.is_rejected)).sum()))
        said = str(told(session)["rejections"])
        assert (bool(said) and " ago: " not in said) == (n_moves[-1] > FEW), (version, n_moves[-1], said)
        before = after
    assert min(n_moves) <= FEW < max(n_moves)

"""Corrections that were made on the page, for whoever else labels the same folders."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from sala.errors import SalaError
from sala.labeling.answers import UserAnswers
from sala.labeling.project import Project
from sala.text import printable
from sala.web.audits import read_answers
from sala.web.events import Event
from sala.web.journal import Journal
from sala.web.replay import Replay, State


def read_changes(path: Path) -> list[Event]:
    """The changes that a state file holds, which needs no images: what is wrong with it is told before the work."""
    if not path.exists():
        raise SalaError(f"there is no state {printable(str(path))}; `sala serve` writes one beside the pool")
    if path.is_file() and not path.stat().st_size:
        raise SalaError(f"{printable(str(path))} is empty, and no state; give the one that `sala serve` wrote")
    with closing(Journal(path)) as journal:
        return journal.events


def corrected(project: Project, changes: Sequence[Event]) -> tuple[State, UserAnswers]:
    """The names of classes, and the label of each image of the project, after all changes; and what these tell of the
    predictions that the user saw."""
    replay = Replay(project)
    state = replay.state(changes)
    return state, read_answers(changes, replay, state)

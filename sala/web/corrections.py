"""Corrections that were made on the page, for whoever else labels the same folders."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sala.errors import SalaError
from sala.labeling.project import Project
from sala.text import printable
from sala.web.journal import Journal
from sala.web.replay import Replay, State


def read_corrections(path: Path, project: Project) -> State:
    """The names of classes, and the label of each image of the project, as a state file has them."""
    if not path.exists():
        raise SalaError(f"there is no state {printable(str(path))}; `sala serve` writes one beside the pool")
    with closing(Journal(path)) as journal:
        return Replay(project).state(journal.events)

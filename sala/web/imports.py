"""Labels by the names of their classes, as one event of a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sala.errors import SalaError
from sala.labeling.folders import OUTLIER_NAME, checked_class
from sala.labeling.project import OUTLIER, Project
from sala.web.events import MAX_CLASSES, MAX_NAME, Event, is_name
from sala.web.replay import Replay, State


def import_event(labels: Mapping[int, str], state: State, replay: Replay, project: Project) -> Event:
    """The change that gives each image the class of a name, of those that do not have it yet. A name in other letters, such as
    Owl for owl, is that class; one that is new is added."""
    number = {name.casefold(): c for c, name in enumerate(state.names)} | {OUTLIER_NAME: OUTLIER}
    number |= {name: c for c, name in enumerate(state.names)}
    given, added, items = state.given, list[str](), dict[int, list[str]]()
    for row, label in labels.items():
        to = number.get(label, number.get(label.casefold()))
        if to is None:
            added.append(checked_name(label, [*state.names, *added]))
            to = number[label] = number[label.casefold()] = len(state.names) + len(added) - 1
        if given[row] != to:
            items.setdefault(to, []).append(project.items[row].key)
    if len(state.names) + len(added) > MAX_CLASSES:
        raise SalaError(
            f"these are {len(state.names) + len(added)} classes, and {MAX_CLASSES} are the limit; merge some"
        )
    n_before = len(state.every) - len(project.classes)  # classes that were added before
    names = {len(state.names) + i: f"added/{n_before + i}" for i in range(len(added))}
    parts = [{"items": keys, "to": names.get(to) or replay.class_id(state, to)} for to, keys in items.items()]
    return {"do": "import", "add": added, "parts": parts}


def checked_name(name: str, others: Sequence[str]) -> str:
    """A class's name, which will be a folder's: one line, no slash, and no other class has it."""
    name = checked_class(" ".join(name.split()))
    if not is_name(name):
        raise SalaError(
            f"a class's name has 1 to {MAX_NAME} characters, no slash and no dot in front; got {name[:90]!r}"
        )
    if name.casefold() in {other.casefold() for other in others}:
        raise SalaError(f"there is a class {name!r} already; choose another name")
    return name

"""The state that events add up to: the names of the classes, and the label of each image."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from sala.labeling.project import OUTLIER, Project
from sala.web.events import Event

CLEAR = -3  # in place of a class: the label that the image came with
Ints = NDArray[np.int64]


@dataclass
class State:
    """The classes and the given labels at one version."""

    called: list[str]  # as folders and changes have it: two may be called the same
    given: Ints  # [n]: a class, OUTLIER or UNLABELED
    n_checked: int = 0  # images that had a prediction when the user labeled them
    n_agreed: int = 0  # of these, the prediction was the user's label
    n_lost: int = 0  # labels of images or classes that are no longer there

    @property
    def names(self) -> list[str]:
        """One for each class, all different: a folder may be made later with the name of a class that was added or renamed."""
        found: dict[str, None] = {}
        for name in self.called:
            numbered = (f"{name} ({n})" for n in count(2))
            found[name if name not in found else next(other for other in numbered if other not in found)] = None
        return list(found)


class Replay:
    """Applies checked events (sala/web/events.py) to the images of a project."""

    def __init__(self, project: Project):
        self._classes = project.classes
        self._number = {f"folder/{name}": i for i, name in enumerate(project.classes)} | {
            "outlier": OUTLIER,
            "clear": CLEAR,
        }
        self._index = {item.old_key: i for i, item in enumerate(project.items)}
        self._index |= {item.key: i for i, item in enumerate(project.items)}
        self._same = {i: group for group in project.copies for i in group}
        self._given = project.given

    def state(self, events: Iterable[Event]) -> State:
        """Return the state after all events."""
        state = State(list(self._classes), self._given.copy())
        for event in events:
            self._apply(state, event)
        return state

    def after(self, state: State, event: Event) -> State:
        """Return the state after one more event; the given one is not changed."""
        state = replace(state, called=list(state.called), given=state.given.copy())
        self._apply(state, event)
        return state

    def class_id(self, number: int) -> str:
        """Return the name of a class in events: a folder's name, since folders may come between; an added class's order."""
        if number < 0:
            return {OUTLIER: "outlier", CLEAR: "clear"}[number]
        n = len(self._classes)
        return f"folder/{self._classes[number]}" if number < n else f"added/{number - n}"

    def _apply(self, state: State, event: Event) -> None:
        if event["do"] == "add":
            state.called.append(event["name"])
        elif event["do"] == "rename":
            number = self.class_number(event["class"])
            if number is not None:
                state.called[number] = event["name"]
        elif event["do"] in ("label", "answer"):
            self._apply_label(state, event, self.class_number(event["to"]))

    def row(self, key: str) -> int | None:
        """Return the number of an image; None for one that is gone."""
        return self._index.get(key)

    def class_number(self, class_id: str) -> int | None:
        """Return a class's number; None for a folder that is gone."""
        kind, _, number = class_id.partition("/")
        return len(self._classes) + int(number) if kind == "added" else self._number.get(class_id)

    def _apply_label(self, state: State, event: Event, to: int | None) -> None:
        rows = [self._index[key] for key in event["items"] if key in self._index]
        state.n_lost += len(event["items"]) - len(rows) if to is not None else len(event["items"])
        rows = [copy for i in rows for copy in self._same.get(i, (i,))]  # images of one content have one label
        state.n_checked += event.get("checked", 0)  # answers of an audit are counted apart
        state.n_agreed += event.get("agreed", 0)
        if to is not None:
            state.given[rows] = self._given[rows] if to == CLEAR else to

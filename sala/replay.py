"""What the events of a state add up to: the names of classes, and the label of each image."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sala.collection import Collection
from sala.events import Event

UNKNOWN, NONE, CLEAR = -1, -2, -3  # in place of a class: not labelled, of no class, as it was at first
Ints = NDArray[np.int64]


@dataclass
class State:
    """What a journal adds up to."""

    names: list[str]
    given: Ints  # [n]: a class, NONE or UNKNOWN
    n_checked: int = 0  # images that had a prediction when the user labelled them
    n_agreed: int = 0  # of these, the prediction was the user's label
    n_lost: int = 0  # labels of images or classes that are no longer there


class Replay:
    """Applies checked events (sala/events.py) to the images of a collection."""

    def __init__(self, collection: Collection):
        self._classes = collection.classes
        self._number = {f"folder/{name}": i for i, name in enumerate(collection.classes)} | {
            "none": NONE,
            "clear": CLEAR,
        }
        self._index = {item.key: i for i, item in enumerate(collection.items)}
        self._same = {i: group for group in collection.copies for i in group}
        self._folder_labels = np.array([item.folder_class for item in collection.items], np.int64)

    def state(self, events: Iterable[Event]) -> State:
        """From the first event on."""
        state = State(list(self._classes), self._folder_labels.copy())
        for event in events:
            self._apply(state, event)
        return state

    def after(self, state: State, event: Event) -> State:
        """After one event more; the given state stays as it is."""
        state = replace(state, names=list(state.names), given=state.given.copy())
        self._apply(state, event)
        return state

    def class_id(self, number: int) -> str:
        """Folders go by their names, since others may come between them; added classes by their order."""
        if number < 0:
            return {NONE: "none", CLEAR: "clear"}[number]
        n = len(self._classes)
        return f"folder/{self._classes[number]}" if number < n else f"added/{number - n}"

    def _apply(self, state: State, event: Event) -> None:
        if event["do"] == "add":
            state.names.append(event["name"])
        elif event["do"] == "rename":
            number = self._class_number(event["class"])
            if number is not None:
                state.names[number] = event["name"]
        else:
            self._apply_label(state, event, self._class_number(event["to"]))

    def _class_number(self, class_id: str) -> int | None:
        """None for a folder that is not there now."""
        kind, _, number = class_id.partition("/")
        return len(self._classes) + int(number) if kind == "added" else self._number.get(class_id)

    def _apply_label(self, state: State, event: Event, to: int | None) -> None:
        rows = [self._index[key] for key in event["items"] if key in self._index]
        state.n_lost += len(event["items"]) - len(rows) if to is not None else len(event["items"])
        rows = [copy for i in rows for copy in self._same.get(i, (i,))]  # images of one content have one label
        state.n_checked += event["checked"]
        state.n_agreed += event["agreed"]
        if to is not None:
            state.given[rows] = self._folder_labels[rows] if to == CLEAR else to

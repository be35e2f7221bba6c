"""The state that events add up to: the names of the classes, and the label of each image."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from sala.labeling.project import OUTLIER, UNLABELED, Project
from sala.web.events import Event, names_added, parts_of

CLEAR = -3  # in place of a class: the label that the image came with
Ints = NDArray[np.int64]


@dataclass
class State:
    """The classes and the given labels at one version.

    A class keeps its place in `every` for ever; `shown` are those that are neither merged nor deleted, in the user's order,
    and their places there are the classes of `names` and `given`. What was said of an image stays in `said`, whatever became
    of its class.
    """

    every: list[str]  # as folders and changes have it: two may be called the same
    shown: list[int]
    goes_to: list[
        int
    ]  # for each of `every`: itself, the class that it was merged into, or UNLABELED where it was deleted
    said: Ints  # [n]: one of `every`, OUTLIER or UNLABELED
    n_checked: int = 0  # images that had a prediction when the user labeled them
    n_agreed: int = 0  # of these, the prediction was the user's label
    n_lost: int = 0  # labels of images or classes that are no longer there

    @property
    def called(self) -> list[str]:
        return [self.every[c] for c in self.shown]

    @cached_property
    def names(self) -> list[str]:
        """One for each class, all different: a folder may be made later with the name of a class that was added or renamed."""
        found: dict[str, None] = {}
        for name in self.called:
            numbered = (f"{name} ({n})" for n in count(2))
            found[name if name not in found else next(other for other in numbered if other not in found)] = None
        return list(found)

    @cached_property
    def now(self) -> Ints:  # [every + 2]
        """For each of `every` what it is by now: a class of `names`, or UNLABELED; then OUTLIER and UNLABELED themselves, as
        -2 and -1 are the last two."""
        place = {c: i for i, c in enumerate(self.shown)}
        return np.array([*(place.get(c, UNLABELED) for c in self.goes_to), OUTLIER, UNLABELED], np.int64)

    @cached_property
    def given(self) -> Ints:  # [n]
        """A class, OUTLIER or UNLABELED. An image of a merged class has the other's label, of a deleted one none."""
        return self.now[self.said]


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
        each = range(len(self._classes))
        state = State(list(self._classes), list(each), list(each), self._given.copy())
        for event in events:
            self._apply(state, event)
        return state

    def after(self, state: State, event: Event) -> State:
        """Return the state after one more event; the given one is not changed."""
        state = replace(
            state, every=[*state.every], shown=[*state.shown], goes_to=[*state.goes_to], said=state.said.copy()
        )
        self._apply(state, event)
        return state

    def class_id(self, state: State, number: int) -> str:
        """Return the name of a class in events: a folder's name, since folders may come between; an added class's order."""
        if number < 0:
            return {OUTLIER: "outlier", CLEAR: "clear"}[number]
        c, n = state.shown[number], len(self._classes)
        return f"folder/{self._classes[c]}" if c < n else f"added/{c - n}"

    def class_number(self, state: State, class_id: str) -> int:
        """Return what an event named, as `given` has it: OUTLIER, a class, or UNLABELED for one that is gone."""
        place = self._place(class_id)
        return UNLABELED if place is None else int(state.now[place])

    def row(self, key: str) -> int | None:
        """Return the number of an image; None for one that is gone."""
        return self._index.get(key)

    def _apply(self, state: State, event: Event) -> None:
        for name in names_added(event):
            state.shown.append(len(state.every))
            state.goes_to.append(len(state.every))
            state.every.append(name)
        parts = parts_of(event)
        if parts:
            state.n_checked += event.get("checked", 0)  # answers of an audit are counted apart
            state.n_agreed += event.get("agreed", 0)
            for part in parts:
                self._apply_label(state, part["items"], self._place(part["to"]))
        elif event["do"] == "order":
            numbers = [self._place(name) for name in event["classes"]]
            first = [c for c in numbers if c in state.shown]
            state.shown[:] = [*first, *(c for c in state.shown if c not in first)]
        elif "class" in event:
            self._change_class(state, event)

    def _change_class(self, state: State, event: Event) -> None:
        """Rename, merge or delete; what names a class that is not there, or no more, is passed over."""
        number = self._place(event["class"])
        if number is None:
            return
        if event["do"] == "rename":
            state.every[number] = event["name"]
            return
        into = self._place(event["into"]) if event["do"] == "merge" else UNLABELED
        if number in state.shown and (into == UNLABELED or into in state.shown):
            state.shown.remove(number)
            state.goes_to[:] = [into if c == number else c for c in state.goes_to]

    def _place(self, class_id: str) -> int | None:
        """Return a class's place in `every`; None for a folder that is gone."""
        kind, _, number = class_id.partition("/")
        return len(self._classes) + int(number) if kind == "added" else self._number.get(class_id)

    def _apply_label(self, state: State, keys: list[str], to: int | None) -> None:
        rows = [self._index[key] for key in keys if key in self._index]
        state.n_lost += len(keys) - len(rows) if to is not None else len(keys)
        rows = [copy for i in rows for copy in self._same.get(i, (i,))]  # images of one content have one label
        if to is not None:
            state.said[rows] = self._given[rows] if to == CLEAR else to

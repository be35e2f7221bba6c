"""A labelling session: classes, the labels that the user gave, and what the engine makes of them.

    session = Session(collection, features, Journal(path))   # takes up where the journal ends
    session.label([17, 18], to=2)                            # or NONE, or CLEAR; on disk when it returns
    session.undo();  session.add_class("owl");  session.rename_class(2, "barn owl")
    session.snapshot()                                       # labels of all images; fitted anew if something has changed

The state is the journal, replayed: there is nothing else to save. Any thread may call any method. A change returns
the version of the state that it leads to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sala.aside import aside_threshold
from sala.collection import Collection
from sala.encoders.base import Features
from sala.engine import PoolLabels, fit_labels
from sala.errors import SalaError
from sala.journal import Journal
from sala.labelling.folders import checked_class

UNKNOWN, NONE, CLEAR = -1, -2, -3  # in place of a class: not labelled, of no class, as it was at first
MAX_CLASSES, MAX_NAME = 500, 80
Ints = NDArray[np.int64]


@dataclass
class State:
    """What a journal adds up to."""

    names: list[str]
    given: Ints  # [n]: a class, NONE or UNKNOWN
    n_checked: int = 0  # images that had a prediction when the user labelled them
    n_agreed: int = 0  # of these, the prediction was the user's label
    n_lost: int = 0  # labels of images that are no longer there


@dataclass(frozen=True)
class Snapshot:
    """What is said of every image `[n]` at one version of the state."""

    version: int
    names: tuple[str, ...]
    given: Ints
    label: Ints  # a class, or UNKNOWN where no class has an example yet
    runner_up: Ints  # the best other class; UNKNOWN where there is none
    probability: Features
    second: Features  # probability of the runner-up
    none_score: Features
    is_junk: NDArray[np.bool_]  # set aside
    used: NDArray[np.bool_]  # took part in the refinement
    label_next: Ints
    estimate: float  # expected share of the pool that is right as it stands
    n_checked: int
    n_agreed: int
    n_undo: int
    fit_seconds: float
    sure: float  # from this confidence on a label is not doubtful

    def verdict(self) -> Ints:
        """Where each image is put: a class, NONE or UNKNOWN."""
        predicted = np.where(self.is_junk, NONE, self.label)
        return np.where(self.given == UNKNOWN, predicted, self.given)

    @property
    def confidence(self) -> NDArray[np.float64]:
        """That the label is right."""
        return self.probability.astype(np.float64) * (1 - self.none_score.astype(np.float64))

    @property
    def is_doubtful(self) -> NDArray[np.bool_]:
        is_predicted = (self.given == UNKNOWN) & (self.label != UNKNOWN) & ~self.is_junk
        is_doubtful: NDArray[np.bool_] = is_predicted & (self.confidence < self.sure)
        return is_doubtful


class Session:
    """Every change is written to the journal before anything else is made of it."""

    def __init__(self, collection: Collection, features: Features, journal: Journal, precision: float = 0.9):
        self.collection, self.features, self.precision = collection, features, precision
        self.history: list[dict[str, float]] = []  # of this process: what each fit said of the pool
        self._journal = journal
        self._index = {item.key: i for i, item in enumerate(collection.items)}
        self._folder_labels = np.array([item.folder_class for item in collection.items], np.int64)
        self._is_pool = np.array([item.root == "pool" for item in collection.items], bool)
        self._same = {i: group for group in collection.copies for i in group}
        self._first = np.arange(
            len(collection.items)
        )  # of the same content: it counts, and the others have what it has
        for i, group in self._same.items():
            self._first[i] = group[0]
        self._change, self._fit = threading.Lock(), threading.Lock()
        self._events: list[dict[str, Any]] = []
        for event in journal.events:
            self._events = _with(self._events, event)
        self._state = self._replay()
        self._version = 0
        self._snapshot: Snapshot | None = None

    @property
    def n_lost(self) -> int:
        return self._state.n_lost

    @property
    def n_events(self) -> int:
        return len(self._events)

    def label(self, items: Sequence[int], to: int) -> int:
        """Give images a class, or say that they are of none, or take back what was said."""
        with self._change:
            n_classes = len(self._state.names)
            if not items or any(not 0 <= i < len(self.collection.items) for i in items):
                raise SalaError(f"images are 0 .. {len(self.collection.items) - 1}; reload the page")
            if not (0 <= to < n_classes or to in (NONE, CLEAR)):
                raise SalaError(f"classes are 0 .. {n_classes - 1}; got {to}; reload the page")
            checked = self._checked(items)
            keys = [self.collection.items[i].key for i in items]
            event = {"do": "label", "items": keys, "to": self._class_id(to), "checked": len(checked)}
            return self._record(event | {"agreed": sum(was == to for was in checked)})

    def add_class(self, name: str) -> int:
        with self._change:
            if len(self._state.names) >= MAX_CLASSES:
                raise SalaError(f"there are {MAX_CLASSES} classes already, which is the limit")
            return self._record({"do": "add", "name": checked_name(name, self._state.names)})

    def rename_class(self, number: int, name: str) -> int:
        with self._change:
            if not 0 <= number < len(self._state.names):
                raise SalaError(f"classes are 0 .. {len(self._state.names) - 1}; got {number}; reload the page")
            others = [other for i, other in enumerate(self._state.names) if i != number]
            return self._record({"do": "rename", "class": self._class_id(number), "name": checked_name(name, others)})

    def undo(self) -> int:
        with self._change:
            if not self._events:
                raise SalaError("there is nothing to undo")
            return self._record({"do": "undo"})

    def snapshot(self) -> Snapshot:
        """Of the newest version. Where several threads wait for a fit, one fit serves them all."""
        with self._fit:
            with self._change:
                version, state, n_undo = self._version, self._state, len(self._events)
            if self._snapshot is None or self._snapshot.version != version:
                self._snapshot = self._fitted(version, state, n_undo)
                self.history = [*self.history[-199:], self._summary(self._snapshot)]
            return self._snapshot

    def rest(self) -> None:
        """No fit is under way when it returns, and none begins after it."""
        self._fit.acquire()

    def _record(self, event: dict[str, Any]) -> int:
        self._journal.append(event)  # first: what fails here has not happened
        self._events = _with(self._events, event)
        self._state = self._replay()
        self._version += 1
        return self._version

    def _class_id(self, number: int) -> str:
        """Folders go by their names, since others may come between them; added classes by their order."""
        if number < 0:
            return {NONE: "none", CLEAR: "clear"}[number]
        folders = self.collection.classes
        return f"folder/{folders[number]}" if number < len(folders) else f"added/{number - len(folders)}"

    def _checked(self, items: Sequence[int]) -> list[int]:
        """The predictions that the user has now judged, of images that had no label."""
        shown = self._snapshot
        if shown is None:
            return []
        verdict = np.where(shown.none_score > 0.5, NONE, shown.verdict())  # what is shown as rather none, is
        return [int(verdict[i]) for i in items if self._state.given[i] == UNKNOWN and verdict[i] != UNKNOWN]

    def _replay(self) -> State:
        state = State(list(self.collection.classes), self._folder_labels.copy())
        number = {f"folder/{name}": i for i, name in enumerate(self.collection.classes)}
        number |= {"none": NONE, "clear": CLEAR}
        n_added = 0
        for event in self._events:
            try:
                if event["do"] == "add":
                    number[f"added/{n_added}"] = len(state.names)
                    n_added += 1
                    state.names.append(str(event["name"]))
                elif event["do"] == "rename" and event["class"] in number:
                    state.names[number[event["class"]]] = str(event["name"])
                elif event["do"] == "label":
                    self._replay_label(state, event, number.get(event["to"]))
            except (KeyError, TypeError, AttributeError):
                raise SalaError(f"{self._journal.path} holds {str(event)[:80]!r}, which sala does not write") from None
        return state

    def _replay_label(self, state: State, event: dict[str, Any], to: int | None) -> None:
        rows = [self._index[key] for key in event["items"] if key in self._index]
        state.n_lost += len(event["items"]) - len(rows) if to is not None else len(event["items"])
        rows = [copy for i in rows for copy in self._same.get(i, (i,))]  # images of one content have one label
        state.n_checked += int(event["checked"])
        state.n_agreed += int(event["agreed"])
        if to is not None:
            state.given[rows] = self._folder_labels[rows] if to == CLEAR else to

    def _fitted(self, version: int, state: State, n_undo: int) -> Snapshot:
        begun = time.perf_counter()
        counts = self._first == np.arange(len(self._first))
        rows, labelled = np.flatnonzero((state.given == UNKNOWN) & counts), np.flatnonzero((state.given >= 0) & counts)
        active = np.unique(state.given[labelled])
        columns = _Columns.of(state)
        if len(labelled):
            y = np.searchsorted(active, state.given[labelled])
            names = [state.names[c] for c in active]
            junk = self.features[(state.given == NONE) & counts]
            fitted = fit_labels(self.features[labelled], y, self.features[rows], classes=names, junk=junk)
            aside = aside_threshold(fitted.pool.none_score, self.precision, fitted.left_out_none)
            columns.fill(rows, active, fitted.pool, aside)
            if len(active) > 1:
                said = fitted.model.predict(self.features[labelled]).probabilities
                columns.runner_up[labelled] = active[best_other(said, y)]
            columns.spread(self._first)
        return Snapshot(
            version, tuple(state.names), state.given, columns.label, columns.runner_up, columns.probability,
            columns.second, columns.none_score, columns.is_junk, columns.used, columns.label_next,
            self._estimate(state, columns), state.n_checked, state.n_agreed, n_undo, time.perf_counter() - begun,
            max(self.precision, 0.5),
        )  # fmt: skip

    def _estimate(self, state: State, columns: _Columns) -> float:
        """What the user said is right; else the probability of the verdict: of the class and of being known, or of junk."""
        right = np.where(columns.is_junk, columns.none_score, columns.probability * (1 - columns.none_score))
        right = np.where(state.given == UNKNOWN, right, 1.0)
        return float(right[self._is_pool].mean()) if self._is_pool.any() else 1.0

    def _summary(self, shown: Snapshot) -> dict[str, float]:
        return {"version": shown.version, "estimate": round(shown.estimate, 5), "n_junk": int(shown.is_junk.sum())}


@dataclass
class _Columns:
    """The parts of a snapshot, for all images; filled where the engine has said something."""

    label: Ints
    runner_up: Ints
    probability: Features
    second: Features
    none_score: Features
    is_junk: NDArray[np.bool_]
    used: NDArray[np.bool_]
    label_next: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, state: State) -> _Columns:
        n, zeros = len(state.given), np.zeros(len(state.given), np.float32)
        label = np.maximum(state.given, UNKNOWN)
        is_example = state.given >= 0
        none = (state.given == NONE).astype(np.float32)
        return cls(
            label, np.full(n, UNKNOWN), is_example.astype(np.float32), zeros, none, np.zeros(n, bool), is_example
        )

    def fill(self, rows: Ints, active: Ints, said: PoolLabels, threshold: float) -> None:
        each = np.arange(len(rows))
        self.label[rows] = active[said.label]
        self.runner_up[rows] = np.where(said.runner_up != said.label, active[said.runner_up], UNKNOWN)
        self.probability[rows] = said.probabilities[each, said.label]
        self.second[rows] = said.probabilities[each, said.runner_up] * (said.runner_up != said.label)
        self.none_score[rows] = said.none_score
        self.is_junk[rows] = said.none_score.astype(np.float64) > threshold
        self.used[rows] = said.used
        self.label_next = rows[said.label_next]

    def spread(self, first: Ints) -> None:
        """To copies, what is said of the first."""
        for name in ("label", "runner_up", "probability", "second", "none_score", "is_junk", "used"):
            setattr(self, name, getattr(self, name)[first])


def best_other(probabilities: Features, labels: Ints) -> Ints:  # [n k], [n] -> [n]
    """The most probable class that is not the label."""
    is_label = np.arange(probabilities.shape[1]) == labels[:, None]
    best: Ints = np.where(is_label, -1.0, probabilities).argmax(1)
    return best


def _with(events: list[dict[str, Any]], event: dict[str, Any]) -> list[dict[str, Any]]:
    return events[:-1] if event.get("do") == "undo" else [*events, event]


def checked_name(name: str, others: Sequence[str]) -> str:
    """A class's name, which will be a folder's: one line, no slash, and no other class has it."""
    name = " ".join(name.split())
    if not name or len(name) > MAX_NAME or not name.isprintable() or set(name) & set("/\\") or name.startswith("."):
        raise SalaError(
            f"a class's name has 1 to {MAX_NAME} characters, no slash and no dot in front; got {name[:90]!r}"
        )
    if name.casefold() in {other.casefold() for other in others}:
        raise SalaError(f"there is a class {name!r} already; choose another name")
    return checked_class(name)

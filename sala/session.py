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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sala.aside import aside_threshold
from sala.collection import Collection
from sala.encoders.base import Features
from sala.engine import PoolLabels, fit_labels
from sala.errors import SalaError
from sala.events import MAX_CLASSES, MAX_NAME, Event, InForce, is_name
from sala.journal import Journal
from sala.labelling.folders import checked_class
from sala.replay import CLEAR, NONE, UNKNOWN, Ints, Replay, State

__all__ = ["CLEAR", "NONE", "UNKNOWN", "Session", "Snapshot", "checked_name"]


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

    def most_probable(self) -> Ints:
        """What each image most probably is: NONE also where its class keeps it, but it is more probably an outlier."""
        return np.where(self.is_likely_outlier, NONE, self.verdict())

    @property
    def is_likely_outlier(self) -> NDArray[np.bool_]:
        """Predicted images whose outlier probability is larger than the joint probability of their class."""
        is_predicted = (self.given == UNKNOWN) & (self.label != UNKNOWN)
        is_likely: NDArray[np.bool_] = is_predicted & (self.is_junk | (self.none_score > self.confidence))
        return is_likely

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
        self._replay = Replay(collection)
        self._is_pool = np.array([item.root == "pool" for item in collection.items], bool)
        self._first = np.arange(len(collection.items))  # of the same content: it counts, the others have what it has
        for group in collection.copies:
            self._first[list(group)] = group[0]
        self._change, self._fit = threading.Lock(), threading.Lock()
        self._fitter = ThreadPoolExecutor(1)  # one thread for all fits: the C library keeps what each thread has freed
        self._in_force = InForce()
        for event in journal.events:
            self._in_force.take(event)
        self._state = self._replay.state(self._in_force.events)
        self._version = 0
        self._snapshot: Snapshot | None = None

    @property
    def n_lost(self) -> int:
        return self._state.n_lost

    @property
    def n_events(self) -> int:
        return len(self._in_force.events)

    @property
    def stopped(self) -> str | None:
        """Why no more changes are taken; None while they are."""
        return self._journal.stopped

    def saved_state(self) -> bytes:
        """All confirmed changes, as a state file has them."""
        return self._journal.content

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
            event = {"do": "label", "items": keys, "to": self._replay.class_id(to), "checked": len(checked)}
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
            return self._record(
                {"do": "rename", "class": self._replay.class_id(number), "name": checked_name(name, others)}
            )

    def undo(self, version: int | None = None) -> int:
        """Take back the last change; only the one that led to `version`, if that is given."""
        with self._change:
            if not self._in_force.events:
                raise SalaError("there is nothing to undo")
            if version is not None and version != self._in_force.versions[-1]:
                raise SalaError(
                    "another change came after this one, or it was undone already; Undo takes back the last one"
                )
            return self._record({"do": "undo"})

    def snapshot(self) -> Snapshot:
        """Of the newest version. Where several threads wait for a fit, one fit serves them all."""
        with self._fit:
            with self._change:
                version, state, n_undo = self._version, self._state, self.n_events
            if self._snapshot is None or self._snapshot.version != version:
                self._snapshot = self._fitter.submit(self._fitted, version, state, n_undo).result()
                self.history = [*self.history[-199:], self._summary(self._snapshot)]
            return self._snapshot

    def rest(self) -> None:
        """No fit is under way when it returns, and none begins after it."""
        self._fit.acquire()

    def _record(self, event: Event) -> int:
        try:
            self._in_force.check(event)
        except ValueError as error:
            raise SalaError(f"{error}; choose another --state") from None
        self._journal.append(event)  # first: what fails here has not happened
        self._version += 1
        self._in_force.take(event, self._version)
        if event["do"] == "undo":
            self._state = self._replay.state(self._in_force.events)
        else:
            self._state = self._replay.after(self._state, event)
        return self._version

    def _checked(self, items: Sequence[int]) -> list[int]:
        """The predictions that the user has now judged, of images that had no label."""
        shown = self._snapshot
        if shown is None:
            return []
        said = shown.most_probable()  # as the page shows it
        return [int(said[i]) for i in items if self._state.given[i] == UNKNOWN and said[i] != UNKNOWN]

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

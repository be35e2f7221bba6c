"""A labeling session: classes, the labels that the user gave, and what the classifier makes of them.

    session = Session(embed_project(project, encoder), Journal(path))   # takes up where the journal ends
    session.label([17, 18], to=2)                            # or OUTLIER, or CLEAR; on disk when it returns
    session.undo();  session.add_class("owl");  session.rename_class(2, "barn owl")
    session.begin_audit(20);  session.answer(item, to=2)     # images that chance draws; the answer judges the prediction
    session.snapshot()                                       # labels of all images; fitted anew if something has changed

The state is the journal, replayed: there is nothing else to save. Any thread may call any method. A change returns
the version of the state that it leads to.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from sala.errors import SalaError
from sala.labeling.answers import UserAnswers
from sala.labeling.embedding import ProjectFeatures
from sala.labeling.folders import checked_class
from sala.labeling.label import LabelingResult, classify, no_predictions
from sala.labeling.predictions import Predictions
from sala.labeling.project import OUTLIER, UNLABELED
from sala.labeling.recalibration import NO_ANSWERS
from sala.web.checks import AuditResult, audit_result, read_checks
from sala.web.events import MAX_AUDIT, MAX_CLASSES, MAX_NAME, WHOLE, Event, InForce, encoded, is_name, parsed
from sala.web.journal import Journal
from sala.web.progress import Progress
from sala.web.replay import CLEAR, Replay, State

__all__ = ["CLEAR", "OUTLIER", "UNLABELED", "Session", "Snapshot", "checked_name"]


@dataclass(frozen=True)
class Snapshot(Predictions):
    """What is said of every image at one version of the state."""

    version: int
    result: LabelingResult | None  # None where no class has an example yet
    estimated_accuracy: float  # of the pool as it stands
    n_checked: int
    n_agreed: int
    n_undo: int
    fit_seconds: float


class Session:
    """Every change is written to the journal before anything else is made of it."""

    def __init__(self, images: ProjectFeatures, journal: Journal, precision: float = 0.9):
        self.images, self.project, self.precision = images, images.project, precision
        self.history: list[dict[str, float]] = []  # of this process: what each fit said of the pool
        self.progress = Progress()  # of this process: what moved, and how fast
        self.journal = journal
        self._replay = Replay(self.project)
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
        return self.journal.stopped

    def saved_state(self) -> bytes:
        """All confirmed changes, as a state file has them."""
        return self.journal.content

    def label(self, items: Sequence[int], to: int) -> int:
        """Give images a class, or say that they are of none, or take back what was said."""
        with self._change:
            n_classes = len(self._state.names)
            if not items or any(not 0 <= i < len(self.project.items) for i in items):
                raise SalaError(f"images are 0 .. {len(self.project.items) - 1}; reload the page")
            if not (0 <= to < n_classes or to in (OUTLIER, CLEAR)):
                raise SalaError(f"classes are 0 .. {n_classes - 1}; got {to}; reload the page")
            items = list(dict.fromkeys(items))  # each once: it is judged once
            seen = self._seen(items)
            checked = [said for said, *_ in filter(None, seen)]
            event = {
                "do": "label",
                "items": [self.project.items[i].key for i in items],
                "to": self._replay.class_id(to),
                "checked": len(checked),
                "agreed": checked.count(self._replay.class_id(to)),
            }
            return self._record(event | ({"seen": seen} if checked else {}))

    def begin_audit(self, n: int, *, anew: bool = False) -> int:
        """Have chance draw images of the pool until n have an answer; `anew` begins another audit, with another seed."""
        with self._change:
            if not 1 <= n <= MAX_AUDIT:
                raise SalaError(f"an audit has 1 to {MAX_AUDIT:,} images; got {n}")
            audit = read_checks(self._in_force.events, self._replay, self._state.given).audit
            seed = secrets.randbits(63) if audit is None or anew else audit.seed
            return self._record({"do": "audit", "seed": seed, "n": n})

    def answer(self, item: int, to: int) -> int:
        """Say what the next drawn image is, or with CLEAR that one cannot tell. The prediction that stands now is judged."""
        with self._change:
            if to not in (OUTLIER, CLEAR) and not 0 <= to < len(self._state.names):
                raise SalaError(f"classes are 0 .. {len(self._state.names) - 1}; got {to}; reload the page")
            if self._audit().upcoming[:1] != [item]:
                raise SalaError("the audit asks for another image now; reload the page")
            shown = self._snapshot
            (seen,) = self._seen([item], as_placed=True)
            if shown is None or seen is None:
                raise SalaError("nothing is predicted yet; label an image of each class first")
            key, verdict = self.project.items[item].key, str(shown.verdicts()[item])
            to_id = self._replay.class_id(to)
            return self._record({"do": "answer", "items": [key], "to": to_id, "seen": [seen], "verdict": verdict})

    def audit(self) -> AuditResult:
        """What the drawn images say of the pool, and which are asked for next."""
        with self._change:
            return self._audit()

    def _audit(self) -> AuditResult:
        found = read_checks(self._in_force.events, self._replay, self._state.given).audit
        return audit_result(found, self.project, self._state.given)

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
                events = list(self._in_force.events)
            if self._snapshot is None or self._snapshot.version != version:
                answers = read_checks(events, self._replay, state.given).answers
                self._snapshot = self._fitter.submit(self._fitted, version, state, n_undo, answers).result()
                self.progress.take(self._snapshot, self.project.is_pool, answers)
                self.history = [*self.history[-199:], self._summary(self._snapshot)]
            return self._snapshot

    def result(self) -> LabelingResult:
        """The newest predictions as `sala label` has them: for reports, exports and the model. SalaError where no class has
        an example yet."""
        found = self.snapshot().result
        if found is None:
            raise SalaError("no class has an example yet; label an image first")
        return found

    def close(self) -> None:
        """Give the state free for another process."""
        self.journal.close()

    def rest(self) -> None:
        """No fit is under way when it returns, and none begins after it."""
        self._fit.acquire()

    def _record(self, event: Event) -> int:
        try:
            self._in_force.check(parsed(encoded(event)))  # nothing is written that could not be read again
        except ValueError as error:
            raise SalaError(f"{error}; choose another --state") from None
        self.journal.append(event)  # first: what fails here has not happened
        self._version += 1
        self._in_force.take(event, self._version)
        if event["do"] == "undo":
            self._state = self._replay.state(self._in_force.events)
        else:
            self._state = self._replay.after(self._state, event)
        return self._version

    def _seen(self, items: Sequence[int], *, as_placed: bool = False) -> list[list[Any] | None]:
        """What is predicted of each image that has no label, how probable that is, and how probable an outlier: as the page
        shows it, or as downloads have it."""
        shown = self._snapshot
        if shown is None:
            return [None] * len(items)
        said = shown.placed() if as_placed else shown.most_probable()
        chances = np.where(said == OUTLIER, shown.outlier_probability, shown.confidence)
        recalibration = shown.result.recalibration if shown.result else NO_ANSWERS
        outlier = recalibration.inverse(shown.outlier_probability)
        return [
            [self._replay.class_id(int(said[i])), *(round(WHOLE * float(share[i])) for share in (chances, outlier))]
            if self._state.given[i] == UNLABELED and said[i] != UNLABELED
            else None
            for i in items
        ]

    def _fitted(self, version: int, state: State, n_undo: int, answers: UserAnswers) -> Snapshot:
        begun = time.perf_counter()
        result, names, given = None, tuple(state.names), state.given
        if (given >= 0).any():
            result = classify(self.images, names, given, precision=self.precision, answers=answers)
            predictions = result.predictions
        else:
            predictions = no_predictions(self.project, names, given, self.precision)
        expected = predictions.expected_accuracy(self.project.is_pool)
        seconds = time.perf_counter() - begun
        return Snapshot(
            **vars(predictions),
            version=version,
            result=result,
            estimated_accuracy=expected,
            n_checked=state.n_checked,
            n_agreed=state.n_agreed,
            n_undo=n_undo,
            fit_seconds=seconds,
        )

    def _summary(self, shown: Snapshot) -> dict[str, float]:
        n_rejected = int(shown.is_rejected.sum())
        return {"version": shown.version, "estimate": round(shown.estimated_accuracy, 5), "n_rejected": n_rejected}


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

"""A labeling session: classes, the labels that the user gave, and what the classifier makes of them.

    session = Session(embed_project(project, encoder), Journal(path))   # takes up where the journal ends
    session.label([17, 18], to=2)                            # or OUTLIER, or CLEAR; on disk when it returns
    session.undo();  session.redo()
    session.add_class("owl");  session.rename_class(2, "barn owl");  session.merge_class(2, into=0)
    session.begin_audit(20);  session.answer(item, to=2)     # images that chance draws; the answer judges the prediction
    session.snapshot()                                       # labels of all images; fitted anew if something has changed

The state is the journal, replayed: there is nothing else to save. Any thread may call any method. A change returns
the version of the state that it leads to.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from sala.errors import SalaError
from sala.labeling.embedding import ProjectFeatures
from sala.labeling.label import LabelingResult
from sala.labeling.project import OUTLIER, UNLABELED
from sala.web.audits import Audit, AuditResult, audit_result, read_answers, read_audit
from sala.web.events import (
    MAX_AUDIT,
    MAX_CLASSES,
    WHOLE,
    Event,
    encoded,
    n_items,
    names_added,
    parsed,
)
from sala.web.imports import checked_name, import_event
from sala.web.journal import Journal
from sala.web.progress import Progress
from sala.web.replay import CLEAR, Replay
from sala.web.snapshot import Snapshot, Version, fit_snapshot

__all__ = ["CLEAR", "OUTLIER", "UNLABELED", "Session", "Snapshot", "checked_name"]


class Session:
    """Every change is written to the journal before anything else is made of it."""

    def __init__(self, images: ProjectFeatures, journal: Journal, precision: float = 0.9):
        self.images, self.project, self.precision = images, images.project, precision
        self.history: list[dict[str, float]] = []  # of this process: what each fit said of the pool
        self.progress = Progress()  # of this process: what moved, and how fast
        self.journal = journal
        self.command = ""  # opens the page on the same folders, for who reads the report
        self._replay = Replay(self.project)
        self._change, self._fit = threading.RLock(), threading.Lock()
        self._fitter = ThreadPoolExecutor(1)  # one thread for all fits: the C library keeps what each thread has freed
        self._in_force = journal.in_force
        self._state = self._replay.state(self._in_force.events)
        self._version = self._numbering = 0  # of the state, and of the last change that gave classes other numbers
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

    @property
    def version(self) -> int:
        return self._version

    @contextmanager
    def numbered(self, numbering: int | None) -> Iterator[None]:
        """Allow changes whose class numbers are of that `Snapshot.numbering`; SalaError where a class has another by now."""
        with self._change:
            if numbering is not None and numbering != self._numbering:
                raise SalaError("the classes were changed in another tab meanwhile; look again, and repeat this")
            yield

    def label(self, items: Sequence[int], to: int) -> int:
        """Give images a class, or say that they are of none, or take back what was said."""
        return self.give([(to, items)])

    def give(self, parts: Sequence[tuple[int, Sequence[int]]]) -> int:
        """Give several labels, each to its images, in one change."""
        with self._change:
            if not parts:
                raise SalaError("no image is named; reload the page")
            for to, items in parts:
                self._check_label(items, to)
            named = [self._named(list(dict.fromkeys(items)), to) for to, items in parts]  # each once: it is judged once
            judged = [(claim[0], part["to"]) for part in named for claim in part.get("seen", ()) if claim is not None]
            counts = {"checked": len(judged), "agreed": sum(was == to for was, to in judged)}
            return self._record(
                {"do": "label", **named[0], **counts} if len(named) == 1 else {"do": "labels", "parts": named, **counts}
            )

    def take_labels(self, labels: Mapping[int, str]) -> tuple[int, int, list[str]]:
        """Give images the classes of these names, which are added where they are new, in one change that judges no prediction.
        Return the version, how many images have another label now, and the names of the classes that were added."""
        with self._change:
            event = import_event(labels, self._state, self._replay, self.project)
            n_taken = n_items(event)
            return (self._record(event) if n_taken else self._version), n_taken, names_added(event)

    def begin_audit(self, n: int, *, anew: bool = False) -> int:
        """Have chance draw images of the pool until n have an answer; `anew` begins another audit, with another seed."""
        with self._change:
            if not 1 <= n <= MAX_AUDIT:
                raise SalaError(f"an audit has 1 to {MAX_AUDIT:,} images; got {n}")
            audit = self._audit()
            seed = secrets.randbits(63) if audit is None or anew else audit.seed
            return self._record({"do": "audit", "seed": seed, "n": n})

    def answer(self, item: int, to: int) -> int:
        """Say what the next drawn image is, or with CLEAR that one cannot tell. The prediction that stands now is judged."""
        with self._change:
            self._check_label([item], to)
            if self.audit().upcoming[:1] != [item]:
                raise SalaError("the audit asks for another image now; reload the page")
            part, shown = self._named([item], to, as_placed=True), self._snapshot
            if shown is None or "seen" not in part:
                raise SalaError("nothing is predicted yet; label an image of each class first")
            return self._record({"do": "answer", **part, "verdict": str(shown.verdicts()[item])})

    def audit(self) -> AuditResult:
        """What the drawn images say of the pool, and which are asked for next."""
        with self._change:
            return audit_result(self._audit(), self.project, self._state.given)

    def _audit(self) -> Audit | None:
        return read_audit(self._in_force.events, self._replay, self._state)

    def add_class(self, name: str) -> int:
        with self._change:
            if len(self._state.names) >= MAX_CLASSES:
                raise SalaError(f"there are {MAX_CLASSES} classes already, which is the limit")
            return self._record({"do": "add", "name": checked_name(name, self._state.names)})

    def rename_class(self, number: int, name: str) -> int:
        with self._change:
            self._check_class(number)
            others = [other for i, other in enumerate(self._state.names) if i != number]
            return self._record({"do": "rename", "class": self._class_id(number), "name": checked_name(name, others)})

    def merge_class(self, number: int, into: int) -> int:
        """Make two classes one: every label of the first becomes one of the second."""
        with self._change:
            self._check_class(number)
            self._check_class(into)
            if number == into:
                raise SalaError("a class cannot be merged with itself; choose another")
            return self._record({"do": "merge", "class": self._class_id(number), "into": self._class_id(into)})

    def delete_class(self, number: int) -> int:
        """Remove a class; its images have no label then."""
        with self._change:
            self._check_class(number)
            return self._record({"do": "delete", "class": self._class_id(number)})

    def order_classes(self, numbers: Sequence[int]) -> int:
        """Put the classes in another order, in which keys and lists have them."""
        with self._change:
            if sorted(numbers) != list(range(len(self._state.names))):
                raise SalaError(f"an order names each of the {len(self._state.names)} classes once; reload the page")
            return self._record({"do": "order", "classes": [self._class_id(number) for number in numbers]})

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

    def redo(self) -> int:
        """Make the change again that was undone last. A new change forgets what was undone."""
        with self._change:
            if not self._in_force.undone:
                raise SalaError("there is nothing to redo")
            return self._record({"do": "redo"})

    def snapshot(self) -> Snapshot:
        """Of the newest version. Where several threads wait for a fit, one fit serves them all."""
        with self._fit:
            with self._change:
                state = self._state
                version = Version(self._version, self.n_events, len(self._in_force.undone), self._numbering)
                events = list(self._in_force.events)
            if self._snapshot is None or self._snapshot.version != version.version:
                answers = read_answers(events, self._replay, state)
                fitted = self._fitter.submit(fit_snapshot, self.images, state, version, self.precision, answers)
                self._snapshot = fitted.result()
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
        before = self._state.shown
        if event["do"] == "undo":
            self._state = self._replay.state(self._in_force.events)
        else:
            self._state = self._replay.after(self._state, self._in_force.events[-1])
        if self._state.shown[: len(before)] != before:  # a class that is added behind them changes none
            self._numbering = self._version
        return self._version

    def _class_id(self, number: int) -> str:
        return self._replay.class_id(self._state, number)

    def _check_class(self, number: int) -> None:
        if not 0 <= number < len(self._state.names):
            raise SalaError(f"classes are 0 .. {len(self._state.names) - 1}; got {number}; reload the page")

    def _check_label(self, items: Sequence[int], to: int) -> None:
        if not items or any(not 0 <= i < len(self.project.items) for i in items):
            raise SalaError(f"images are 0 .. {len(self.project.items) - 1}; reload the page")
        if to not in (OUTLIER, CLEAR):
            self._check_class(to)

    def _named(self, items: Sequence[int], to: int, *, as_placed: bool = False) -> Event:
        """The images and their label as events name them, and what was predicted of those that had no label."""
        event: Event = {"items": [self.project.items[i].key for i in items], "to": self._class_id(to)}
        shown = self._snapshot
        if shown is None or shown.numbering != self._numbering:  # classes had other numbers then
            return event
        seen = [
            [self._class_id(one.said), *(round(WHOLE * share) for share in (one.chance, one.outlier_probability))]
            if one is not None and self._state.given[i] == UNLABELED
            else None
            for i, one in zip(items, shown.seen(items, as_placed=as_placed), strict=True)
        ]
        return event | ({"seen": seen} if any(seen) else {})

    def _summary(self, shown: Snapshot) -> dict[str, float]:
        n_rejected = int(shown.is_rejected.sum())
        return {"version": shown.version, "estimate": round(shown.estimated_accuracy, 5), "n_rejected": n_rejected}

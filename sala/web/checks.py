"""What to check at the newest version of a session: suspect labels, near-duplicates, tiny, blurred and turned images."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import islice
from typing import Any

from sala.data.images import thumbnail
from sala.errors import SalaError
from sala.labeling.check import Check, check
from sala.labeling.export import image_size
from sala.labeling.hints import SIDE, Measure, find_hints, measure
from sala.labeling.label import LabelingResult
from sala.labeling.predictions import Row
from sala.labeling.project import OUTLIER
from sala.labeling.turned import Turns
from sala.web.session import Session
from sala.web.snapshot import Snapshot

MAX_MEASURED = 600  # images: examples first, then those that are not confident


class Checks:
    """Findings as JSON, found when they are asked for; one search serves all who ask."""

    def __init__(self, session: Session):
        self._session, self._lock = session, threading.Lock()
        self._measured: dict[int, Measure | None] = {}
        self._turns = Turns(session.images)
        self._of = -1  # the version that `_check` is of
        self._check: Check | None = None

    def describe(self) -> dict[str, Any]:
        """Return the findings of the newest version; lists are empty where no class has an example yet."""
        with self._lock:
            shown = self._session.snapshot()
            found = self._checked(shown)
            if found is None or shown.result is None:
                return nothing(shown.version)
            hints = {
                "hints": self._hints(shown.result),
                "measured": len(self._measured),
                "can_turn": self._turns.is_possible,
            }
            return nothing(shown.version) | to_json(found, shown.result, shown.names) | hints

    def turned(self) -> dict[str, Any]:
        """Return hints on images that look turned; it takes seconds, since turned images are embedded."""
        with self._lock:
            shown = self._session.snapshot()
            hints = {} if shown.result is None else self._turns.find(shown.result)
            return {"version": shown.version, "hints": hints}

    def suspects(self) -> dict[str, Any]:
        """Return the images whose label is suspect, the most suspicious first."""
        with self._lock:
            shown = self._session.snapshot()
            found = self._checked(shown)
            return {"version": shown.version, "suspects": [s.row for s in found.suspects] if found else []}

    def _checked(self, shown: Snapshot) -> Check | None:
        if shown.version != self._of:
            self._of, self._check = shown.version, None if shown.result is None else check(shown.result)
        return self._check

    def rest(self) -> None:
        """Wait for a search that is under way, and begin no other."""
        self._lock.acquire()

    def _hints(self, result: LabelingResult) -> dict[int, str]:
        said = result.predictions
        others = (said.is_uncertain | said.is_rejected).nonzero()[0]
        images = [*result.labeled.tolist(), *others[said.confidence[others].argsort()].tolist()]
        for row in islice(result.rows_of(images[:MAX_MEASURED]), MAX_MEASURED):
            if row.index not in self._measured:
                self._measured[row.index] = _measure(row)
        return find_hints({i: m for i, m in self._measured.items() if m is not None})


def nothing(version: int) -> dict[str, Any]:
    return {
        "version": version,
        "suspects": [],
        "unchecked": [],
        "near_duplicates": [],
        "hints": {},
        "measured": 0,
        "can_turn": False,
    }


def to_json(found: Check, result: LabelingResult, names: Sequence[str]) -> dict[str, Any]:
    """Return findings with images and classes by the numbers of the page; probabilities are in 1/10,000."""
    number = [names.index(name) for name in result.model.classes]
    return {
        "suspects": [
            {
                "image": s.row,
                "label": number[s.label],
                "predicted": s.predicted if s.predicted == OUTLIER else number[s.predicted],
                "label_probability": round(10_000 * s.label_probability),
                "predicted_probability": round(10_000 * s.predicted_probability),
            }
            for s in found.suspects
        ],
        "unchecked": [number[c] for c in found.unchecked],
        "near_duplicates": found.near_duplicates,
    }


def _measure(row: Row) -> Measure | None:
    try:
        with row.open() as file:
            return measure(thumbnail(file, "", side=SIDE), image_size(row))
    except (SalaError, OSError):
        return None

"""The JSON that the page and its server exchange: changes in, snapshots of all images out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sala.errors import SalaError
from sala.web.progress import describe_progress
from sala.web.session import OUTLIER, UNLABELED, Session, Snapshot


def act(session: Session, body: Any, run_id: str) -> int:
    """Make the change that the page asks for; return the version that it leads to."""
    what = body.get("do") if isinstance(body, dict) else None
    if what is not None and body.get("run", run_id) != run_id:
        raise SalaError("`sala serve` was restarted, and its images may have other numbers now; reload the page")
    if (
        isinstance(what, str)
        and what in CHANGES
        and all(fits(body.get(name)) for name, fits in CHANGES[what][0].items())
    ):
        with session.numbered(body.get("numbering")):
            return CHANGES[what][1](session, body)
    raise SalaError("the page makes no such request; reload the page")


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_number, values))


def _is_one_number(values: Any) -> bool:
    return _are_numbers(values) and len(values) == 1


def _are_parts(values: Any) -> bool:
    """Whether these are [label, images] pairs."""
    return isinstance(values, list) and all(
        isinstance(part, list) and len(part) == 2 and _is_number(part[0]) and _are_numbers(part[1]) for part in values
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _may_be_number(value: Any) -> bool:
    return value is None or _is_number(value)


Change = tuple[dict[str, Callable[[Any], bool]], Callable[[Session, Any], int]]  # its fields, and what it does
CHANGES: dict[str, Change] = {
    "label": (
        {"items": _are_numbers, "to": _is_number},
        lambda session, body: session.label(body["items"], body["to"]),
    ),
    "labels": ({"parts": _are_parts}, lambda session, body: session.give([tuple(part) for part in body["parts"]])),
    "audit": (
        {"n": _is_number},
        lambda session, body: session.begin_audit(body["n"], anew=body.get("anew") is True),
    ),
    "answer": (
        {"items": _is_one_number, "to": _is_number},
        lambda session, body: session.answer(body["items"][0], body["to"]),
    ),
    "add": ({"name": _is_text}, lambda session, body: session.add_class(body["name"])),
    "rename": (
        {"class": _is_number, "name": _is_text},
        lambda session, body: session.rename_class(body["class"], body["name"]),
    ),
    "merge": (
        {"class": _is_number, "into": _is_number},
        lambda session, body: session.merge_class(body["class"], body["into"]),
    ),
    "delete": ({"class": _is_number}, lambda session, body: session.delete_class(body["class"])),
    "order": ({"classes": _are_numbers}, lambda session, body: session.order_classes(body["classes"])),
    "undo": ({"version": _may_be_number}, lambda session, body: session.undo(body.get("version"))),
    "redo": ({}, lambda session, body: session.redo()),
}


def describe_items(session: Session, title: str, run_id: str) -> dict[str, Any]:
    """Return what does not change while the server runs."""
    project = session.project
    return {
        "title": title,
        "run": run_id,
        "names": [item.path for item in project.items],
        "in_pool": [int(item.root == "pool") for item in project.items],
        "skipped": list(project.skipped.values()),
    }


class StateAnswer:
    """The newest snapshot as JSON, encoded once for all clients: encoding 10,000 images keeps others waiting for 30 ms."""

    def __init__(self, session: Session, run_id: str):
        self._session, self._run_id, self._lock = session, run_id, threading.Lock()
        self._of: tuple[int, str | None] | None = None  # the version, and why changes have stopped
        self._content = b""

    def content(self) -> bytes:
        shown, stopped = self._session.snapshot(), self._session.stopped
        with self._lock:
            if self._of != (shown.version, stopped):
                self._content = to_json(describe(self._session, shown, self._run_id))
                self._of = shown.version, stopped
            return self._content


def progress_of(session: Session, goal: float) -> dict[str, Any]:
    """Return how much of the pool is right, what a goal still takes, and the audit, at the newest version."""
    version = session.snapshot().version
    return {"version": version, **describe_progress(session.progress, session.audit(), goal)}


def asked_share(text: str) -> float:
    """A share above 0 and up to 1, from an address."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise SalaError(f"a goal is a share above 0 and up to 1, such as 0.95; got {text[:40]!r}")
    return share


def to_json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def describe(session: Session, shown: Snapshot, run_id: str) -> dict[str, Any]:
    """Return a snapshot as one list per column.

    Probabilities are joint, in 1/10,000: those of an image's label, its runner-up, all other classes and the outlier add up
    to 1. Since they are rounded, `uncertain`, `rejected` and `likely_outlier` are columns of their own.
    """
    inlier = 1 - shown.outlier_probability
    return {
        "run": run_id,
        "version": shown.version,
        "classes": list(shown.names),
        "numbering": shown.numbering,
        "given": shown.given.tolist(),
        "label": np.where(shown.given == OUTLIER, UNLABELED, shown.label).tolist(),
        "runner_up": shown.runner_up.tolist(),
        "probability": _rounded(shown.probability * inlier),
        "runner_up_probability": _rounded(shown.second * inlier),
        "outlier_probability": _rounded(shown.outlier_probability),
        "rejected": shown.is_rejected.astype(int).tolist(),
        "uncertain": shown.is_uncertain.astype(int).tolist(),
        "likely_outlier": shown.is_likely_outlier.astype(int).tolist(),
        "suggestions": shown.suggestions.tolist(),
        "expected_accuracy": shown.estimated_accuracy,
        "checked": shown.n_checked,
        "agreed": shown.n_agreed,
        "undo": shown.n_undo,
        "redo": shown.n_redo,
        "fit_seconds": round(shown.fit_seconds, 3),
        "confidence_threshold": shown.thresholds.confident,
        "rejection_obstacle": shown.result.rejection_obstacle if shown.result else "",
        "history": [h["estimate"] for h in session.history],
        "stopped": session.stopped,
    }


def describe_map(points: NDArray[np.float32]) -> dict[str, list[int]]:
    """Return x and y of each image in turn, 0 to 4095."""
    return {"points": np.rint(points * 4095).astype(int).ravel().tolist()}


def _rounded(values: NDArray[np.float32]) -> list[int]:
    numbers: list[int] = np.rint(values * 10_000).astype(int).tolist()
    return numbers

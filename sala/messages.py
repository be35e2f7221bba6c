"""What the page and its server tell each other, as values that JSON has: changes that are asked for, and what is shown."""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sala.errors import SalaError
from sala.session import Session, Snapshot


def act(session: Session, body: Any, run_id: str) -> int:
    """One change, as the page asks for it; the version that it leads to."""
    what = body.get("do") if isinstance(body, dict) else None
    if what is not None and body.get("run", run_id) != run_id:
        raise SalaError("`sala serve` was started anew, and its images may have other numbers now; reload the page")
    if what == "label" and _are_numbers(body.get("items")) and _are_numbers([body.get("to")]):
        return session.label(body["items"], body["to"])
    if what == "add" and isinstance(body.get("name"), str):
        return session.add_class(body["name"])
    if what == "rename" and _are_numbers([body.get("class")]) and isinstance(body.get("name"), str):
        return session.rename_class(body["class"], body["name"])
    if what == "undo" and ("version" not in body or _are_numbers([body["version"]])):
        return session.undo(body.get("version"))
    raise SalaError("the request is none that the page makes; reload the page")


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)


def describe_items(session: Session, title: str, run_id: str) -> dict[str, Any]:
    """What stays as it is while the server runs."""
    collection = session.collection
    return {
        "title": title,
        "run": run_id,
        "names": [item.path for item in collection.items],
        "in_pool": [int(item.root == "pool") for item in collection.items],
        "set_aside": list(collection.set_aside),
    }


class StateAnswer:
    """The newest snapshot as JSON, encoded once for all who ask: to encode 10,000 images keeps others waiting for 30 ms."""

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


def to_json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def describe(session: Session, shown: Snapshot, run_id: str) -> dict[str, Any]:
    """A snapshot: a list for each column. Probabilities are joint, so that those of an image add up to 1: of its
    label, of the runner-up, of being of no class; in 1/10,000. What is doubtful, and what is more probably an
    outlier than of its class, is told apart, since these are rounded."""
    known = 1 - shown.none_score
    return {
        "run": run_id,
        "version": shown.version,
        "classes": list(shown.names),
        "given": shown.given.tolist(),
        "label": shown.label.tolist(),
        "runner_up": shown.runner_up.tolist(),
        "sure": _rounded(shown.probability * known),
        "second": _rounded(shown.second * known),
        "none": _rounded(shown.none_score),
        "junk": shown.is_junk.astype(int).tolist(),
        "doubtful": shown.is_doubtful.astype(int).tolist(),
        "outlier": shown.is_likely_outlier.astype(int).tolist(),
        "next": shown.label_next.tolist(),
        "estimate": shown.estimate,
        "checked": shown.n_checked,
        "agreed": shown.n_agreed,
        "undo": shown.n_undo,
        "seconds": round(shown.fit_seconds, 3),
        "sure_from": shown.sure,
        "history": [h["estimate"] for h in session.history],
        "stopped": session.stopped,
    }


def describe_map(points: NDArray[np.float32]) -> dict[str, list[int]]:
    """x and y of each image in turn, 0 to 4095."""
    return {"points": np.rint(points * 4095).astype(int).ravel().tolist()}


def _rounded(values: NDArray[np.float32]) -> list[int]:
    numbers: list[int] = np.rint(values * 10_000).astype(int).tolist()
    return numbers

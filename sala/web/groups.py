"""The groups of similar images that the page offers to confirm together."""

from __future__ import annotations

import threading
from typing import Any

from sala.labeling.groups import similar_groups
from sala.web.details import LazyDetails
from sala.web.session import Session


class LazyGroups:
    """Groups of the newest snapshot, found on request."""

    def __init__(self, session: Session, details: LazyDetails):
        self._session, self._details, self._lock = session, details, threading.Lock()
        self._found: tuple[int, list[Any]] | None = None  # by version

    def describe(self) -> dict[str, Any]:
        """Return the version, and of each group its label and its images."""
        shown = self._session.snapshot()
        with self._lock:
            if self._found is None or self._found[0] != shown.version:
                groups = similar_groups(self._details.compact(), shown, self._session.project.is_pool)
                self._found = shown.version, [[group.to, group.images.tolist()] for group in groups]
            return {"version": self._found[0], "groups": self._found[1]}

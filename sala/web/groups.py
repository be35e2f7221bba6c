"""The groups of similar images that the page offers to confirm together."""

from __future__ import annotations

import threading
from typing import Any

from sala.labeling.groups import Compact, compact_embeddings, similar_groups
from sala.web.session import Session


class LazyGroups:
    """Groups of the newest snapshot, found on request. The embeddings are made compact once."""

    def __init__(self, session: Session):
        self._session, self._lock = session, threading.Lock()
        self._compact: Compact | None = None
        self._found: tuple[int, list[Any]] | None = None  # by version

    def describe(self) -> dict[str, Any]:
        """Return the version, and of each group its label and its images."""
        shown = self._session.snapshot()
        with self._lock:
            if self._compact is None:
                self._compact = compact_embeddings(self._session.images.features)
            if self._found is None or self._found[0] != shown.version:
                groups = similar_groups(self._compact, shown, self._session.project.is_pool)
                self._found = shown.version, [[group.to, group.images.tolist()] for group in groups]
            return {"version": self._found[0], "groups": self._found[1]}

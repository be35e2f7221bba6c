"""What the page needs beyond the snapshot: when images were taken, and short embeddings to group them by."""

from __future__ import annotations

import threading
from typing import Any

from sala.data.taken import date_taken
from sala.errors import SalaError
from sala.labeling.groups import Compact, compact_embeddings
from sala.web.session import Session


class LazyDetails:
    """Computed on the first request that needs them."""

    def __init__(self, session: Session):
        self._session, self._lock = session, threading.Lock()
        self._dates: list[int] | None = None
        self._compact: Compact | None = None

    def compact(self) -> Compact:
        with self._lock:
            if self._compact is None:
                self._compact = compact_embeddings(self._session.images.features)
            return self._compact

    def dates(self) -> dict[str, Any]:
        """Return for each image when it was taken, in seconds since 1970."""
        with self._lock:
            if self._dates is None:
                self._dates = [self._date(i) for i in range(len(self._session.project.items))]
            return {"dates": self._dates}

    def _date(self, index: int) -> int:
        try:
            with self._session.project.open(index) as file:
                return int(date_taken(file))
        except (SalaError, OSError):
            return 0

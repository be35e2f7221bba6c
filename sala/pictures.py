"""What the page shows of images: JPEGs by number, and the map of all of them."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from sala.data.images import thumbnail
from sala.projection import pool_map
from sala.session import Session

THUMB, FULL = 224, 1280  # pixels of the longer side


class Pictures:
    """Images as JPEG, at most two being decoded at a time, the last used ones kept."""

    def __init__(self, session: Session, max_bytes: int = 96 << 20):
        self._session, self._max_bytes, self._n_bytes = session, max_bytes, 0
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._lock, self._decoding = threading.Lock(), threading.Semaphore(2)

    def jpeg(self, index: int, side: int) -> bytes:
        with self._lock:
            if (index, side) in self._kept:
                self._kept.move_to_end((index, side))
                return self._kept[index, side]
        with self._decoding:
            collection = self._session.collection
            image = thumbnail(collection.read(index), collection.items[index].key, side=side)
            buffer = io.BytesIO()
            image.save(buffer, "JPEG", quality=82)
        with self._lock:
            self._kept[index, side] = buffer.getvalue()
            self._n_bytes += len(self._kept[index, side])
            while self._n_bytes > self._max_bytes:
                self._n_bytes -= len(self._kept.popitem(last=False)[1])
        return buffer.getvalue()


class LazyMap:
    """The map, computed when it is first asked for."""

    def __init__(self, session: Session):
        self._session, self._lock = session, threading.Lock()
        self._points: NDArray[np.float32] | None = None

    def points(self) -> NDArray[np.float32]:
        with self._lock:
            if self._points is None:
                self._points = pool_map(self._session.features)
            return self._points

    def rest(self) -> None:
        """None is being computed when it returns, nor will be."""
        self._lock.acquire()

"""The pictures of the page: JPEGs by image number, and the map of the pool."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from sala.data.images import thumbnail
from sala.web.layout import pool_map
from sala.web.session import Session

THUMB, FULL = 224, 1280  # pixels of the longer side


class Pictures:
    """Images as JPEG. At most two are decoded at a time, one decoding serves all who ask, and the last used are kept."""

    def __init__(self, session: Session, max_bytes: int = 96 << 20):
        self._session, self._max_bytes, self._n_bytes = session, max_bytes, 0
        self._kept: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._under_way: dict[tuple[int, int], Future[bytes]] = {}
        self._lock, self._decoding = threading.Lock(), threading.Semaphore(2)

    def jpeg(self, index: int, side: int) -> bytes:
        key = index, side
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            is_first = key not in self._under_way
            promised = self._under_way.setdefault(key, Future())
        if is_first:
            self._keep_promise(key, promised)
        return promised.result()

    def _keep_promise(self, key: tuple[int, int], promised: Future[bytes]) -> None:
        try:
            with self._decoding:
                content = self._decoded(*key)
        except BaseException as error:  # for all who wait
            with self._lock:
                del self._under_way[key]
            promised.set_exception(error)
            return
        with self._lock:
            del self._under_way[key]
            self._keep(key, content)
        promised.set_result(content)

    def _decoded(self, index: int, side: int) -> bytes:
        project = self._session.project
        with project.open(index) as file:
            image = thumbnail(file, project.items[index].key, side=side)
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=82)
        return buffer.getvalue()

    def _keep(self, key: tuple[int, int], content: bytes) -> None:
        self._kept[key] = content
        self._n_bytes += len(content)
        while self._n_bytes > self._max_bytes:
            self._n_bytes -= len(self._kept.popitem(last=False)[1])


class LazyMap:
    """The map of the pool, computed on the first request."""

    def __init__(self, session: Session):
        self._session, self._lock = session, threading.Lock()
        self._points: NDArray[np.float32] | None = None

    def points(self) -> NDArray[np.float32]:
        with self._lock:
            if self._points is None:
                self._points = pool_map(self._session.images.features)
            return self._points

    def rest(self) -> None:
        """Wait for a map that is being computed, and compute no other."""
        self._lock.acquire()

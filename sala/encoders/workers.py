"""Work on many images by as many threads as there are cores.

A network on one image keeps one core busy; two threads inside one network wait for each other at every layer, and for
ever where another program has one of their cores. So each worker has a network pass of its own, on one thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from joblib import cpu_count

from sala.encoders.base import Encoder

T = TypeVar("T")
R = TypeVar("R")
BATCH = 32  # images, of an encoder that does not tell
AHEAD = 8  # tasks a worker: one that is slow holds up none of the others


def n_workers() -> int:
    """Cores that this process may use: affinity and the limits of a container count."""
    return int(cpu_count())


def in_workers(
    work: Callable[[T], R], tasks: Iterable[T], has_ended: threading.Event | None = None
) -> Generator[R, None, None]:
    """`work(task)` for each task, in order; only so many are taken ahead that no worker waits. `has_ended` tells those that
    are still at work that nobody waits for them any more."""
    pool = ThreadPoolExecutor(n_workers())
    waiting: deque[Future[R]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(work, task))
            if len(waiting) >= AHEAD * n_workers():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        if has_ended:
            has_ended.set()
        pool.shutdown(cancel_futures=True)


def is_thread_safe(encoder: Encoder) -> bool:
    """Whether several threads may call `embed` at once."""
    return bool(getattr(encoder, "is_thread_safe", False))


def batch_size(encoder: Encoder) -> int:
    """How many images the encoder is best given at once."""
    return int(getattr(encoder, "batch_size", BATCH))

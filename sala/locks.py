"""Locks of the kernel on open files: they end with the process, however it ends."""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks
    CAN_LOCK = False
else:
    CAN_LOCK = True


def try_lock(fd: int) -> bool:
    """Lock an open file or folder; False where another process has it. OSError where it cannot be locked."""
    if not CAN_LOCK:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_same_file(path: Path, fd: int) -> bool:
    """Whether the path still leads to the open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False

"""What the C library does with memory that is freed: a training keeps it, large images give it back."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4  # glibc's malloc.h
KEPT = 64 << 20  # bytes of smaller blocks that are not given back: a network asks for the same ones again
LARGE_BLOCK = 12 << 20  # bytes: below the 16 MiB in which Pillow asks for memory, above a network's maps of two images


def keep_freed_memory() -> bool:
    """Tell the C library to give nothing back to the system: every step asks for the same sizes again, and fresh pages cost as
    much as a small convolution. For a process that trains; says whether the library took it (only glibc does)."""
    return _set(M_MMAP_MAX, 0) and _set(M_TRIM_THRESHOLD, 2**31 - 1)


@cache
def give_back_large_blocks() -> bool:
    """Tell the C library to give blocks of more than LARGE_BLOCK bytes back to the system when they are freed, whatever it
    was told before. Else each thread keeps what its largest image took. Once is enough."""
    return _set(M_MMAP_MAX, 65_536) and _set(M_MMAP_THRESHOLD, LARGE_BLOCK) and _set(M_TRIM_THRESHOLD, KEPT)


def _set(parameter: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        return bool(ctypes.CDLL(None).mallopt(parameter, value))
    except (OSError, AttributeError):  # another C library
        return False

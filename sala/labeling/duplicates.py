"""Images with the same content: one counts, the others have what is said of it."""

from __future__ import annotations

import hashlib
import stat
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sala.errors import SalaError
from sala.text import printable


def first_of_content(paths: Sequence[Path]) -> NDArray[np.int64]:
    """For each file the index of the first file with the same content. Only files of equal size are read."""
    by_size: dict[int, list[int]] = defaultdict(list)
    first = np.arange(len(paths))
    for i, path in enumerate(paths):
        try:
            state = path.stat()
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(state.st_mode):
            by_size[state.st_size].append(i)
    for group in by_size.values():
        seen: dict[bytes, int] = {}
        for i in group if len(group) > 1 else []:
            try:
                digest = hashlib.sha256(paths[i].read_bytes()).digest()
            except OSError:
                continue
            first[i] = seen.setdefault(digest, i)
    return first


def first_of_digests(digests: NDArray[np.uint8]) -> NDArray[np.int64]:  # [n, 32] -> [n]
    """The same where the sha256 of each content is known: no file is read."""
    contents = np.ascontiguousarray(digests).view(f"V{digests.shape[1]}")[:, 0]
    _, first, content = np.unique(contents, return_index=True, return_inverse=True)
    return np.asarray(first[content], np.int64)


def contradiction(a: Path, b: Path, *, is_outlier: bool) -> SalaError:
    """For two files of one content with different labels."""
    names = " and ".join(printable(str(path)) for path in (a, b))
    how = "of a class and an outlier" if is_outlier else "in two classes"
    return SalaError(f"{names} are the same image {how}; remove one of them")


def duplicate(path: Path, original: Path) -> str:
    return f"{printable(str(path))} has the content of {printable(str(original))}, which counts once; remove it"

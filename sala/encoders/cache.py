"""Features on disk, so that no image is embedded twice.

One SQLite file for each encoder, in `embeddings/` of the cache folder: features by the sha256 of an image file's content,
and that hash by the file's path, size and time of change, so that a file which is as it was is not even read. Each batch is
one transaction: a process that is killed loses the batch it was at, and nothing else. Whatever is wrong with the file,
the embedding goes on without it, and a warning says so.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sala.cache import cache_folder

SCHEMA = """
CREATE TABLE IF NOT EXISTS features (hash BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, size INTEGER, time INTEGER, hash BLOB) WITHOUT ROWID;
"""


class FeatureCache:
    """The features of one encoder, for any thread. `folder` is for tests and for users with a faster disk."""

    def __init__(self, identity: str, folder: Path | None = None):
        self.path = (folder or cache_folder() / "embeddings") / f"{identity}.sqlite"
        self.n_kept = 0  # features that were added
        self._database = _open(self.path)
        self._alone = threading.RLock()
        self._trouble: Exception | None = None

    def known_hash(self, path: Path) -> bytes | None:
        """The content hash of a file that has not changed since it was last read."""
        row = self._first("SELECT size, time, hash FROM files WHERE path = ?", _key(path))
        try:
            stat = path.stat()
        except (OSError, ValueError):  # ValueError: a NUL in the name
            return None
        is_as_it_was = row and tuple(row[:2]) == (stat.st_size, stat.st_mtime_ns) and isinstance(row[2], bytes)
        return bytes(row[2]) if row and is_as_it_was else None

    def features(self, content_hash: bytes) -> NDArray[np.float32] | None:
        """The features of a file with this content; None if they are not there or damaged."""
        row = self._first("SELECT value FROM features WHERE hash = ?", content_hash)
        if not row or not isinstance(row[0], bytes) or not row[0] or len(row[0]) % 4:
            return None
        found = np.frombuffer(row[0], np.float32)
        return found if np.isfinite(found).all() else None

    def add(self, entries: Sequence[tuple[Path, os.stat_result, bytes, NDArray[np.float32] | None]]) -> None:
        """(path, its state when it was read, content hash, features or None if they are there), all or none of them."""
        files = [(_key(path), stat.st_size, stat.st_mtime_ns, digest) for path, stat, digest, _ in entries]
        rows = [(digest, value.astype(np.float32).tobytes()) for _, _, digest, value in entries if value is not None]
        with self._alone:
            if self._database is None:
                return
            try:
                with self._database:
                    self._database.executemany("INSERT OR REPLACE INTO features VALUES (?, ?)", rows)
                    self._database.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", files)
                self.n_kept += len(rows)
            except sqlite3.Error as error:  # a full disk, another process for too long: this run does without
                self._trouble = error
                self.close()

    def tell(self) -> None:
        """Warn of what went wrong since. Not when it does: while images are decoded, no warning is heard."""
        if self._trouble is not None:
            _warn(self.path, self._trouble)
            self._trouble = None

    def close(self) -> None:
        """Close the database. Later calls find and keep nothing."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def _first(self, query: str, key: object) -> tuple[Any, ...] | None:
        with self._alone:
            if self._database is None:
                return None
            try:
                row: tuple[Any, ...] | None = self._database.execute(query, (key,)).fetchone()
            except sqlite3.Error as error:
                self._trouble = error
                self.close()
                return None
            return row


def _key(path: Path) -> str:
    return os.fsencode(path.absolute()).hex()  # a name need not be text


def _open(path: Path) -> sqlite3.Connection | None:
    """The database; a damaged one is made anew, since all in it can be."""
    for _ in range(2):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(path, timeout=30, check_same_thread=False)
            database.executescript(SCHEMA)
            database.execute("SELECT hash FROM features LIMIT 1").fetchone()
            return database
        except (sqlite3.OperationalError, OSError) as error:  # locked, or not ours to write: it may be sound
            _warn(path, error)
            return None
        except sqlite3.DatabaseError:
            database.close()
            path.unlink(missing_ok=True)
    return None


def _warn(path: Path, error: Exception) -> None:
    warnings.warn(
        f"features cannot be kept in {path} ({error}); the work goes on, but a second run will not start at once. Set "
        "SALA_CACHE to a folder with room that you may write to",
        stacklevel=3,
    )

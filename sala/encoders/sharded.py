"""Features in the shards that `sala embed` wrote, mapped from disk: a pool of millions takes the memory of its names.

    encoder = open_encoder("features/")       # ShardedFeatures, with the identity of the encoder that made them
    embed_files(paths, encoder).features      # rows of the shards, read when they are asked for

A file is found by its path in the folder that was embedded, if it has the size and time of change that it had; any other by
its content (sha256), wherever it lies now and whatever it is called.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from sala.encoders.base import Features, Images, file_hash
from sala.encoders.manifest import MANIFEST, Manifest, read_manifest
from sala.errors import SalaError
from sala.text import counted, printable

MAX_BYTES = 1 << 30  # of features that are read into memory
SPARSE = 8  # of rows further apart than this, each is read by itself


def is_sharded(path: Path) -> bool:
    """Whether it is a folder of `sala embed`."""
    return (path / MANIFEST).is_file()


class MappedRows:
    """Rows `[n, d]` of shards, in any order and read when they are asked for: `rows[a:b]`, `rows[[3, 17]]`.

    It stands for an array of features where that would not fit into memory.
    """

    ndim, dtype = 2, np.dtype(np.float32)

    def __init__(self, shards: Sequence[Path], rows: NDArray[np.int64], starts: NDArray[np.int64], n_features: int):
        self._shards, self._rows, self._starts = shards, rows, starts  # row i is rows[i] of all shards together
        self.shape = (len(rows), n_features)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """What the rows would take in memory."""
        return len(self._rows) * self.shape[1] * self.dtype.itemsize

    def __getitem__(self, which: slice | Sequence[int] | NDArray[Any]) -> Features:
        rows = self._rows[which]
        out = np.empty((len(rows), self.shape[1]), np.float32)
        number = np.searchsorted(self._starts, rows, "right") - 1
        for shard in np.unique(number):
            into = np.flatnonzero(number == shard)
            out[into] = read_rows(self._shards[shard], rows[into] - self._starts[shard])
        return out

    def at(self, rows: NDArray[np.int64]) -> MappedRows:
        """Some of the rows, not read yet."""
        return MappedRows(self._shards, self._rows[rows], self._starts, self.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or np.float32, copy=False)


def read_rows(shard: Path, rows: NDArray[np.int64]) -> Features:
    """Rows of one shard; only the pages that hold them are read."""
    try:
        with safe_open(shard, "np") as file:
            part = file.get_slice("features")
            first, last = int(rows.min()), int(rows.max()) + 1
            if SPARSE * len(rows) < last - first:
                result = np.concatenate([np.asarray(part[i : i + 1], np.float32) for i in rows.tolist()])
            else:
                result = np.asarray(part[first:last], np.float32)
                result = result if np.array_equal(rows, np.arange(first, last)) else result[rows - first]
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        raise damaged(shard, error) from None
    if not np.isfinite(result).all():
        raise damaged(shard, ValueError("some features are not finite numbers"))
    return result


class ShardedFeatures:
    """The features in a folder of `sala embed`; there is no network that could embed another image."""

    image_size, mode = 0, "RGB"

    def __init__(self, folder: Path):
        self.folder, self.manifest = folder, read_manifest(folder)
        self.name, self.identity = self.manifest.name, self.manifest.identity
        missing = [path for path in self.shards if not path.is_file()]
        if missing:
            raise SalaError(
                f"{printable(str(folder))} has {len(self.shards) - len(missing):,} of {counted(len(self.shards), 'shard')}; "
                "run the same `sala embed` command again, which makes the others"
            )
        self._tables = [_Table(path) for path in self.shards]
        widths = {table.n_features for table in self._tables if len(table.rows)}
        if len(widths) > 1:
            raise SalaError(
                f"{printable(str(folder))} has features of different lengths ({sorted(widths)}); embed it again"
            )
        self.n_features = next(iter(widths), 0)
        self._starts = np.cumsum([0, *(len(table.rows) for table in self._tables)])[:-1]

    @property
    def shards(self) -> list[Path]:
        return [self.folder / name for name in self.manifest.shard_names()]

    def embed(self, images: Images) -> Features:
        raise SalaError(
            f"{printable(str(self.folder))} holds ready-made features and embeds no images; run `sala embed` on them"
        )

    def rows(self, paths: Sequence[Path | str]) -> NDArray[np.int64]:
        """The row of each file in all shards together; -1 where there is none."""
        places = _Places(self.manifest, self.folder)
        return np.fromiter((self._row(places, os.fspath(path)) for path in paths), np.int64, len(paths))

    def features_of(self, rows: NDArray[np.int64]) -> Features:
        """Features of some rows: an array, or `MappedRows` in its place where that would be large."""
        mapped = MappedRows(self.shards, rows, self._starts, self.n_features)
        return mapped[:] if mapped.nbytes <= MAX_BYTES else cast(Features, mapped)

    def missing(self, path: Path) -> str:
        """What is told of a file without features."""
        shown, here = printable(str(path)), printable(str(self.folder))
        if why := self._skipped and self._skipped.get(_Places(self.manifest, self.folder).name_of(os.fspath(path))):
            return f"{shown} was skipped by `sala embed`: {printable(why)}"
        return f"{shown} has no features in {here}: it is new or has changed; embed it with `sala embed`"

    def digests(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:  # [n] -> [n, 32]
        """sha256 of the files' contents."""
        result: NDArray[np.uint8] = self._digests[rows]
        return result

    def _row(self, places: _Places, path: str) -> int:
        try:
            state = os.stat(path)
            name = places.name_of(path)
            row = -1 if name is None else self._by_name.get(name, -1)
            if row >= 0 and self._sizes[row] == state.st_size and self._times[row] == state.st_mtime_ns:
                return row
            if state.st_size not in self._known_sizes:
                return -1
            return self._by_content.get(bytes.fromhex(file_hash(Path(path))), -1)
        except (OSError, ValueError, SalaError):
            return -1

    @cached_property
    def _by_name(self) -> dict[bytes, int]:
        names = (name for table in self._tables for name in table.names())
        return {name: row for row, name in enumerate(names)}

    @cached_property
    def _skipped(self) -> dict[bytes | None, str]:
        return {name: why for table in self._tables for name, why in table.skipped.items()}

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return self._column("sizes")

    @cached_property
    def _times(self) -> NDArray[np.int64]:
        return self._column("times")

    def _column(self, name: str) -> NDArray[np.int64]:
        return np.concatenate([table.column(name) for table in self._tables] or [np.empty(0, np.int64)])

    @cached_property
    def _known_sizes(self) -> set[int]:
        return set(self._sizes.tolist())

    @cached_property
    def _digests(self) -> NDArray[np.uint8]:
        return np.concatenate([table.column("hashes") for table in self._tables] or [np.empty((0, 32), np.uint8)])

    @cached_property
    def _by_content(self) -> dict[bytes, int]:
        return {digest.tobytes(): row for row, digest in reversed(list(enumerate(self._digests)))}


class _Places:
    """What a shard calls a file: the number of its root, and its path there."""

    def __init__(self, manifest: Manifest, folder: Path):
        self._roots = [os.path.realpath(folder / root) for root in manifest.roots]
        self._known: dict[str, bytes | None] = {}  # by folder: links are followed once for each

    def name_of(self, path: str) -> bytes | None:
        parent, base = os.path.split(path)
        if parent not in self._known:
            self._known[parent] = self._prefix(os.path.realpath(parent))
        prefix = self._known[parent]
        return None if prefix is None else prefix + os.fsencode(base)

    def _prefix(self, real: str) -> bytes | None:
        inside = [
            (len(root), i) for i, root in enumerate(self._roots) if real == root or real.startswith(root + os.sep)
        ]
        if not inside:
            return None
        length, number = max(inside)
        below = real[length:].strip(os.sep).replace(os.sep, "/")
        return os.fsencode(f"{number}/{below}/" if below else f"{number}/")


class _Table:
    """The small columns of a shard: which file each row is of."""

    def __init__(self, path: Path):
        self.path = path
        try:
            with safe_open(path, "np") as file:
                self.n_features = int(file.get_slice("features").get_shape()[1])
                self._columns = {key: file.get_tensor(key) for key in ("rows", "sizes", "times", "hashes", "names")}
                reasons = json.loads((file.metadata() or {}).get("skipped", "{}"))
            every = self._every_name() if reasons else []
            self.skipped = {every[int(i)]: str(why) for i, why in reasons.items()}
        except (OSError, SafetensorError, ValueError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise damaged(path, error) from None
        self.rows = self._columns["rows"]

    def column(self, name: str) -> NDArray[Any]:
        found: NDArray[Any] = self._columns[name]
        return found

    def names(self) -> list[bytes]:
        """Of the files that have a row."""
        every = self._every_name()
        return [every[i] for i in self.rows.tolist()]

    def _every_name(self) -> list[bytes]:
        return list(self._columns["names"].tobytes().split(b"\0"))


def damaged(shard: Path, error: Exception) -> SalaError:
    return SalaError(
        f"{printable(str(shard))} is damaged ({error}); delete it, and run the same `sala embed` command again, which makes "
        "it anew"
    )

"""Files to features: from the cache where they are there, else decoded and embedded by workers, a few images at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sala.data.files import MAX_MEMBER_BYTES, open_regular
from sala.data.threads import one_thread
from sala.encoders.base import Encoder, Features, cache_key, content_hash, read_image
from sala.encoders.cache import FeatureCache
from sala.encoders.precomputed import ReadyFeatures
from sala.encoders.sharded import ShardedFeatures
from sala.encoders.workers import BATCH, batch_size, in_workers, is_thread_safe
from sala.errors import SalaError
from sala.text import counted, printable


@dataclass(frozen=True)
class EmbedProgress:
    """Progress of an embedding: `done` of `total` files, of which so many came from the cache or were skipped."""

    done: int
    total: int
    n_cached: int
    n_skipped: int


@dataclass(frozen=True)
class EmbeddedFiles:
    """Features of the files that could be read, in their order, and a sentence for each skipped file."""

    features: Features  # [n, d]
    kept: NDArray[np.int64]  # [n]: features[i] is of file paths[kept[i]]
    skipped: dict[int, str]  # index in paths -> what is wrong with it
    n_cached: int
    digests: NDArray[np.uint8] | None = None  # [n, 32]: sha256 of the contents, where it is known without reading them


@dataclass(frozen=True)
class _File:
    """A file on its way: to its features, or to what is wrong with it."""

    index: int
    path: Path
    features: NDArray[np.float32] | None = None
    is_cached: bool = False
    stat: os.stat_result | None = None  # when it was read
    digest: bytes | None = None  # of its content
    image: NDArray[Any] | None = None  # as the encoder takes it
    problem: str | None = None


def embed_files(
    paths: Sequence[Path | str],
    encoder: Encoder,
    *,
    cache: FeatureCache | bool = True,
    progress: Callable[[EmbedProgress], None] | None = None,
) -> EmbeddedFiles:
    """The features of image files, and a sentence for each file that cannot be read.

    Parameters
    ----------
    paths : sequence of Path or str
        Image files: JPEG, PNG, WEBP, BMP, GIF, TIFF or PPM.
    encoder : Encoder
        From `sala.open_encoder`, or any object with the same attributes.
    cache : FeatureCache or bool, default True
        Where features are kept between runs. `False` neither reads nor writes any.
    progress : callable, optional
        Called with an `EmbedProgress` after each batch.

    Returns
    -------
    EmbeddedFiles
        `features [n, d]`, float32; `kept [n]`, the index in `paths` of each row; `skipped`, a sentence for each other file.

    Examples
    --------
    >>> import sala, tempfile
    >>> from PIL import Image
    >>> path = tempfile.mkdtemp() + "/black.png"
    >>> Image.new("L", (28, 28)).save(path)
    >>> embedded = sala.embed_files([path, "missing.png"], sala.open_encoder("omniglot-sala"), cache=False)
    >>> embedded.features.shape, embedded.kept.tolist(), list(embedded.skipped)
    ((1, 64), [0], [1])
    """
    if isinstance(encoder, ReadyFeatures | ShardedFeatures):
        return _look_up(paths, encoder)
    store = FeatureCache(cache_key(encoder)) if cache is True else cache or None
    try:
        return _embed_all(paths, encoder, store, progress)
    finally:
        if store:
            store.tell()
        if store and cache is True:
            store.close()


def _embed_all(
    paths: Sequence[Path | str],
    encoder: Encoder,
    store: FeatureCache | None,
    progress: Callable[[EmbedProgress], None] | None,
) -> EmbeddedFiles:
    tally = _Tally(len(paths), store, progress)
    try:
        with closing(_settled(paths, encoder, store)) as parts:
            for part in parts:
                tally.add(part)
    except KeyboardInterrupt:
        tally.flush()
        if not store or not store.n_kept:
            raise
        raise KeyboardInterrupt(
            f"the features of {counted(store.n_kept, 'image')} are kept, and the same command goes on from there"
        ) from None
    finally:
        tally.flush()
    return tally.gathered()


class _Tally:
    """What has been settled: told and kept on disk a batch at a time."""

    def __init__(self, total: int, store: FeatureCache | None, progress: Callable[[EmbedProgress], None] | None):
        self.total, self.store, self.progress = total, store, progress
        self.files: list[_File] = []
        self.fresh: list[_File] = []  # neither told nor kept yet
        self.n_cached = self.n_bad = 0

    def add(self, files: list[_File]) -> None:
        self.fresh += files
        if len(self.fresh) >= BATCH:
            self.flush()

    def flush(self) -> None:
        fresh, self.fresh = self.fresh, []
        self.files += fresh
        self.n_cached += sum(file.is_cached for file in fresh)
        self.n_bad += sum(file.problem is not None for file in fresh)
        if self.store and fresh:
            self.store.add([(f.path, f.stat, f.digest, None if f.is_cached else f.features) for f in fresh
                            if f.stat is not None and f.digest is not None and f.features is not None])  # fmt: skip
        if self.progress and fresh:
            self.progress(EmbedProgress(len(self.files), self.total, self.n_cached, self.n_bad))

    def gathered(self) -> EmbeddedFiles:
        rows = {file.index: file.features for file in self.files if file.features is not None}
        if len({len(row) for row in rows.values()}) > 1:  # the encoder's own are of one length
            place = self.store.path if self.store else "the encoder"
            raise SalaError(f"{place} has features of different lengths; delete that file, and run the same command")
        features = np.stack(list(rows.values())) if rows else np.empty((0, 0), np.float32)
        problems = {file.index: file.problem for file in self.files if file.problem is not None}
        return EmbeddedFiles(features, np.array(list(rows), np.int64), problems, self.n_cached)


def _settled(
    paths: Sequence[Path | str], encoder: Encoder, store: FeatureCache | None
) -> Generator[list[_File], None, None]:
    """All files, a few at a time, in order."""
    has_ended = threading.Event()

    def read(files: list[_File]) -> list[_File]:
        return [f if f.is_cached or has_ended.is_set() else _read(f, encoder, store) for f in files]

    def read_and_embed(files: list[_File]) -> list[_File]:
        return _embedded(read(files), encoder)

    known = (_known(_File(i, Path(path)), store) for i, path in enumerate(paths))
    if is_thread_safe(encoder):
        with one_thread():
            yield from in_workers(read_and_embed, _batches(known, batch_size(encoder)), has_ended)
        return
    with closing(in_workers(read, _batches(known, 1), has_ended)) as parts:
        for batch in _batches((file for part in parts for file in part), batch_size(encoder)):
            yield _embedded(batch, encoder)


def _batches(files: Iterable[_File], n_images: int) -> Iterator[list[_File]]:
    """Ended by so many images to embed, or by many more that need no embedding."""
    batch: list[_File] = []
    n_missing = 0
    for file in files:
        batch.append(file)
        n_missing += not file.is_cached
        if n_missing == n_images or len(batch) == 16 * BATCH:
            yield batch
            batch, n_missing = [], 0
    if batch:
        yield batch


def _known(file: _File, store: FeatureCache | None) -> _File:
    """A file that the cache knows, and that is as it was, is not read."""
    if store and (digest := store.known_hash(file.path)) and (features := store.features(digest)) is not None:
        return replace(file, features=features, is_cached=True)
    return file


def _read(file: _File, encoder: Encoder, store: FeatureCache | None) -> _File:
    """A file whose content the cache knows is not decoded."""
    where = printable(str(file.path))
    try:
        with open_regular(file.path) as stream:
            stat = os.fstat(stream.fileno())
            if stat.st_size > MAX_MEMBER_BYTES:
                raise SalaError(
                    f"{where} is larger than {MAX_MEMBER_BYTES >> 20} MiB, too large for one image; remove it"
                )
            file = replace(file, stat=stat, digest=content_hash(stream))
            if store and file.digest and (known := store.features(file.digest)) is not None:
                return replace(file, features=known, is_cached=True)
            stream.seek(0)
            image = read_image(stream, where, encoder)
    except (SalaError, OSError) as error:
        return replace(file, problem=str(error))
    return replace(file, image=image)


def _embedded(files: list[_File], encoder: Encoder) -> list[_File]:
    """The images among them with their features; one that the encoder has no numbers for has a problem."""
    images = [file.image for file in files if file.image is not None]
    rows = iter(encoder.embed(np.stack(images)) if images else ())
    return [file if file.image is None else _with(file, next(rows), encoder) for file in files]


def _with(file: _File, features: NDArray[np.float32], encoder: Encoder) -> _File:
    if np.isfinite(features).all():
        return replace(file, image=None, features=features)
    where = printable(str(file.path))
    problem = f"{where} has features that are not finite numbers by the encoder {encoder.name}; try another encoder"
    return replace(file, image=None, problem=problem)


def _look_up(paths: Sequence[Path | str], encoder: ReadyFeatures | ShardedFeatures) -> EmbeddedFiles:
    rows = encoder.rows(paths)
    kept = np.flatnonzero(rows >= 0)
    missing = {i: encoder.missing(Path(paths[i])) for i in np.flatnonzero(rows < 0).tolist()}
    return EmbeddedFiles(encoder.features_of(rows[kept]), kept, missing, len(kept), encoder.digests(rows[kept]))

"""Files to features: from the cache where they are there, else through the encoder, a batch at a time.

Images of the next batch are read and decoded, on all cores, while one is embedded: large photos take longer to decode than to
embed. A file is read by the thread that decodes it, so that there are never more of them in memory than threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sala.data.files import Tree, open_image, resize
from sala.encoders.base import Encoder, Features
from sala.encoders.cache import FeatureCache, content_hash
from sala.encoders.ready import ReadyFeatures
from sala.errors import SalaError
from sala.wording import counted, printable

BATCH = 32  # images
MIN_SIDE = 8  # pixels of an image's shorter side: letters of 28 and icons of 16 are images, lines and dots are not


@dataclass(frozen=True)
class EmbedProgress:
    """How far it is: `done` of `total` files are settled, of which so many came from the cache or were set aside."""

    done: int
    total: int
    n_cached: int
    n_set_aside: int


@dataclass(frozen=True)
class EmbeddedFiles:
    """Features of the files that could be read, in their order, and a sentence for each of the others."""

    features: Features  # [n, d]
    kept: NDArray[np.int64]  # [n]: features[i] is of file paths[kept[i]]
    set_aside: dict[int, str]  # index in paths -> what is wrong with it
    n_cached: int


@dataclass(frozen=True)
class _Read:
    """A file that was looked at: its features if they are known, else its pixels, else what is wrong with it."""

    index: int
    path: Path
    stat: os.stat_result | None = None
    digest: bytes | None = None
    features: NDArray[np.float32] | None = None
    image: NDArray[np.uint8] | None = None
    problem: str | None = None


_Coming = Future[_Read] | _Read


def embed_files(
    paths: Sequence[Path | str],
    encoder: Encoder,
    *,
    cache: FeatureCache | bool = True,
    progress: Callable[[EmbedProgress], None] | None = None,
) -> EmbeddedFiles:
    """The features of image files. `cache=False` neither reads nor writes any."""
    if isinstance(encoder, ReadyFeatures):
        return _look_up(paths, encoder)
    store = FeatureCache(encoder.identity) if cache is True else cache or None
    rows: dict[int, NDArray[np.float32]] = {}
    set_aside: dict[int, str] = {}
    n_cached = 0
    decoders = ThreadPoolExecutor(os.cpu_count())
    try:
        coming = (_look_at(i, Path(path), encoder, store, decoders) for i, path in enumerate(paths))
        for batch in _ahead(_batches(coming)):
            reads = [read.result() if isinstance(read, Future) else read for read in batch]
            rows |= {read.index: read.features for read in reads if read.features is not None}
            n_cached += sum(read.features is not None for read in reads)
            set_aside |= {read.index: read.problem for read in reads if read.problem is not None}
            fresh = _embed_batch(reads, encoder, set_aside)
            rows |= fresh
            if store:
                store.add([(r.path, r.stat, r.digest, fresh.get(r.index)) for r in reads
                           if r.stat is not None and r.digest is not None and r.index not in set_aside])  # fmt: skip
            if progress:
                progress(EmbedProgress(reads[-1].index + 1, len(paths), n_cached, len(set_aside)))
    except KeyboardInterrupt:
        if not store or not store.n_kept:
            raise
        raise KeyboardInterrupt(
            f"the features of {counted(store.n_kept, 'image')} are kept, and the same command goes on from there"
        ) from None
    finally:
        decoders.shutdown(cancel_futures=True)
        if store:
            store.tell()
        if store and cache is True:
            store.close()
    kept = np.array(sorted(rows), np.int64)
    return EmbeddedFiles(_stack([rows[i] for i in kept]), kept, dict(sorted(set_aside.items())), n_cached)


def _batches(coming: Iterator[_Coming]) -> Iterator[list[_Coming]]:
    """Ended by so many images to embed, or by many more that need no embedding."""
    batch: list[_Coming] = []
    n_images = 0
    for read in coming:
        batch.append(read)
        n_images += isinstance(read, Future)
        if n_images == BATCH or len(batch) == 16 * BATCH:
            yield batch
            batch, n_images = [], 0
    if batch:
        yield batch


def _ahead(batches: Iterator[list[_Coming]]) -> Iterator[list[_Coming]]:
    """Each, when the next is on its way."""
    batch = next(batches, None)
    while batch is not None:
        following = next(batches, None)
        yield batch
        batch = following


def _look_at(
    index: int, path: Path, encoder: Encoder, store: FeatureCache | None, decoders: ThreadPoolExecutor
) -> _Coming:
    """A file that the cache knows, and that is as it was, is not read."""
    if store and (digest := store.known_hash(path)) and (known := store.features(digest)) is not None:
        return _Read(index, path, features=known)
    return decoders.submit(_read, index, path, encoder, store)


def _read(index: int, path: Path, encoder: Encoder, store: FeatureCache | None) -> _Read:
    """A file whose content the cache knows is not decoded."""
    try:
        if not path.is_file():  # a pipe would block for ever
            what = "is not a file" if os.path.lexists(path) else "is not there"
            raise SalaError(f"{printable(str(path))} {what}; look at its name, or leave it out")
        stat, content = path.stat(), Tree(path.parent).read(path.name)
        digest = content_hash(content)
        if store and (known := store.features(digest)) is not None:
            return _Read(index, path, stat, digest, features=known)
        image = open_image(content, printable(str(path)), image_size=encoder.image_size, mode=encoder.mode)
        _check_side(image, path)
    except (SalaError, OSError, ValueError) as error:  # ValueError: a NUL in the name
        return _Read(index, path, problem=str(error))
    return _Read(index, path, stat, digest, image=resize(image, encoder.image_size))


def _check_side(image: Image.Image, path: Path) -> None:
    """What is scaled up from a few pixels, or from a line, looks like nothing."""
    if min(image.size) < MIN_SIDE:
        raise SalaError(
            f"{printable(str(path))} is {image.width} x {image.height} pixels, too small to tell anything from (the shorter "
            f"side has {MIN_SIDE} at least); get a larger copy or remove it"
        )


def _embed_batch(reads: list[_Read], encoder: Encoder, set_aside: dict[int, str]) -> dict[int, NDArray[np.float32]]:
    """Features by index; an image that the encoder has no numbers for is added to those set aside."""
    images = {read.index: read.image for read in reads if read.image is not None}
    if not images:
        return {}
    features = encoder.embed(np.stack(list(images.values())))
    is_good = [bool(np.isfinite(row).all()) for row in features]
    where = {read.index: printable(str(read.path)) for read in reads}
    set_aside |= {
        i: f"{where[i]} has features that are not finite numbers by the encoder {encoder.name}; try another encoder"
        for i, good in zip(images, is_good, strict=True)
        if not good
    }
    return {i: row for i, row, good in zip(images, features, is_good, strict=True) if good}


def _look_up(paths: Sequence[Path | str], encoder: ReadyFeatures) -> EmbeddedFiles:
    found = {i: row for i, path in enumerate(paths) if (row := encoder.row(Path(path))) is not None}
    missing = {
        i: f"{printable(str(path))} is not in the list of {encoder.name}; add it there with its features"
        for i, path in enumerate(paths)
        if i not in found
    }
    kept = np.array(sorted(found), np.int64)
    return EmbeddedFiles(encoder.features[[found[i] for i in kept]], kept, missing, len(kept))


def _stack(rows: list[NDArray[np.float32]]) -> Features:
    return np.stack(rows) if rows else np.empty((0, 0), np.float32)

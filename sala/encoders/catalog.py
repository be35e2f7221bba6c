"""Which encoders can be used on this machine, how large they are, and how fast."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sala.encoders.base import Encoder
from sala.encoders.estimator import embed_arrays
from sala.encoders.hub import CONFIG, PREFIX, PREPROCESSING
from sala.encoders.precomputed import ReadyFeatures
from sala.encoders.registry import ENCODERS, is_ours, open_encoder
from sala.encoders.sharded import ShardedFeatures
from sala.errors import SalaError

SIDE = 256  # pixels of the images that are embedded to measure
SECONDS = 2.0  # of measuring, at least


@dataclass(frozen=True)
class CatalogRow:
    """One encoder: what it is, the bytes of its weights, its features' dimension, images/s if measured; or why it cannot be
    used."""

    name: str
    summary: str
    n_bytes: int | None = None
    dimension: int | None = None
    images_per_second: float | None = None
    problem: str = ""


def catalog(names: Sequence[str] = (), *, measure: bool = False) -> Iterator[CatalogRow]:
    """A row for each of some encoders; without names for those of `ENCODERS` and the models that were downloaded."""
    for name in names or (*ENCODERS, *downloaded()):
        try:
            yield _row(name, summary_of(name), open_encoder(name), measure)
        except SalaError as error:
            yield CatalogRow(name, summary_of(name), problem=str(error))


def summary_of(name: str) -> str:
    """What an encoder is for, where its name tells."""
    if is_ours(name):
        return ENCODERS[name].summary
    return "a vision model of transformers" if name.startswith(PREFIX) else ""


def _row(name: str, summary: str, encoder: Encoder, measure: bool) -> CatalogRow:
    if isinstance(encoder, ReadyFeatures | ShardedFeatures):
        return CatalogRow(name, summary or "ready-made features", None, encoder.n_features)
    dimension = embed_arrays(_images(1), encoder).shape[1]
    rate = images_per_second(encoder) if measure else None
    return CatalogRow(name, summary or encoder.name, weight_bytes(encoder), dimension, rate)


def images_per_second(encoder: Encoder, seconds: float = SECONDS) -> float:
    """Images in memory, of 256 x 256 pixels, that are prepared and embedded in a second; reading files is not counted."""
    n = 8
    while True:
        images = _images(n)
        begun = time.perf_counter()
        embed_arrays(images, encoder)
        taken = time.perf_counter() - begun
        if taken >= seconds:
            return n / taken
        n = int(np.ceil(n * min(8.0, 1.2 * seconds / max(taken, 1e-6)))) + 1


def _images(n: int) -> Any:
    """Noise; the same images again and again, so that many take no memory."""
    some = np.random.default_rng(0).integers(0, 256, (min(n, 16), SIDE, SIDE, 3), np.uint8)
    return [some[i % len(some)] for i in range(n)]


def weight_bytes(encoder: Encoder) -> int | None:
    """Bytes of the files with an encoder's weights; None where it does not name them."""
    files: Sequence[Path] = getattr(encoder, "weights", ())
    return sum(path.stat().st_size for path in files) or None


def downloaded() -> list[str]:
    """Vision models of the hub that are on this machine, as `--encoder` takes them."""
    try:
        from huggingface_hub import scan_cache_dir
        from huggingface_hub.errors import CacheNotFound
    except ImportError:
        return []
    try:
        repos = scan_cache_dir().repos
    except CacheNotFound:
        return []
    return sorted(PREFIX + repo.repo_id for repo in repos if repo.repo_type == "model" and _is_vision(repo))


def _is_vision(repo: Any) -> bool:
    names = {file.file_name for revision in repo.revisions for file in revision.files}
    return CONFIG in names and not names.isdisjoint(PREPROCESSING)

"""Write shards: the features of folders of images, alone or by several processes that share nothing but the folder.

Shard i of the sorted listing is of process i mod world. A shard is written beside its place and renamed when it is whole and
on disk, so it is complete or absent; one that is there is not made again. A shard holds `features [n, d]`, and of each row the
file it is of (`rows`, `names`), its size, time of change and sha256 (`sizes`, `times`, `hashes`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save

from sala.atomic import write_atomically
from sala.encoders.base import Encoder, Features, file_hash
from sala.encoders.embed import EmbedProgress, embed_files
from sala.encoders.manifest import Manifest, claim, listing_hash, root_from
from sala.encoders.precomputed import ReadyFeatures
from sala.encoders.sharded import ShardedFeatures
from sala.errors import SalaError

SHARD_SIZE = 4_096  # images: what a killed process loses at most
SeenFile = tuple[int, int, bytes]  # size, time of change in ns, sha256


@dataclass(frozen=True)
class Share:
    """This process is number `rank` of `world`."""

    rank: int = 0
    world: int = 1


def share_of_environment() -> Share:
    """As torchrun (or anything that sets the same variables) says; alone without. The processes send each other nothing."""
    values = {key: os.environ.get(key, default) for key, default in (("RANK", "0"), ("WORLD_SIZE", "1"))}
    if not all(value.isdecimal() for value in values.values()) or int(values["RANK"]) >= int(values["WORLD_SIZE"]):
        raise SalaError(
            f"RANK and WORLD_SIZE must be numbers, the first below the second: got {values}; start with torchrun"
        )
    return Share(int(values["RANK"]), int(values["WORLD_SIZE"]))


def take_own_gpu() -> None:
    """Under torchrun, each process of a machine computes on a GPU of its own, as far as there are."""
    local = os.environ.get("LOCAL_RANK", "0")
    if torch.cuda.is_available() and local.isdecimal():
        torch.cuda.set_device(int(local) % torch.cuda.device_count())


@dataclass(frozen=True)
class WrittenShards:
    """What this process did: images embedded, files skipped with a sentence each, and shards that were there already."""

    n_images: int
    skipped: dict[Path, str]
    n_written: int
    n_there: int
    n_shards: int  # of all processes


def write_shards(
    files: Sequence[tuple[int, Path]],
    roots: Sequence[Path],
    encoder: Encoder,
    out: Path,
    *,
    which: str = "",
    share: Share | None = None,
    shard_size: int = SHARD_SIZE,
    progress: Callable[[EmbedProgress], None] | None = None,
) -> WrittenShards:
    """Features of image files, in shards that `open_encoder(out)` takes.

    Parameters
    ----------
    files : sequence of (int, Path)
        Images, each with the number of its root. Every process lists the same.
    roots : sequence of Path
        The folders that the images are in.
    encoder : Encoder
        From `open_encoder`.
    out : Path
        Where shards go. Those that are there, of the same images and encoder, are kept.
    which : str, optional
        How the encoder is opened again.
    share : Share, optional
        Which process of how many this is. Default: alone.
    shard_size : int
        Images in a shard.
    progress : callable, optional
        Told of the images of this process.

    Returns
    -------
    WrittenShards

    Raises
    ------
    SalaError
        If `out` has shards of other images or of another encoder.
    """
    if isinstance(encoder, ReadyFeatures | ShardedFeatures):
        raise SalaError(
            f"{encoder.name} holds features, and an encoder is needed to embed images; name it with --encoder"
        )
    share = share or Share()
    names = [os.fsencode(f"{root}/{_below(roots[root], path)}") for root, path in files]
    out.mkdir(parents=True, exist_ok=True)
    manifest = Manifest(
        which or encoder.name, encoder.name, encoder.identity, tuple(root_from(out, root) for root in roots),
        len(files), shard_size, listing_hash(names),
    )  # fmt: skip
    claim(out, manifest)
    mine = [(i, out / name) for i, name in enumerate(manifest.shard_names()) if i % share.world == share.rank]
    left = [(i, path) for i, path in mine if not path.is_file()]
    told = _Told(sum(len(manifest.part(i)) for i, _ in left), progress)
    skipped: dict[Path, str] = {}
    for i, path in left:
        part = manifest.part(i)
        skipped |= _write(path, [files[j][1] for j in part], [names[j] for j in part], encoder, told)
    return WrittenShards(
        told.done - len(skipped), skipped, len(left), len(mine) - len(left), len(manifest.shard_names())
    )


def _below(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


class _Told:
    """Progress of one shard after the other, as of one embedding."""

    def __init__(self, total: int, progress: Callable[[EmbedProgress], None] | None):
        self.total, self.done, self.n_skipped, self._progress = total, 0, 0, progress

    def __call__(self, part: EmbedProgress) -> None:
        if self._progress:
            n_skipped = self.n_skipped + part.n_skipped
            self._progress(EmbedProgress(self.done + part.done, self.total, part.n_cached, n_skipped))

    def add(self, n_files: int, n_skipped: int) -> None:
        self.done, self.n_skipped = self.done + n_files, self.n_skipped + n_skipped


def _write(path: Path, files: Sequence[Path], names: Sequence[bytes], encoder: Encoder, told: _Told) -> dict[Path, str]:
    """One shard; the files that were skipped."""
    seen = [seen_file(file) for file in files]  # before: a file that changes meanwhile is then not found again
    embedded = embed_files(files, encoder, cache=False, progress=told)
    save_shard(path, embedded.features, embedded.kept, names, seen, embedded.skipped)
    told.add(len(files), len(embedded.skipped))
    return {files[i]: reason for i, reason in embedded.skipped.items()}


def save_shard(
    path: Path,
    features: Features,
    kept: NDArray[np.int64],
    names: Sequence[bytes],
    seen: Sequence[SeenFile],
    skipped: Mapping[int, str],
) -> None:
    """A shard, whole or not at all: features[i] is of the file names[kept[i]]."""
    used = [seen[i] for i in kept.tolist()]
    tensors = {
        "features": np.ascontiguousarray(features, np.float32),
        "rows": np.asarray(kept, np.int64),
        "sizes": np.array([size for size, _, _ in used], np.int64),
        "times": np.array([time for _, time, _ in used], np.int64),
        "hashes": np.frombuffer(b"".join(digest for _, _, digest in used), np.uint8).reshape(-1, 32).copy(),
        "names": np.frombuffer(b"\0".join(names), np.uint8).copy(),
    }
    problems = {str(i): reason for i, reason in skipped.items()}
    write_atomically(path, save(tensors, metadata={"skipped": json.dumps(problems)}))


def seen_file(file: Path) -> SeenFile:
    """Size, time of change in ns, and sha256; of a file that cannot be read what no file has."""
    try:
        state = file.stat()
        return state.st_size, state.st_mtime_ns, bytes.fromhex(file_hash(file))
    except (OSError, SalaError):
        return -1, -1, bytes(32)

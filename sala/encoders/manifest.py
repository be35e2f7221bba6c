"""What a folder of shards is of: the encoder, the folders that were embedded, and how their files are shared out."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sala.atomic import write_json
from sala.data.files import read_text
from sala.errors import SalaError
from sala.text import printable

MANIFEST, FORMAT = "shards.json", 1


@dataclass(frozen=True)
class Manifest:
    """Shard i holds the files i * shard_size ... of the sorted listing; `listing` is a hash of that."""

    which: str  # how the encoder is opened again
    name: str
    identity: str
    roots: tuple[str, ...]  # the folders that were embedded, from the folder of the shards
    n_files: int
    shard_size: int
    listing: str
    format: int = FORMAT

    def shard_names(self) -> list[str]:
        return [f"shard-{i:06d}.safetensors" for i in range(math.ceil(self.n_files / self.shard_size))]

    def part(self, number: int) -> range:
        """The files of a shard, by their place in the listing."""
        return range(number * self.shard_size, min((number + 1) * self.shard_size, self.n_files))


def listing_hash(names: Sequence[bytes]) -> str:
    return hashlib.sha256(b"\0".join(names)).hexdigest()[:16]


def root_from(folder: Path, root: Path) -> str:
    """The way to a folder of images from that of the shards, so that both may be moved together."""
    try:
        return Path(os.path.relpath(os.path.realpath(root), os.path.realpath(folder))).as_posix()
    except ValueError:  # another drive
        return os.path.realpath(root)


def read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST
    shown = printable(str(path))
    try:
        content = json.loads(read_text(path))
        known = content.get("format") if isinstance(content, dict) else None
        if isinstance(known, int) and known > FORMAT:
            raise SalaError(f"{shown} is of a newer sala (format {known}); update sala")
        content["roots"] = tuple(map(str, content["roots"]))
        found = Manifest(**content)
        kinds = {"which": str, "name": str, "identity": str, "listing": str, "n_files": int, "shard_size": int}
        if not all(isinstance(getattr(found, key), kind) for key, kind in kinds.items()):
            raise ValueError("a value is of another kind")
        if not 0 <= found.n_files < 1 << 40 or found.shard_size < 1 or found.n_files / found.shard_size > 1 << 20:
            raise ValueError("numbers of files")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SalaError(f"{shown} is damaged ({error}); delete the folder, and embed it again") from None
    return found


def claim(folder: Path, wanted: Manifest) -> None:
    """Write the manifest; one that is there must say the same, so that no shard is of anything else."""
    if not (folder / MANIFEST).is_file():
        write_json(folder / MANIFEST, asdict(wanted))
        return
    there = read_manifest(folder)
    if there == wanted:
        return
    shown = printable(str(folder))
    if there.identity != wanted.identity:
        raise SalaError(f"{shown} has features of the encoder {there.name}, not of {wanted.name}; choose another --out")
    if there.roots != wanted.roots or there.listing != wanted.listing:
        raise SalaError(
            f"{shown} was begun with other images ({there.n_files:,} files, now {wanted.n_files:,}); choose another --out, or "
            "delete it to begin anew"
        )
    raise SalaError(f"{shown} has shards of {there.shard_size:,} images; give --shard-size {there.shard_size}")

"""Writes an image store: all of it or nothing, whoever is killed meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np

from sala.data.store import FORMAT, ClassEntry, ImageStore, Progress, Source, content_hash
from sala.errors import SalaError
from sala.locks import is_running


def build_store(folder: Path, name: str, source: Source, progress: Progress | None = None) -> ImageStore:
    """Write `source` to `folder`, all or nothing, and open it."""
    check_classes(name, source.classes)
    try:
        with _building(folder) as building:
            classes = with_starts(source.classes)
            _write_images(building / "images.bin", classes, source, progress)
            _write_index(building, name, classes, source.image_shape)
            _publish(building, folder)
    except OSError as error:
        raise SalaError(
            f"the image store {folder} cannot be written ({error.strerror}); make room for it there, or set SALA_CACHE to "
            "another folder"
        ) from None
    return ImageStore(folder)


def check_classes(name: str, classes: list[ClassEntry]) -> None:
    for entry in classes:
        if entry.count < 2:
            raise SalaError(
                f"class {entry.name!r} of {name} has {entry.count} image{'s' * (entry.count != 1)} and needs two at least; "
                "add some or remove it"
            )
    if not classes:
        raise SalaError(f"{name} has no classes in it; get a fresh copy of its files")


@contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """A temporary folder beside the store's place, gone at the end unless it was renamed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned_builds(folder.parent)
    building = folder.parent / f".building-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    building.mkdir()
    try:
        yield building
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _write_index(building: Path, name: str, classes: list[ClassEntry], image_shape: tuple[int, int, int]) -> None:
    index = {
        "format": FORMAT,
        "name": name,
        "image_shape": list(image_shape),
        "content_hash": content_hash(building / "images.bin", classes, image_shape),
        "classes": [asdict(entry) for entry in classes],
    }
    (building / "index.json").write_text(json.dumps(index, indent=0), encoding="utf-8")


def _publish(building: Path, folder: Path) -> None:
    if folder.exists() and not (folder / "index.json").is_file():
        shutil.rmtree(folder)  # what is left of a store that someone took apart
    try:
        building.rename(folder)
    except OSError:
        if not (folder / "index.json").is_file():  # otherwise another process was faster with the same store
            raise


def with_starts(classes: Iterable[ClassEntry]) -> list[ClassEntry]:
    placed, start = [], 0
    for entry in classes:
        placed.append(ClassEntry(entry.name, entry.split, entry.count, start))
        start += entry.count
    return placed


def _write_images(path: Path, classes: list[ClassEntry], source: Source, progress: Progress | None) -> None:
    total = sum(entry.count for entry in classes)
    image_bytes = int(np.prod(source.image_shape))
    written = [0] * len(classes)
    with path.open("wb") as file:
        for done, (class_index, image) in enumerate(source.images):
            entry = classes[class_index]
            if image.shape != source.image_shape or image.dtype != np.uint8:
                raise SalaError(
                    f"class {entry.name!r} has an image of {image.dtype} {image.shape}, not {source.image_shape}"
                )
            if written[class_index] == entry.count:
                raise SalaError(f"class {entry.name!r} has more images than its {entry.count} labels say")
            file.seek((entry.start + written[class_index]) * image_bytes)
            file.write(np.ascontiguousarray(image).data)
            written[class_index] += 1
            if progress and (done % 64 == 0 or done == total - 1):
                progress(done + 1, total)
        file.flush()
        os.fsync(file.fileno())
    for entry, count in zip(classes, written, strict=True):
        if count != entry.count:
            raise SalaError(f"class {entry.name!r} has {count} images where its labels say {entry.count}")


def _remove_abandoned_builds(parent: Path) -> None:
    """A build that was killed leaves its temporary folder; the next build clears it away."""
    for folder in parent.glob(".building-*"):
        pid = folder.name.split("-")[1]
        if pid.isdigit() and not is_running(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)

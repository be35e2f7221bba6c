"""The image store: what every dataset becomes. uint8 images in one memory-mapped file, and an index of classes.

A store is a folder with `images.bin` (all images of class 0, then class 1, ...) and `index.json`. It is written under a
temporary name and renamed when complete, so a store that can be seen is whole.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sala.errors import SalaError

SPLITS = ("train", "val", "test")
FORMAT = 1
Progress = Callable[[int, int], None]  # done, total


@dataclass(frozen=True)
class ClassEntry:
    """One class of a store: its images are the rows `start .. start + count` of the image file."""

    name: str
    split: str
    count: int
    start: int = 0


@dataclass(frozen=True)
class Source:
    """What a loader hands over: the classes with their sizes, then the images in any order, each with its class."""

    classes: list[ClassEntry]
    images: Iterator[tuple[int, NDArray[np.uint8]]]  # (class index, [height, width, channels])
    image_shape: tuple[int, int, int]


class ImageStore:
    """A dataset on disk, opened read-only; many processes may share it.

    Parameters
    ----------
    folder : Path or str
        A folder that `sala.load_dataset` has built.

    Attributes
    ----------
    name : str
        The dataset.
    images : ndarray
        All images, uint8 `[n, H, W, C]`, mapped from the file: only what is read is loaded.
    image_shape : tuple of int
        `(H, W, C)`.
    classes : list of ClassEntry
        Name, split, first row and number of images of each class.
    content_hash : str
        sha256 of images, shape and classes: stores with the same hash are the same data.

    Raises
    ------
    SalaError
        If the folder holds no store, a damaged one, or one of another version.

    Examples
    --------
    >>> import sala
    >>> store = sala.load_dataset("glyphs")
    >>> images = sala.ImageStore(store.folder).images
    >>> images.dtype, images.shape[1:]
    (dtype('uint8'), (28, 28, 1))
    """

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        index = _read_index(self.folder)
        try:
            self.name: str = index["name"]
            self.content_hash: str = index["content_hash"]
            self.image_shape: tuple[int, int, int] = tuple(index["image_shape"])
            self.classes = [ClassEntry(**entry) for entry in index["classes"]]
            self.images: NDArray[np.uint8] = _map_images(self.folder / "images.bin", self.classes, self.image_shape)
        except (OSError, KeyError, TypeError, ValueError):
            raise SalaError(
                f"the image store {self.folder} is damaged; delete that folder and prepare the dataset again"
            ) from None

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"ImageStore({self.name!r}, {len(self.classes)} classes, {len(self)} images of {self.image_shape})"

    def split(self, name: str) -> list[ClassEntry]:
        """The classes of one split, in the order of the store."""
        if name not in SPLITS:
            raise SalaError(f"a split is one of {', '.join(SPLITS)}; got {name!r}")
        return self._by_split[name]

    @cached_property
    def _by_split(self) -> dict[str, list[ClassEntry]]:
        return {name: [entry for entry in self.classes if entry.split == name] for name in SPLITS}

    def verify(self) -> bool:
        """Read every byte again and compare with the hash that was taken when the store was built."""
        return content_hash(self.folder / "images.bin", self.classes, self.image_shape) == self.content_hash


def _map_images(path: Path, classes: list[ClassEntry], image_shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    shape = (sum(entry.count for entry in classes), *image_shape)
    if path.stat().st_size != math.prod(shape):
        raise ValueError("the file does not have the size that the index says")
    return np.memmap(path, dtype=np.uint8, mode="r", shape=shape)


def _read_index(folder: Path) -> dict[str, Any]:
    try:
        index: dict[str, Any] = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        format_of_index = index.get("format")
    except FileNotFoundError:
        raise SalaError(f"{folder} is not an image store (it has no index.json); prepare the dataset again") from None
    except OSError as error:
        raise SalaError(f"{folder}/index.json cannot be read ({error.strerror}); allow this user to read it") from None
    except (ValueError, AttributeError, RecursionError):
        raise SalaError(f"{folder}/index.json is damaged; delete that folder and prepare the dataset again") from None
    if format_of_index != FORMAT:
        raise SalaError(f"{folder} was made by another version of sala; delete it and prepare the dataset again")
    return index


def build_store(folder: Path, name: str, source: Source, progress: Progress | None = None) -> ImageStore:
    """Write `source` to `folder`, all or nothing, and open it."""
    _check_classes(name, source.classes)
    try:
        with _building(folder) as building:
            classes = _with_starts(source.classes)
            _write_images(building / "images.bin", classes, source, progress)
            _write_index(building, name, classes, source.image_shape)
            _publish(building, folder)
    except OSError as error:
        raise SalaError(
            f"the image store {folder} cannot be written ({error.strerror}); make room for it there, or set SALA_CACHE to "
            "another folder"
        ) from None
    return ImageStore(folder)


def _check_classes(name: str, classes: list[ClassEntry]) -> None:
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


def _with_starts(classes: Iterable[ClassEntry]) -> list[ClassEntry]:
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


def content_hash(path: Path, classes: list[ClassEntry], image_shape: tuple[int, int, int]) -> str:
    """sha256 of the images, their shape and the class index: two stores with the same hash are the same data."""
    digest = hashlib.sha256(json.dumps([list(image_shape), [asdict(entry) for entry in classes]]).encode())
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _remove_abandoned_builds(parent: Path) -> None:
    """A build that was killed leaves its temporary folder; the next build clears it away."""
    for folder in parent.glob(".building-*"):
        pid = folder.name.split("-")[1]
        if os.name == "posix" and pid.isdigit() and not _is_running(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

"""The image store: what every dataset becomes. uint8 images in one memory-mapped file, and an index of classes.

A store is a folder with `images.bin` (all images of class 0, then class 1, ...) and `index.json`. It is written under a
temporary name and renamed when complete, so a store that can be seen is whole.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sala.errors import SalaError

if TYPE_CHECKING:
    from sala.data.features import FeatureStore

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
    """A dataset on disk, opened read-only; many processes may share it. `from_arrays` and `from_dataset` make one in memory.

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
        self.folder: Path | None = Path(folder)
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

    @classmethod
    def from_arrays(
        cls,
        images: Any,
        labels: Any,
        *,
        split: str | Mapping[Any, str] | None = None,
        classes: Sequence[str] | None = None,
        name: str = "arrays",
        split_seed: int = 0,
    ) -> ImageStore:
        """A store of images in memory.

        Parameters
        ----------
        images : array_like
            An array or tensor `[n, H, W, C]`, `[n, C, H, W]` or `[n, H, W]` (gray) of uint8 or of floats in [0, 1], or a list
            of such images or of Pillow's.
        labels : array_like
            The class of each image: whole numbers or names.
        split : str or mapping, optional
            "train", "val" or "test" for all classes, or one of them by class. By default 60 % of the classes are for
            training, 20 % for validation and 20 % for the test, drawn by `split_seed`.
        classes : sequence of str, optional
            Names of the classes 0, 1, ...; by default the labels themselves.
        name : str, default "arrays"
            Of the dataset.
        split_seed : int, default 0
            Draws the split of the classes.

        Examples
        --------
        >>> import numpy as np, sala
        >>> images, labels = np.zeros((12, 28, 28), np.uint8), np.repeat(["a", "b", "c"], 4)
        >>> sala.ImageStore.from_arrays(images, labels, split={"a": "train", "b": "val", "c": "test"}).split("val")
        [ClassEntry(name='b', split='val', count=4, start=4)]
        """
        from sala.data.arrays import by_class, image_bytes  # which know the classes of this file

        pixels = image_bytes(images, name)
        grouped = by_class(labels, name, n=len(pixels), split=split, classes=classes, split_seed=split_seed)
        return cls._in_memory(name, pixels[grouped.rows], grouped.classes)

    @classmethod
    def from_dataset(
        cls, dataset: Any, *, image_size: int | None = None, progress: Progress | None = None, **options: Any
    ) -> ImageStore:
        """A store in memory of any map-style torch dataset.

        Parameters
        ----------
        dataset : torch.utils.data.Dataset
            Anything with a length whose items are pairs of an image (array, tensor or Pillow's) and its label. Class names
            are those of its attribute `classes`, where it has one.
        image_size : int, optional
            Side in pixels that the images are resized to.
        progress : callable, optional
            Called with the number of images read so far and in all.
        **options
            `split`, `classes`, `name` and `split_seed`, as of `from_arrays`.

        Examples
        --------
        >>> import torch, sala
        >>> from torch.utils.data import TensorDataset
        >>> dataset = TensorDataset(torch.rand(8, 3, 32, 32), torch.arange(8) // 4)
        >>> sala.ImageStore.from_dataset(dataset, split="test")
        ImageStore('TensorDataset', 2 classes, 8 images of (32, 32, 3))
        """
        from sala.data.arrays import read_dataset

        named: dict[str, Any] = {"name": type(dataset).__name__, "classes": getattr(dataset, "classes", None)} | options
        images, labels = read_dataset(dataset, named["name"], image_size, progress)
        return cls.from_arrays(images, labels, **named)

    @staticmethod
    def from_features(features: Any, labels: Any, **options: Any) -> FeatureStore:
        """A `FeatureStore` of ready-made features `[n, d]`; the options are those of `from_arrays`."""
        from sala.data.features import FeatureStore

        return FeatureStore.from_arrays(features, labels, **options)

    @classmethod
    def _in_memory(cls, name: str, images: NDArray[np.uint8], classes: list[ClassEntry]) -> ImageStore:
        store = cls.__new__(cls)
        store.folder, store.name, store.images, store.classes = None, name, images, classes
        store.image_shape = images.shape[1:]
        store.content_hash = _digest([np.ascontiguousarray(images).data], classes, store.image_shape)
        return store

    @property
    def item_shape(self) -> tuple[int, ...]:
        """What a backbone is built for: `image_shape`."""
        return self.image_shape

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
        if self.folder is None:
            return self._in_memory(self.name, self.images, self.classes).content_hash == self.content_hash
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


def content_hash(path: Path, classes: list[ClassEntry], image_shape: tuple[int, int, int]) -> str:
    """sha256 of the images, their shape and the class index: two stores with the same hash are the same data."""
    with path.open("rb") as file:
        return _digest(iter(lambda: file.read(1 << 20), b""), classes, image_shape)


def _digest(chunks: Iterable[bytes | memoryview], classes: list[ClassEntry], image_shape: tuple[int, int, int]) -> str:
    digest = hashlib.sha256(json.dumps([list(image_shape), [asdict(entry) for entry in classes]]).encode())
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()

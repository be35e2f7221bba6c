"""A folder of labelled images, `labelled/<class>/*.jpg`, and a folder of others: which images there are, by number.

Whoever shows or copies an image asks for it by number. A link that leads out of its folder is set aside when the folders
are listed; and since links can change, no file outside of the two is ever read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from sala.data.files import MAX_MEMBER_BYTES, open_regular, unreadable
from sala.encoders import EmbedProgress, Encoder, embed_files
from sala.encoders.base import Features
from sala.errors import SalaError
from sala.labelling.folders import checked_class, copied, first_of_content, image_files, in_two_classes, is_hidden
from sala.wording import printable


@dataclass(frozen=True)
class Item:
    """An image: in which of the folders it is, its path there, and the class that its folder gives it."""

    root: str  # "labelled" or "pool"
    path: str
    folder_class: int = -1  # of its folder, or of the labelled image that it is a copy of

    @property
    def key(self) -> str:
        """What a state on disk calls it: the same wherever the folders are moved to."""
        return f"{self.root}/{self.path}"


@dataclass(frozen=True)
class Collection:
    """The images, labelled ones first, and what could not be used, with a sentence each."""

    roots: dict[str, Path]  # resolved
    classes: tuple[str, ...]  # the folders of `labelled`, sorted
    items: tuple[Item, ...]
    set_aside: tuple[str, ...] = ()
    copies: tuple[tuple[int, ...], ...] = ()  # images of one content, the first of which counts

    def path(self, index: int) -> Path:
        item = self.items[index]
        return self.roots[item.root] / item.path

    def open(self, index: int) -> BinaryIO:
        """An image's file. It is inside the folders, whatever became of its links."""
        path = self.path(index)
        real = Path(os.path.realpath(path))
        if not is_inside(real, self.roots):
            raise SalaError(f"{printable(str(path))} leads out of its folder; put a copy of the file there")
        return open_regular(real)

    def read(self, index: int) -> bytes:
        """An image file's bytes."""
        path = self.path(index)
        with self.open(index) as file:
            try:
                content = file.read(MAX_MEMBER_BYTES + 1)
            except OSError as error:
                raise unreadable(printable(str(path)), error) from None
        if len(content) > MAX_MEMBER_BYTES:
            raise SalaError(f"{printable(str(path))} is too large for one image; remove it")
        return content


def is_inside(real: Path, roots: dict[str, Path]) -> bool:
    return any(real.is_relative_to(root) for root in roots.values())


def list_images(labelled: Path, pool: Path) -> Collection:
    """The images of both folders. A class folder without images is a class that still needs an example."""
    for folder in (labelled, pool):
        if not folder.is_dir():
            raise SalaError(f"{folder} is not a folder; give labelled/ with a folder for each class, and pool/")
    roots = {"labelled": labelled.resolve(), "pool": pool.resolve()}
    if roots["labelled"] == roots["pool"]:
        raise SalaError(f"{labelled} and {pool} are one folder; give the labelled images and the pool apart")
    set_aside: list[str] = []
    names = {  # one folder may be in the other, and what is in it is not of the other
        root: _image_names(folder, roots["pool" if root == "labelled" else "labelled"], set_aside)
        for root, folder in roots.items()
    }
    places = sorted(p for p in roots["labelled"].iterdir() if p.is_dir() and not is_hidden(p.name))
    classes = [checked_class(p.name) for p in places if not p.is_symlink() and p.resolve() != roots["pool"]]
    number = {name: i for i, name in enumerate(classes)}
    items = []
    for name in names["labelled"]:
        folder_name, slash, _ = name.partition("/")
        if not slash:
            set_aside.append(f"{printable(name)} is in no class folder of {labelled}; move it into one")
        elif folder_name in number:
            items.append(Item("labelled", name, number[folder_name]))
    items += [Item("pool", name) for name in names["pool"]]
    return Collection(roots, tuple(classes), tuple(items), tuple(set_aside))


def _image_names(root: Path, skip: Path, set_aside: list[str]) -> list[str]:
    """Relative paths; what is known to be unusable is set aside."""
    names = []
    for path, problem in image_files(root, skip=skip):
        if problem is None:
            names.append(path.relative_to(root).as_posix())
        else:
            set_aside.append(problem)
    return names


def embedded(
    collection: Collection, encoder: Encoder, progress: Callable[[EmbedProgress], None] | None = None
) -> tuple[Collection, Features]:
    """The collection without the images that cannot be read, and the features of the others, row by row. Each labelled image
    counts once: copies of it in its class are set aside too, and those in the pool have its class."""
    result = embed_files([collection.path(i) for i in range(len(collection.items))], encoder, progress=progress)
    set_aside = [*collection.set_aside, *result.set_aside.values()]
    first = first_of_content([collection.path(i) for i in result.kept])
    items: list[Item] = []
    rows: list[int] = []
    same: dict[int, list[int]] = {}
    for row, (index, original) in enumerate(zip(result.kept.tolist(), result.kept[first].tolist(), strict=True)):
        item, source = collection.items[index], collection.items[original]
        if item != source and source.root == "labelled":
            if item.root == "pool":
                item = replace(item, folder_class=source.folder_class)
            elif item.folder_class != source.folder_class:
                raise in_two_classes(collection.path(original), collection.path(index))
            else:
                set_aside.append(copied(collection.path(index), collection.path(original)))
                continue
        same.setdefault(original, []).append(len(items))
        items.append(item)
        rows.append(row)
    copies = tuple(tuple(group) for group in same.values() if len(group) > 1)
    kept = replace(collection, items=tuple(items), set_aside=tuple(set_aside), copies=copies)
    features = result.features if len(rows) == len(result.kept) else result.features[rows]
    return kept, np.ascontiguousarray(features, np.float32)

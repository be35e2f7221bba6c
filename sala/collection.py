"""A folder of labelled images, `labelled/<class>/*.jpg`, and a folder of others: which images there are, by number.

Whoever shows or copies an image asks for it by number. A file that a link leads to outside of the two folders is
set aside, both when the folders are listed and, since links can change, whenever a file is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sala.data.files import IMAGE_SUFFIXES, MAX_MEMBER_BYTES, printable, unreadable, walk
from sala.encoders import EmbedProgress, Encoder, embed_files
from sala.encoders.base import Features
from sala.errors import SalaError


@dataclass(frozen=True)
class Item:
    """An image: in which of the folders it is, its path there, and the class that its folder gives it."""

    root: str  # "labelled" or "pool"
    path: str
    folder_class: int = -1

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

    def path(self, index: int) -> Path:
        item = self.items[index]
        return self.roots[item.root] / item.path

    def read(self, index: int) -> bytes:
        """An image file's bytes. They are of a file inside the folders, whatever became of its links."""
        path = self.path(index)
        real = Path(os.path.realpath(path))
        if not is_inside(real, self.roots):
            raise SalaError(f"{printable(str(path))} leads out of its folder; put a copy of the file there")
        try:
            with real.open("rb") as file:
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
    names = {root: _image_names(folder, roots, set_aside) for root, folder in roots.items()}
    if roots["labelled"].is_relative_to(roots["pool"]):  # pool/labelled: its images are not of the pool
        inner = roots["labelled"].relative_to(roots["pool"]).as_posix() + "/"
        names["pool"] = [name for name in names["pool"] if not name.startswith(inner)]
    classes = sorted(p.name for p in roots["labelled"].iterdir() if p.is_dir() and p.resolve() != roots["pool"])
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


def _image_names(root: Path, roots: dict[str, Path], set_aside: list[str]) -> list[str]:
    """Relative paths; a hidden file is no image of the user's."""
    names = []
    for folder, files in walk(root):
        for name in files:
            path = folder / name
            if path.suffix.lower() not in IMAGE_SUFFIXES or name.startswith(".") or not path.is_file():
                continue
            if is_inside(Path(os.path.realpath(path)), roots):
                names.append(path.relative_to(root).as_posix())
            else:
                set_aside.append(f"{printable(str(path))} leads out of its folder; put a copy of the file there")
    return names


def embedded(
    collection: Collection, encoder: Encoder, progress: Callable[[EmbedProgress], None] | None = None
) -> tuple[Collection, Features]:
    """The collection without the images that cannot be read, and the features of the others, row by row."""
    result = embed_files([collection.path(i) for i in range(len(collection.items))], encoder, progress=progress)
    items = tuple(collection.items[i] for i in result.kept)
    kept = replace(collection, items=items, set_aside=(*collection.set_aside, *result.set_aside.values()))
    return kept, np.ascontiguousarray(result.features, np.float32)

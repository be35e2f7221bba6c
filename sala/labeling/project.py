"""A project: the images of a pool and the labels that are given for some, as all doors see them.

    project = open_project(Places(pool, labeled=folder))     # lists files; reads none
    images = embed_project(project, encoder)                 # ProjectFeatures: readable images, each content once counted

An image is asked for by number. A link that leads out of its folder is skipped when the folders are listed; and since links
can change, no file outside of them is ever read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sala.data.files import IMAGE_SUFFIXES, MAX_MEMBER_BYTES, open_inside, unreadable
from sala.errors import SalaError
from sala.labeling.folders import (
    OUTLIER_NAME,
    as_text,
    check_readable,
    checked_class,
    image_names,
    is_hidden,
    real_path,
)
from sala.labeling.labels_file import labels_and_predictions
from sala.labeling.places import Places
from sala.text import printable

UNLABELED, OUTLIER = -1, -2  # in place of a class


@dataclass(frozen=True)
class Item:
    """An image: in which of the folders it is, its path there, and the label that it came with."""

    root: str  # "labeled", "outliers" or "pool"
    path: str
    given: int = UNLABELED  # a class, OUTLIER or UNLABELED
    name: str = ""  # from the pool on, for an image of a labels file: its path depends on what else that file lists

    @property
    def key(self) -> str:
        """What a state on disk calls it: the same wherever the folders are moved to."""
        return f"{self.root}/{self.name or self.path}"

    @property
    def old_key(self) -> str:
        """What states of earlier versions call it."""
        return f"{self.root}/{self.path}"


@dataclass(frozen=True)
class Project:
    """Images in the order labeled, outliers, pool; and the files that were skipped, with a sentence each."""

    roots: dict[str, Path]  # as the user named them
    classes: tuple[str, ...]
    items: tuple[Item, ...]
    skipped: dict[Path, str] = field(default_factory=dict)
    copies: tuple[tuple[int, ...], ...] = ()  # images of one content, the first of which counts
    is_listed: bool = (
        False  # labeled images were named one by one, and their root is only what their paths have in common
    )
    n_predicted: int = 0  # rows of the labels file that are predictions, and so no labels

    @cached_property
    def given(self) -> NDArray[np.int64]:
        """[n]: a class, OUTLIER or UNLABELED."""
        return np.array([item.given for item in self.items], np.int64)

    @cached_property
    def is_pool(self) -> NDArray[np.bool_]:
        return np.array([item.root == "pool" for item in self.items], bool)

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """[n]: for each image the first of the same content."""
        first = np.arange(len(self.items))
        for group in self.copies:
            first[list(group)] = group[0]
        return first

    def path(self, index: int) -> Path:
        item = self.items[index]
        return self.roots[item.root] / item.path

    def files(self, indices: Sequence[int]) -> list[str]:
        """The same of many images, quickly."""
        roots = {name: os.path.join(root, "") for name, root in self.roots.items()}
        return [roots[item.root] + item.path for item in map(self.items.__getitem__, indices)]

    def open(self, index: int) -> BinaryIO:
        """An image's file. It is inside its folder, whatever became of its links."""
        return open_inside(self.path(index), self.place(index))

    def place(self, index: int) -> Path:
        """What an image's file must be in, links followed: its folder, or that very file where it was named by itself."""
        item = self.items[index]
        root = self._real_roots[item.root]
        return root / item.path if self.is_listed and item.root == "labeled" else root

    @cached_property
    def _real_roots(self) -> dict[str, Path]:
        return {name: real_path(root) for name, root in self.roots.items()}

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


def open_project(places: Places) -> Project:
    """List the images. A class folder without images is a class that still needs an example."""
    places.check()
    project = _from_file(places) if places.labeled is None else _from_folders(places, places.labeled)
    if places.outliers is None:
        return project
    names, skipped = _image_names(places.outliers)
    n_labeled = sum(item.root == "labeled" for item in project.items)
    outliers = tuple(Item("outliers", name, OUTLIER) for name in names)
    items = (*project.items[:n_labeled], *outliers, *project.items[n_labeled:])
    roots = project.roots | {"outliers": places.outliers}
    return replace(project, roots=roots, items=items, skipped=project.skipped | skipped)


def _from_folders(places: Places, labeled: Path) -> Project:
    """Class folders in `labeled`, images beside each other in the pool."""
    try:
        check_readable(labeled)
        found = sorted(path for path in labeled.iterdir() if not is_hidden(path.name))
    except OSError as error:
        raise unreadable(printable(str(labeled)), error) from None
    classes: list[str] = []
    items: list[Item] = []
    skipped: dict[Path, str] = {}
    for path in found:
        if path.is_dir() and path.is_symlink():
            skipped[path] = f"{printable(str(path))} is a link to a folder and is not followed; copy the folder"
        elif path.is_dir():
            names, problems = _image_names(path)
            items += [Item("labeled", f"{path.name}/{name}", len(classes)) for name in names]
            classes.append(checked_class(as_text(path.name)))
            skipped |= problems
        elif path.suffix.lower() in IMAGE_SUFFIXES:
            skipped[path] = f"{printable(str(path))} is in no class folder; move it into one"
    names, problems = _image_names(places.pool, skip=labeled)
    items += [Item("pool", name) for name in names]
    return Project({"labeled": labeled, "pool": places.pool}, tuple(classes), tuple(items), skipped | problems)


def _from_file(places: Places) -> Project:
    """Rows of a labels file, whose images are in the pool or elsewhere."""
    assert places.labels is not None
    names, given, n_predicted = _listed(places.labels, pool := real_path(places.pool))
    in_pool = {path.relative_to(pool).as_posix(): c for path, c in given.items() if path.is_relative_to(pool)}
    elsewhere = {path: c for path, c in given.items() if not path.is_relative_to(pool)}
    root = Path(os.path.commonpath([path.parent for path in elsewhere])) if elsewhere else places.pool
    items = [Item("labeled", path.relative_to(root).as_posix(), c, _from(pool, path)) for path, c in elsewhere.items()]
    found, skipped = _image_names(places.pool)
    items += [Item("pool", name, in_pool.pop(name, UNLABELED)) for name in found]
    for name in in_pool:  # listed, and not among the images of the pool
        path = places.pool / name
        skipped.setdefault(path, f"{printable(str(path))} has a label and is no image of the pool; look at its name")
    roots = {"labeled": root, "pool": places.pool}
    return Project(roots, tuple(names), tuple(items), skipped, is_listed=True, n_predicted=n_predicted)


def _from(pool: Path, path: Path) -> str:
    """The way to an image from the pool, such as `../more/cat.jpg`; the whole path where there is none."""
    try:
        return Path(os.path.relpath(path, pool)).as_posix()
    except ValueError:  # another drive
        return path.as_posix()


def _listed(labels: Path, pool: Path) -> tuple[list[str], dict[Path, int], int]:
    """The classes of a labels file, the label of each image, and the number of rows that are predictions. A link in the
    pool stays one: it is followed only as those are which no row names."""
    rows, n_predicted = labels_and_predictions(labels)
    names = sorted({label for _, label in rows if label.casefold() != OUTLIER_NAME})
    _check_differ(labels, names)
    number = {checked_class(name): c for c, name in enumerate(names)}
    given: dict[Path, int] = {}
    for path, label in rows:
        place = real_path(path.parent) / path.name
        c, place = number.get(label, OUTLIER), place if place.is_relative_to(pool) else real_path(path)
        if (other := given.setdefault(place, c)) != c:
            both = " and ".join(repr(OUTLIER_NAME if i == OUTLIER else printable(names[i])) for i in (other, c))
            raise SalaError(
                f"{printable(str(labels))} gives {printable(str(path))} two labels, {both}; keep the row that is right"
            )
    return names, given, n_predicted


def _check_differ(labels: Path, names: Sequence[str]) -> None:
    """Two spellings are two classes only by mistake, and would share a folder on many systems."""
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.casefold(), name)) != name:
            raise SalaError(
                f"{printable(str(labels))} has labels that differ in upper and lower case alone, {printable(other)!r} and "
                f"{printable(name)!r}; spell them alike"
            )


def _image_names(root: Path, skip: Path | None = None) -> tuple[list[str], dict[Path, str]]:
    """Relative paths of the images, and what is known to be unusable."""
    names, skipped = [], {}
    for name, problem in image_names(root, skip=skip):
        if problem is None:
            names.append(name)
        else:
            skipped[root / name] = problem
    return names, skipped

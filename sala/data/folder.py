"""Anyone's images: a tree `class_name/*.jpg` (or a zip of it). Also what the class-folder layouts of others share."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from sala.data.files import IMAGE_SUFFIXES, Tree, read_csv
from sala.data.images import decode
from sala.data.store import SPLITS, ClassEntry, Source
from sala.errors import SalaError

SHARES = {"train": 0.6, "val": 0.2, "test": 0.2}  # of the classes, where nothing else says how to split them
SYNSET = re.compile(r"n\d{8}")
Members = dict[str, list[str]]  # class -> its files


def read_folder(root: Path, image_size: int, *, split_file: str | None = None, split_seed: int = 0) -> Source:
    """Classes are the folders that hold images. Their split: by a list (`split_file`, lines of class,split), else by
    folders train/ val/ test/ above them, else drawn by `split_seed`."""
    tree = Tree(root)
    members = class_folders(tree)
    if split_file is not None:
        splits = _listed_splits(Path(split_file), members)
    elif all(PurePosixPath(name).parts[0] in SPLITS for name in members):
        splits = {name: PurePosixPath(name).parts[0] for name in members}
        check_disjoint(((str(PurePosixPath(*PurePosixPath(name).parts[1:])), splits[name]) for name in members), root)
    else:
        splits = drawn_splits(sorted(members), split_seed, root)
    return read_class_files(tree, members, splits, image_size)


def read_class_files(tree: Tree, members: Members, splits: Mapping[str, str], image_size: int) -> Source:
    """A source of RGB images from lists of files."""
    order = sorted(members, key=lambda name: (SPLITS.index(splits[name]), name))
    classes = [ClassEntry(name, splits[name], len(members[name])) for name in order]
    files = [members[name] for name in order]
    return Source(classes, _images(tree, files, image_size), (image_size, image_size, 3))


def _images(tree: Tree, files: list[list[str]], image_size: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    for index, names in enumerate(files):
        for name in names:
            yield index, decode(tree.read(name), tree.where(name), image_size=image_size, mode="RGB")


def is_image(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in IMAGE_SUFFIXES and not _is_hidden(path)


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in path.parts)


def class_folders(tree: Tree) -> Members:
    """Class name (path below the folder that holds all classes) -> its image files."""
    by_folder: Members = defaultdict(list)
    for name in tree.files():
        if is_image(name):
            by_folder[str(PurePosixPath(name).parent)].append(name)
    if "." in by_folder:
        raise SalaError(
            f"{tree.path} holds images outside class folders ({by_folder['.'][0]}); put each in class_name/"
        )
    if not by_folder:
        raise SalaError(f"{tree.path} holds no images; it should be a tree of class_name/image.jpg")
    _check_no_empty(tree, by_folder)
    top = os.path.commonpath([str(PurePosixPath(folder).parent) for folder in by_folder])
    members = {str(PurePosixPath(folder).relative_to(top or ".")): files for folder, files in by_folder.items()}
    for name, files in members.items():
        if len(files) < 2:
            raise SalaError(
                f"class {name!r} in {tree.path} has one image and needs two at least; add some or remove it"
            )
    return members


def _check_no_empty(tree: Tree, by_folder: Members) -> None:
    folders = {f for f in tree.folders() if not _is_hidden(PurePosixPath(f))}
    inner = {str(parent) for f in folders for parent in PurePosixPath(f).parents}
    for folder in sorted(folders - inner):
        if folder not in by_folder:
            raise SalaError(f"the class folder {folder} in {tree.path} has no images; add some or remove the folder")


def synset_files(tree: Tree, splits: Mapping[str, str], *, below: str | None = None, complete: bool = True) -> Members:
    """The images of each listed synset: those with a folder of that name (n01234567) above them."""
    members: Members = defaultdict(list)
    for name in tree.files():
        parts = PurePosixPath(name).parts[:-1]
        synset = next((part for part in reversed(parts) if SYNSET.fullmatch(part)), None)
        if synset in splits and is_image(name) and (below is None or below in parts):
            members[str(synset)].append(name)
    if not members:
        raise SalaError(f"{tree.path} holds none of the layouts of this dataset; `sala data prepare --help` lists them")
    missing = sorted(set(splits) - set(members))
    if complete and missing:
        raise SalaError(
            f"{tree.path} lacks {len(missing)} of {len(splits)} class folders, for example {missing[0]}; add them"
        )
    return members


def check_disjoint(pairs: Iterable[tuple[str, str]], where: Path) -> None:
    """Of (class, split): no class may be in two splits."""
    splits: dict[str, str] = {}
    for name, split in pairs:
        if splits.setdefault(name, split) != split:
            raise SalaError(
                f"{where} has the class {name!r} in {splits[name]} and in {split}; few-shot splits divide the classes, not "
                "the images of a class: keep each class in one of them"
            )


def drawn_splits(names: list[str], seed: int, where: Path | str) -> dict[str, str]:
    """Each class to a split, 60 / 20 / 20, by the seed."""
    if len(names) < len(SPLITS):
        raise SalaError(
            f"{where} has {len(names)} class folder{'s' * (len(names) > 1)}, and train, val and test need one each at "
            "least; add classes"
        )
    if seed < 0:
        raise SalaError(f"a split seed must be at least 0; got {seed}")
    order = np.random.default_rng(seed).permutation(len(names))
    n_val, n_test = (max(1, round(SHARES[split] * len(names))) for split in ("val", "test"))
    assigned = ["test"] * n_test + ["val"] * n_val + ["train"] * len(names)
    return {names[i]: assigned[rank] for rank, i in enumerate(order)}


def _listed_splits(path: Path, members: Members) -> dict[str, str]:
    splits = {}
    for row in read_csv(path):
        if row == ["class", "split"]:
            continue
        if len(row) != 2 or row[1] not in SPLITS:
            raise SalaError(
                f"{path}: each line is class,split with a split of {', '.join(SPLITS)}; correct {','.join(row)!r}"
            )
        splits[row[0]] = row[1]
    for name in members:
        if name not in splits:
            raise SalaError(f"{path} does not list the class {name!r}; add a line {name},train (or val, or test)")
    return splits

"""miniImageNet: 100 ImageNet classes of 600 images at 84 x 84, split 64 / 16 / 20 (Ravi and Larochelle, 2017).

Three layouts are in circulation: (a) cache pickles, `mini-imagenet-cache-{train,val,test}.pkl`, holding `image_data` and
`class_dict`; (b) a folder of JPEGs with `train.csv`, `val.csv`, `test.csv` (filename,label); (c) class folders.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sala.data.files import Tree, read_csv
from sala.data.folder import check_disjoint, read_class_files, synset_files
from sala.data.images import decode, resize
from sala.data.pickles import load_pickle, text_keys
from sala.data.splits import miniimagenet_splits
from sala.data.store import SPLITS, ClassEntry, Source
from sala.errors import SalaError

Members = dict[str, list[str]]  # class -> file names


def read_miniimagenet(root: Path, image_size: int) -> Source:
    """From whichever of the three layouts `root` holds."""
    if any((root / _cache_name(split)).exists() for split in SPLITS):
        return _read_caches(root, image_size)
    if any((root / f"{split}.csv").exists() for split in SPLITS):
        return _read_csv(root, image_size)
    tree = Tree(root)
    return read_class_files(tree, synset_files(tree, miniimagenet_splits()), miniimagenet_splits(), image_size)


def _cache_name(split: str) -> str:
    return f"mini-imagenet-cache-{split}.pkl"


# (a) cache pickles


def _read_caches(root: Path, image_size: int) -> Source:
    paths = [(split, root / _cache_name(split)) for split in SPLITS]
    for _, path in paths:
        if not path.is_file():
            raise SalaError(f"{path} is missing; all three of {', '.join(_cache_name(s) for s in SPLITS)} are needed")
    classes = [
        ClassEntry(name, split, len(rows)) for split, path in paths for name, rows in _open_cache(path)[1].items()
    ]
    check_disjoint(((entry.name, entry.split) for entry in classes), root)
    return Source(classes, _cache_images([path for _, path in paths], image_size), (image_size, image_size, 3))


def _open_cache(path: Path) -> tuple[NDArray[np.uint8], dict[str, list[int]]]:
    content = text_keys(load_pickle(path), path, required=("image_data", "class_dict"))
    images = content["image_data"]
    if not isinstance(images, np.ndarray):
        raise SalaError(f"{path}: image_data should be one array, not {type(images).__name__}; download the file again")
    if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != np.uint8 or 0 in images.shape:
        raise SalaError(
            f"{path}: image_data should be bytes of shape [n, height, width, 3], not {images.dtype} {images.shape}; "
            "download the file again"
        )
    return np.asarray(images), _class_rows(content["class_dict"], len(images), path)


def _class_rows(class_dict: Any, n_images: int, path: Path) -> dict[str, list[int]]:
    """class_dict with its promises checked: a class is a list of whole numbers, each the place of an image."""
    if not isinstance(class_dict, dict):
        raise SalaError(f"{path}: class_dict should map a class to its image numbers; download the file again")
    rows = {}
    for name, numbers in sorted(text_keys(class_dict, path).items(), key=itemgetter(0)):
        if not _are_places(numbers, n_images):
            raise SalaError(
                f"{path}: class {name!r} should list whole numbers below {n_images}, the number of images; download the "
                "file again"
            )
        rows[name] = [int(number) for number in numbers]
    return rows


def _are_places(numbers: Any, n_images: int) -> bool:
    """One sequence of whole numbers from 0 to n_images - 1, no longer than there are images."""
    is_sequence = numbers.ndim == 1 if isinstance(numbers, np.ndarray) else isinstance(numbers, list | tuple | range)
    return (
        is_sequence
        and len(numbers) <= n_images
        and all(isinstance(i, int | np.integer) and 0 <= i < n_images for i in numbers)
    )


def _cache_images(paths: list[Path], image_size: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    index = 0
    for path in paths:  # one file in memory at a time
        images, classes = _open_cache(path)
        for rows in classes.values():
            for row in rows:
                yield index, resize(Image.fromarray(images[row]), image_size)
            index += 1


# (b) JPEGs and CSV lists


def _read_csv(root: Path, image_size: int) -> Source:
    listed = {split: _listed_files(root / f"{split}.csv") for split in SPLITS}
    check_disjoint(((name, split) for split, members in listed.items() for name in members), root)
    folder = root / "images" if (root / "images").is_dir() else root
    classes = [
        ClassEntry(name, split, len(names)) for split, members in listed.items() for name, names in members.items()
    ]
    files = [names for members in listed.values() for names in members.values()]
    return Source(classes, _csv_images(Tree(folder), files, image_size), (image_size, image_size, 3))


def _listed_files(path: Path) -> Members:
    if not path.is_file():
        raise SalaError(f"{path} is missing; the JPEG layout needs train.csv, val.csv and test.csv (filename,label)")
    header, *rows = read_csv(path) or [[]]
    if not {"filename", "label"} <= set(header):
        raise SalaError(f"{path} should begin with the line filename,label; add it, or get a fresh copy of the list")
    members: Members = defaultdict(list)
    for row in rows:
        cells = dict(zip(header, row, strict=False))
        if not cells.get("filename") or not cells.get("label"):
            raise SalaError(f"{path} has the line {','.join(row)!r}, which lacks a filename or a label; complete it")
        members[cells["label"]].append(_inside(cells["filename"], path))
    return dict(sorted(members.items()))


def _inside(name: str, path: Path) -> str:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or parts[0].startswith("/"):
        raise SalaError(f"{path} names the file {name!r}, which is outside the image folder; do not use this list")
    return name


def _csv_images(tree: Tree, files: list[list[str]], image_size: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    for index, names in enumerate(files):
        for name in names:
            yield index, decode(tree.read(name), tree.where(name), image_size=image_size, mode="RGB")

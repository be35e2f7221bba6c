"""miniImageNet: 100 ImageNet classes of 600 images at 84 x 84, split 64 / 16 / 20 (Ravi and Larochelle, 2017).

Three layouts are in circulation: (a) cache pickles, `mini-imagenet-cache-{train,val,test}.pkl`, holding `image_data` and
`class_dict`; (b) a folder of JPEGs with `train.csv`, `val.csv`, `test.csv` (filename,label); (c) class folders.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sala.data.files import Tree, decode, load_pickle, resize, text, text_keys
from sala.data.folder import read_class_files, synset_files
from sala.data.splits import miniimagenet_splits
from sala.data.store import SPLITS, ClassEntry, Source
from sala.errors import SalaError

Members = dict[str, list[str]]  # class -> file names


def read_miniimagenet(root: Path, image_size: int) -> Source:
    """From whichever of the three layouts `root` holds."""
    if (root / _cache_name("train")).is_file():
        return _read_caches(root, image_size)
    if (root / "train.csv").is_file():
        return _read_csv(root, image_size)
    return read_class_files(
        Tree(root), synset_files(Tree(root), miniimagenet_splits()), miniimagenet_splits(), image_size
    )


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
    return Source(classes, _cache_images([path for _, path in paths], image_size), (image_size, image_size, 3))


def _open_cache(path: Path) -> tuple[NDArray[np.uint8], dict[str, list[int]]]:
    content = text_keys(load_pickle(path), path, required=("image_data", "class_dict"))
    images = np.asarray(content["image_data"])
    if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != np.uint8:
        raise SalaError(
            f"{path}: image_data should be bytes of shape [n, height, width, 3], not {images.dtype} {images.shape}"
        )
    if not isinstance(content["class_dict"], dict):
        raise SalaError(f"{path}: class_dict should map a class to its image numbers; download the file again")
    rows = {text(name): [int(i) for i in numbers] for name, numbers in sorted(content["class_dict"].items())}
    for name, numbers in rows.items():
        if any(not 0 <= i < len(images) for i in numbers):
            raise SalaError(f"{path}: class {name!r} points at images beyond the {len(images)} that are there")
    return images, rows


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
    folder = root / "images" if (root / "images").is_dir() else root
    classes = [
        ClassEntry(name, split, len(names)) for split, members in listed.items() for name, names in members.items()
    ]
    files = [names for members in listed.values() for names in members.values()]
    return Source(classes, _csv_images(Tree(folder), files, image_size), (image_size, image_size, 3))


def _listed_files(path: Path) -> Members:
    if not path.is_file():
        raise SalaError(f"{path} is missing; the JPEG layout needs train.csv, val.csv and test.csv (filename,label)")
    members: Members = defaultdict(list)
    with path.open(newline="", encoding="utf-8") as file:
        reader: Any = csv.DictReader(file)
        if not {"filename", "label"} <= set(reader.fieldnames or ()):
            raise SalaError(f"{path} should begin with the line filename,label")
        for row in reader:
            name = row["filename"] or ""
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name.replace("\\", "/")).parts:
                raise SalaError(
                    f"{path} names the file {name!r}, which is outside the image folder; do not use this list"
                )
            members[row["label"]].append(name)
    return dict(sorted(members.items()))


def _csv_images(tree: Tree, files: list[list[str]], image_size: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    for index, names in enumerate(files):
        for name in names:
            yield index, decode(tree.read(name), tree.where(name), image_size=image_size, mode="RGB")

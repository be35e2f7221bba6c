"""Datasets. A source (files of a known layout, or a rule for drawing images) comes in; an `ImageStore` goes out.

`load_dataset(name)` is the door: it opens the prepared store, or builds it first. One file per source; a new source is
one function `read(root, image_size) -> Source` and one row of DATASETS.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sala.cache import cache_folder
from sala.data.folder import read_folder
from sala.data.glyphs import VERSION as GLYPHS_VERSION
from sala.data.glyphs import read_glyphs
from sala.data.miniimagenet import read_miniimagenet
from sala.data.omniglot import read_omniglot
from sala.data.store import ClassEntry, ImageStore, Progress, Source, build_store
from sala.data.tieredimagenet import read_tieredimagenet
from sala.data.tiny_tiered import read_tiny_tiered
from sala.errors import SalaError

__all__ = ["DATASETS", "ClassEntry", "Dataset", "ImageStore", "load_dataset", "prepared_stores"]


@dataclass(frozen=True)
class Dataset:
    """One row of DATASETS: where a source is looked for and how it is read."""

    name: str
    summary: str
    image_size: int
    read: Callable[..., Source]  # (root, image_size, **options)
    folder: str = ""  # the sub-folder of $SALA_DATA; empty for a source that needs no files
    wants: str = ""  # what the folder should hold, for messages


DATASETS: dict[str, Dataset] = {
    row.name: row
    for row in (
        Dataset("glyphs", "built in: letters of many scripts drawn from fonts, with jitter", 28, read_glyphs),
        Dataset(
            "omniglot",
            "handwritten characters of 50 alphabets, four rotations as classes",
            28,
            read_omniglot,
            "omniglot",
            "images_background.zip and images_evaluation.zip, or the folders unpacked from them",
        ),
        Dataset(
            "miniimagenet",
            "100 ImageNet classes, 600 images each",
            84,
            read_miniimagenet,
            "miniimagenet",
            "mini-imagenet-cache-{train,val,test}.pkl, or images with train/val/test.csv, or class folders",
        ),
        Dataset(
            "tieredimagenet",
            "608 ImageNet classes in 34 categories",
            84,
            read_tieredimagenet,
            "tieredimagenet",
            "{train,val,test}_images_png.pkl (or _images.npz) with {split}_labels.pkl, or class folders",
        ),
        Dataset(
            "tiny-tiered",
            "the 123 tieredImageNet classes of Tiny ImageNet, small photographs",
            32,
            read_tiny_tiered,
            "tiny-imagenet",
            "tiny-imagenet-200.zip or the folder unpacked from it",
        ),
        Dataset(
            "folder",
            "your own images: class_name/*.jpg, or a zip of that",
            84,
            read_folder,
            "folder",
            "folders named after the classes with images in them",
        ),
    )
}


def load_dataset(
    name: str,
    root: Path | str | None = None,
    *,
    image_size: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> ImageStore:
    """The image store of a dataset, built on first use. Its files are looked for in `root`, then in `$SALA_DATA`; where
    neither has them, a store prepared earlier is taken from the cache."""
    dataset = dataset_named(name)
    size = image_size or dataset.image_size
    source_root = _source_root(dataset, root)
    if dataset.folder and source_root is None:
        stores = [store for store in prepared_stores(name) if store.image_shape[0] == size]
        if not stores:
            raise SalaError(_where_to_put(dataset))
        return stores[0]
    key = _key(dataset, source_root, size, options)
    folder = cache_folder() / "stores" / f"{name}-{size}px-{key}"
    if (folder / "index.json").is_file():
        return ImageStore(folder)
    return build_store(folder, name, dataset.read(source_root, size, **options), progress)


def dataset_named(name: str) -> Dataset:
    if name not in DATASETS:
        raise SalaError(f"there is no dataset {name!r}; the datasets are {', '.join(DATASETS)}")
    return DATASETS[name]


def prepared_stores(name: str) -> list[ImageStore]:
    """The stores of a dataset that are in the cache, the newest first."""
    folders = (cache_folder() / "stores").glob(f"{name}-*px-*/index.json")
    return [ImageStore(index.parent) for index in sorted(folders, key=lambda p: p.stat().st_mtime, reverse=True)]


def _source_root(dataset: Dataset, root: Path | str | None) -> Path | None:
    if root is not None:
        if not Path(root).exists():
            raise SalaError(f"{root} does not exist; --root wants {dataset.wants}")
        return Path(root)
    if dataset.folder and (data := os.environ.get("SALA_DATA")):
        candidate = Path(data) / dataset.folder
        return candidate if candidate.exists() else None
    return None


def _where_to_put(dataset: Dataset) -> str:
    return (
        f"{dataset.name} is not prepared yet: run `sala data prepare {dataset.name} --root PATH`, where PATH holds "
        f"{dataset.wants}"
    )


def _key(dataset: Dataset, root: Path | None, image_size: int, options: dict[str, Any]) -> str:
    """Names the store of this very source: other files, another size or other options make another store."""
    identity = {"size": image_size, "options": {k: str(v) for k, v in sorted(options.items()) if v is not None}}
    if root is None:
        identity["drawing"] = [GLYPHS_VERSION, version("matplotlib"), version("pillow")]
    else:
        identity["files"] = _fingerprint(root)
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]


def _fingerprint(root: Path) -> list[list[object]]:
    """What is there, without reading it: top-level files by size and time, folders by time and number of entries."""
    if root.is_file():
        return [[str(root.resolve()), root.stat().st_size, root.stat().st_mtime_ns]]
    found: list[list[object]] = [[str(root.resolve())]]
    for folder, subfolders, files in os.walk(root):
        subfolders.sort()
        found.append([os.path.relpath(folder, root), os.stat(folder).st_mtime_ns, len(files)])
        if Path(folder) == root:
            found += [[f, (root / f).stat().st_size, (root / f).stat().st_mtime_ns] for f in sorted(files)]
    return found

"""The table of datasets and the door to them: `load_dataset` opens a prepared store, or builds it first.

One file per source; a new source is one function `read(root, image_size) -> Source` and one row of DATASETS.

>>> list(DATASETS)
['glyphs', 'omniglot', 'miniimagenet', 'tieredimagenet', 'tiny-tiered', 'folder']
>>> DATASETS["glyphs"].summary
'built in: letters of many scripts drawn from fonts, with jitter'
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sala.cache import cache_folder
from sala.data.build import build_store
from sala.data.files import read_bounded, unreadable, walk
from sala.data.folder import read_folder
from sala.data.glyphs import VERSION as GLYPHS_VERSION
from sala.data.glyphs import read_glyphs
from sala.data.miniimagenet import read_miniimagenet
from sala.data.omniglot import read_omniglot
from sala.data.store import ImageStore, Progress, Source
from sala.data.tieredimagenet import read_tieredimagenet
from sala.data.tiny_tiered import read_tiny_tiered
from sala.errors import SalaError

SIZES = range(8, 1025)  # of images, in pixels


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


class NotPrepared(SalaError):
    """The files of a dataset are not at hand, and no store was made of them; the message says how to get there."""


def load_dataset(
    name: str,
    root: Path | str | None = None,
    *,
    image_size: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> ImageStore:
    """The image store of a dataset, built on first use and kept in the cache.

    Parameters
    ----------
    name : str
        A name of `sala.DATASETS`.
    root : Path or str, optional
        Where its files are; `$SALA_DATA/<dataset>` by default. If neither is there, a store prepared earlier is used.
    image_size : int, optional
        Width and height in pixels, 8 to 1024; the dataset's own by default.
    progress : callable, optional
        Called with the number of images written so far and in all.
    **options
        Further options of the source: `split_file` and `split_seed` of "folder".

    Returns
    -------
    ImageStore
        Images and classes, split into train, val and test classes.

    Examples
    --------
    >>> import sala
    >>> store = sala.load_dataset("glyphs")
    >>> store.name, store.image_shape, len(store.split("test")) > 100
    ('glyphs', (28, 28, 1), True)
    """
    dataset = dataset_named(name)
    _check_options(dataset, options)
    try:
        return _open_or_build(dataset, root, _checked_size(dataset, image_size), options, progress)
    except OSError as error:
        raise unreadable(error.filename or root, error) from None


def _open_or_build(
    dataset: Dataset, root: Path | str | None, size: int, options: dict[str, Any], progress: Progress | None
) -> ImageStore:
    source_root = _source_root(dataset, root)
    if dataset.folder and source_root is None:
        return _newest_store(dataset, size)
    folder = cache_folder() / "stores" / f"{dataset.name}-{size}px-{_key(dataset, source_root, size, options)}"
    if (folder / "index.json").is_file():
        return ImageStore(folder)
    return build_store(folder, dataset.name, dataset.read(source_root, size, **options), progress)


def _checked_size(dataset: Dataset, image_size: int | None) -> int:
    size = dataset.image_size if image_size is None else image_size
    if not SIZES[0] <= size <= SIZES[-1]:
        raise SalaError(f"images are {SIZES[0]} to {SIZES[-1]} pixels wide; got an image size of {size}")
    return size


def _check_options(dataset: Dataset, options: dict[str, Any]) -> None:
    options_of = list(inspect.signature(dataset.read).parameters)[2:]
    for name in options:
        if name not in options_of:
            raise SalaError(f"{dataset.name} has no option {name}; leave it out")


def _newest_store(dataset: Dataset, image_size: int) -> ImageStore:
    for store in prepared_stores(dataset.name):
        if store.image_shape[0] == image_size:
            return store
    raise NotPrepared(_where_to_put(dataset))


def dataset_named(name: str) -> Dataset:
    """The row of DATASETS with this name; a SalaError that lists the names if there is none."""
    if name not in DATASETS:
        raise SalaError(f"there is no dataset {name!r}; the datasets are {', '.join(DATASETS)}")
    return DATASETS[name]


def prepared_stores(name: str) -> list[ImageStore]:
    """The stores of a dataset that are in the cache and can be opened, the newest first."""
    indexes = (cache_folder() / "stores").glob(f"{name}-*px-*/index.json")
    newest_first = sorted(indexes, key=lambda path: path.stat().st_mtime, reverse=True)
    stores = []
    for index in newest_first:
        with suppress(SalaError):  # a damaged one is named when it is asked for
            stores.append(ImageStore(index.parent))
    return stores


def _source_root(dataset: Dataset, root: Path | str | None) -> Path | None:
    if root is not None:
        if not dataset.folder:
            raise SalaError(f"{dataset.name} is built in and reads no files; leave --root out")
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
    identity = {"size": image_size, "options": _settled(options)}
    if root is None:
        identity["drawing"] = [GLYPHS_VERSION, version("matplotlib"), version("pillow")]
    else:
        identity["files"] = _fingerprint(root, every_file=dataset.read is read_folder)
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:12]


def _settled(options: dict[str, Any]) -> dict[str, str]:
    """Options by value; a file by its name and content, so that an edited list makes another store."""
    settled = {key: str(value) for key, value in sorted(options.items()) if value is not None}
    if "split_file" in settled:
        settled["split_list"] = hashlib.sha256(read_bounded(Path(settled["split_file"]))).hexdigest()
    return settled


def _fingerprint(root: Path, *, every_file: bool) -> list[list[object]]:
    """What is there, without reading it: folders by time and number of files, files by size and time; below the top,
    files only where asked for, since those of the public datasets do not change and are many."""
    if not root.is_dir():
        return [[str(root.resolve()), *_size_and_time(root)]]
    found: list[list[object]] = [[str(root.resolve())]]
    for folder, files in walk(root):
        found.append([os.path.relpath(folder, root), folder.stat().st_mtime_ns, len(files)])
        if every_file or folder == root:
            found += [[name, *_size_and_time(folder / name)] for name in files]
    return found


def _size_and_time(path: Path) -> tuple[int, int]:
    stat = path.stat() if path.exists() else path.lstat()  # a link may be dead
    return stat.st_size, stat.st_mtime_ns

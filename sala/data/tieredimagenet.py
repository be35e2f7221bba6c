"""tieredImageNet: 608 ImageNet classes in 34 categories at 84 x 84, split 351 / 97 / 160 by category (Ren et al., 2018).

Layouts: (a) `{train,val,test}_images_png.pkl`, a list of encoded PNGs, with `{split}_labels.pkl`; (b) `{split}_images.npz`
(key `images`) with the same labels; (c) class folders. None is ever decoded as a whole: images pass one by one.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sala.data.files import Tree, decode, load_pickle, resize, text, text_keys
from sala.data.folder import read_class_files, synset_files
from sala.data.splits import tieredimagenet_splits
from sala.data.store import SPLITS, ClassEntry, Source
from sala.errors import SalaError


def read_tieredimagenet(root: Path, image_size: int) -> Source:
    """From whichever of the three layouts `root` holds."""
    if (root / "train_labels.pkl").is_file():
        return _read_labelled_files(root, image_size)
    splits = tieredimagenet_splits()
    return read_class_files(Tree(root), synset_files(Tree(root), splits), splits, image_size)


def _read_labelled_files(root: Path, image_size: int) -> Source:
    classes: list[ClassEntry] = []
    of_image: list[NDArray[np.int64]] = []  # for each split, the class index of each image
    for split in SPLITS:
        names, labels = _labels(root / f"{split}_labels.pkl")
        values, dense = np.unique(labels, return_inverse=True)
        of_image.append(len(classes) + dense)
        counts = np.bincount(dense, minlength=len(values))
        classes += [ClassEntry(names.get(int(v), str(v)), split, int(n)) for v, n in zip(values, counts, strict=True)]
    return Source(classes, _images(root, of_image, image_size), (image_size, image_size, 3))


def _labels(path: Path) -> tuple[dict[int, str], NDArray[np.int64]]:
    if not path.is_file():
        raise SalaError(f"{path} is missing; tieredImageNet needs labels for train, val and test")
    content = text_keys(load_pickle(path), path, required=("label_specific",))
    labels = np.asarray(content["label_specific"])
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise SalaError(
            f"{path}: label_specific should be a list of whole numbers, one an image; download the file again"
        )
    names = {i: text(name) for i, name in enumerate(content.get("label_specific_str", ()))}
    return names, labels.astype(np.int64)


def _images(root: Path, of_image: list[NDArray[np.int64]], size: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    for split, class_of in zip(SPLITS, of_image, strict=True):
        n_images = 0
        for image in _images_of_split(root, split, size):
            if n_images == len(class_of):
                raise SalaError(f"{root} has more {split} images than the {len(class_of)} labels of {split}_labels.pkl")
            yield int(class_of[n_images]), image
            n_images += 1
        if n_images < len(class_of):
            raise SalaError(
                f"{root} has {n_images} {split} images and {len(class_of)} labels for them; download both again"
            )


def _images_of_split(root: Path, split: str, size: int) -> Iterator[NDArray[np.uint8]]:
    if (path := root / f"{split}_images_png.pkl").is_file():
        for i, png in enumerate(load_pickle(path)):
            content = png if isinstance(png, bytes) else np.asarray(png, dtype=np.uint8).tobytes()
            yield decode(content, f"image {i} of {path}", image_size=size, mode="RGB")
    elif (path := root / f"{split}_images.npz").is_file():
        for array in stream_npz(path, "images"):
            yield resize(Image.fromarray(array), size)
    else:
        raise SalaError(f"{root} has neither {split}_images_png.pkl nor {split}_images.npz; put one of them there")


def stream_npz(path: Path, key: str) -> Iterator[NDArray[np.uint8]]:
    """The images of an array [n, height, width, 3] inside an npz, one after the other, never all at once."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as file:
            major, _ = np.lib.format.read_magic(file)
            read_header = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read_header(file)
            if dtype != np.uint8 or len(shape) != 4 or fortran:
                raise SalaError(f"{path}: {key} should be bytes of shape [n, height, width, 3], not {dtype} {shape}")
            size = int(np.prod(shape[1:]))
            for _i in range(shape[0]):
                content = file.read(size)
                if len(content) < size:
                    raise SalaError(f"{path} ends before its {shape[0]} images do; download it again")
                yield np.frombuffer(content, np.uint8).reshape(shape[1:])
    except KeyError:
        raise SalaError(f"{path} has no array {key!r} in it; it is not the file its name says") from None
    except (zipfile.BadZipFile, ValueError, EOFError, OSError) as error:
        raise SalaError(f"{path} is not a readable npz file ({error}); download it again") from None

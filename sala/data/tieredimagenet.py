"""tieredImageNet: 608 ImageNet classes in 34 categories at 84 x 84, split 351 / 97 / 160 by category (Ren et al., 2018).

Layouts: (a) `{train,val,test}_images_png.pkl`, a list of encoded PNGs, with `{split}_labels.pkl`; (b) `{split}_images.npz`
(key `images`) with the same labels; (c) class folders. None is ever decoded as a whole: images pass one by one.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sala.data.files import Tree, unreadable
from sala.data.folder import read_class_files, synset_files
from sala.data.images import MAX_PIXELS, decode, resize
from sala.data.pickles import load_pickle, text, text_keys
from sala.data.splits import tieredimagenet_splits
from sala.data.store import SPLITS, ClassEntry, Source
from sala.errors import SalaError

FILES = ("labels.pkl", "images_png.pkl", "images.npz")  # of each split, in the layouts with labels


def read_tieredimagenet(root: Path, image_size: int) -> Source:
    """From whichever of the three layouts `root` holds."""
    if any((root / f"{split}_{what}").exists() for split in SPLITS for what in FILES):
        return _read_labeled_files(root, image_size)
    tree, splits = Tree(root), tieredimagenet_splits()
    return read_class_files(tree, synset_files(tree, splits), splits, image_size)


def _read_labeled_files(root: Path, image_size: int) -> Source:
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
        raise SalaError(f"{path} is missing; tieredImageNet needs labels for train, val and test: put it there")
    content = text_keys(load_pickle(path), path, required=("label_specific",))
    labels, names = content["label_specific"], content.get("label_specific_str", [])
    if not _are_whole_numbers(labels):
        raise SalaError(f"{path}: label_specific should be a list of whole numbers; download the file again")
    if not isinstance(names, list | tuple | np.ndarray):
        raise SalaError(f"{path}: label_specific_str should be a list of names; download the file again")
    return {i: text(name) for i, name in enumerate(names)}, np.asarray(labels, dtype=np.int64)


def _are_whole_numbers(labels: Any) -> bool:
    if isinstance(labels, np.ndarray):
        return labels.ndim == 1 and np.issubdtype(labels.dtype, np.integer)
    return isinstance(labels, list) and all(
        isinstance(label, int | np.integer) and abs(label) < 2**31 for label in labels
    )


def _images(root: Path, of_image: list[NDArray[np.int64]], size: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    for split, class_of in zip(SPLITS, of_image, strict=True):
        n_images = 0
        for image in _images_of_split(root, split, size):
            if n_images == len(class_of):
                raise SalaError(
                    f"{root} has more {split} images than the {len(class_of)} labels of {split}_labels.pkl; download both "
                    "again"
                )
            yield int(class_of[n_images]), image
            n_images += 1
        if n_images < len(class_of):
            raise SalaError(
                f"{root} has {n_images} {split} images and {len(class_of)} labels for them; download both again"
            )


def _images_of_split(root: Path, split: str, size: int) -> Iterator[NDArray[np.uint8]]:
    if (path := root / f"{split}_images_png.pkl").is_file():
        for i, png in enumerate(_encoded_images(path)):
            yield decode(_png_bytes(png), f"image {i} of {path}", image_size=size, mode="RGB")
    elif (path := root / f"{split}_images.npz").is_file():
        for array in stream_npz(path, "images"):
            yield resize(Image.fromarray(array), size)
    else:
        raise SalaError(f"{root} has neither {split}_images_png.pkl nor {split}_images.npz; put one of them there")


def _encoded_images(path: Path) -> list[Any]:
    images = load_pickle(path)
    if not isinstance(images, list):
        raise SalaError(f"{path} should hold a list of encoded images, not {type(images).__name__}; download it again")
    return images


def _png_bytes(png: Any) -> bytes:
    """From bytes, or from the array [n] or [n, 1] that OpenCV makes of them; whatever else is not an image."""
    if isinstance(png, np.ndarray) and png.dtype == np.uint8:
        return png.tobytes()
    return png if isinstance(png, bytes) else b""


def stream_npz(path: Path, key: str) -> Iterator[NDArray[np.uint8]]:
    """The images of an array [n, height, width, 3] inside an npz, one after the other, never all at once."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as file:
            shape = _image_shape(file, f"{path}: {key}")
            for _ in range(shape[0]):
                yield np.frombuffer(_exactly(file, shape[1] * shape[2] * 3), np.uint8).reshape(shape[1:])
    except SalaError:
        raise
    except OSError as error:
        raise unreadable(path, error) from None
    except KeyError:
        raise SalaError(
            f"{path} has no array {key!r} in it: it is not the file its name says; download it again"
        ) from None
    except Exception as error:  # a damaged archive raises nearly anything
        raise SalaError(f"{path} is not a readable npz file ({error}); download it again") from None


def _image_shape(file: IO[bytes], where: str) -> tuple[int, int, int, int]:
    """From the header of an npy file, checked before any pixel is read."""
    major, _ = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a header written by Python 2 is as good
        shape, is_fortran, dtype = read_header(file)
    if dtype != np.uint8 or len(shape) != 4 or shape[3] != 3 or not 0 < shape[1] * shape[2] <= MAX_PIXELS or is_fortran:
        raise SalaError(
            f"{where} should be bytes of shape [n, height, width, 3] in C order, not {dtype} {shape}; download the file again"
        )
    return shape


def _exactly(file: IO[bytes], n_bytes: int) -> bytes:
    content = file.read(n_bytes)
    if len(content) < n_bytes:
        raise ValueError("it ends before its last image")
    return content

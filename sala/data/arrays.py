"""Images and features that are in memory already: arrays, tensors, Pillow's images, a torch dataset."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from sala.data.build import check_classes, with_starts
from sala.data.folder import drawn_splits
from sala.data.images import resize, to_mode
from sala.data.store import SPLITS, ClassEntry, Progress
from sala.errors import SalaError

CHANNELS = (1, 3)
GRAY = ("1", "L", "LA", "La", "I", "F")  # modes of Pillow; those of 16 bits begin with "I;"
SLACK = 1e-3  # of floats in [0, 1]: a resized image overshoots a little
Splits = str | Mapping[Any, str] | None  # of all classes, by class, or drawn


class Grouped(NamedTuple):
    """Rows sorted by class, and the classes as a store has them."""

    rows: NDArray[np.int64]
    classes: list[ClassEntry]


def by_class(
    labels: Any, name: str, *, n: int, split: Splits = None, classes: Sequence[str] | None = None, split_seed: int = 0
) -> Grouped:
    """Where the n images of each class are; `split` is one for all, one by class, or None: drawn, 60 / 20 / 20."""
    given = _label_array(labels)
    if len(given) != n:
        raise SalaError(f"expected one label per image of {name}: got {n} images and {len(given)} labels")
    values, numbers = np.unique(given, return_inverse=True)
    names = [_class_name(value, classes) for value in values.tolist()]
    if len(set(names)) < len(names):
        raise SalaError(f"each class of {name} has a name of its own; got {_repeated(names)!r} twice")
    splits = splits_of(names, split, split_seed, name)
    entries = [ClassEntry(c, splits[c], n) for c, n in zip(names, np.bincount(numbers).tolist(), strict=True)]
    check_classes(name, entries)
    return Grouped(np.argsort(numbers, kind="stable"), with_starts(entries))


def _label_array(labels: Any) -> NDArray[Any]:
    array = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.dtype == object and all(isinstance(label, str) for label in array.flat):  # a column of pandas
        array = array.astype(str)
    if array.ndim != 1 or array.dtype.kind not in "iuU" or not len(array):
        raise SalaError(
            f"labels are whole numbers or names, one per image; got {array.dtype} of shape {list(array.shape)}; give a list "
            "with the class of each image"
        )
    return array


def _class_name(value: Any, classes: Sequence[str] | None) -> str:
    if classes is None or isinstance(value, str):
        return str(value)
    if not 0 <= value < len(classes):
        raise SalaError(f"labels are places in the list of {len(classes)} classes; got {value}; complete the list")
    return str(classes[value])


def _repeated(names: list[str]) -> str:
    return next(name for i, name in enumerate(names) if name in names[:i])


def splits_of(names: list[str], split: Splits, seed: int, where: str) -> dict[str, str]:
    if split is None:
        if len(names) < len(SPLITS):
            raise SalaError(
                f"train, val and test need a class each, and {where} has {len(names)}; add classes, or say which split "
                'they are all of: split="test"'
            )
        return drawn_splits(names, seed, where)
    if not isinstance(split, str | Mapping):
        raise SalaError(
            f"`split` is one of {', '.join(SPLITS)} for all classes, or a dictionary by class; got {type(split).__name__}"
        )
    by_name = dict.fromkeys(names, split) if isinstance(split, str) else {str(c): s for c, s in split.items()}
    for name in names:
        if by_name.get(name) not in SPLITS:
            raise SalaError(
                f"the split of a class is one of {', '.join(SPLITS)}; {name!r} of {where} has "
                f"{by_name.get(name, 'none')}; name it in `split`"
            )
    return by_name


def image_bytes(images: Any, name: str) -> NDArray[np.uint8]:  # -> [n, H, W, C]
    """Images of any layout that `as_tensor` takes, as a store has them."""
    tensor = as_tensor(images, name)
    if tensor.ndim == 2:
        raise SalaError(f"{name} has features [n, d], not images; sala.ImageStore.from_features takes them")
    if tensor.is_floating_point():
        least, most = (float(value) for value in tensor.aminmax())
        if not (least >= -SLACK and most <= 1 + SLACK):
            repair = "divide by 255, or give uint8" if least >= -SLACK else "undo the normalization"
            repair = repair if math.isfinite(most - least) else "remove the images with NaN or infinity"
            raise SalaError(f"images as floats are in [0, 1]; {name} has {least:g} to {most:g}; {repair}")
        tensor = (255 * tensor).round().clamp(0, 255).byte()
    array: NDArray[np.uint8] = tensor.permute(0, 2, 3, 1).contiguous().numpy()
    return array


def read_dataset(
    dataset: Any, name: str, image_size: int | None, progress: Progress | None
) -> tuple[NDArray[np.uint8], list[Any]]:  # [n, H, W, C], n labels
    """All items of a map-style dataset: each a pair of an image and its label."""
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__") or not len(dataset):
        raise SalaError(f"a map-style dataset has a length above 0 and items by number; {name} has not; use a list")
    labels, images = [], np.empty(0, np.uint8)
    for i in range(len(dataset)):
        image, label = _pair(dataset[i], f"item {i} of {name}")
        pixels = _pixels(image, image_size, f"item {i} of {name}")
        images = images if i else np.empty((len(dataset), *pixels.shape), np.uint8)
        if pixels.shape != images.shape[1:]:
            raise SalaError(
                f"all images of {name} have one shape: item 0 is {list(images.shape[1:])}, item {i} {list(pixels.shape)}; "
                "set image_size, and convert all to gray or all to RGB in the dataset's transform"
            )
        images[i] = pixels
        labels.append(label)
        if progress and (i % 64 == 0 or i == len(dataset) - 1):
            progress(i + 1, len(dataset))
    return images, labels


def _pair(item: Any, where: str) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list) or len(item) < 2:
        raise SalaError(
            f"an item of a dataset is a pair (image, label); {where} is of type {type(item).__name__}; make pairs, such as "
            '[(item["image"], item["label"]) for item in dataset]'
        )
    label = item[1]
    if isinstance(label, Tensor | np.generic | np.ndarray) and len(label.reshape(-1)) == 1:
        label = label.item()
    if not isinstance(label, int | str):
        raise SalaError(f"the label of an image is a whole number or a name; {where} has {type(item[1]).__name__}")
    return item[0], label


def _pixels(image: Any, image_size: int | None, where: str) -> NDArray[np.uint8]:  # -> [H, W, C]
    if not isinstance(image, Image.Image):
        array: NDArray[np.uint8] = image_bytes([image], where)[0]
        if image_size is None:
            return array
        image = Image.fromarray(array[:, :, 0] if array.shape[-1] == 1 else array)
    image = to_mode(image, "L" if _is_gray(image) else "RGB")
    return resize(image, image_size)


def _is_gray(image: Image.Image) -> bool:
    return image.mode in GRAY or image.mode.startswith("I;")


def as_tensor(images: Any, name: str) -> Tensor:  # -> [n, C, H, W] or [n, d]
    """Images with the channels first, or embeddings."""
    if isinstance(images, (Image.Image, str)) or not hasattr(images, "__len__"):
        raise SalaError(f"{name} is an array or a list of images; got {type(images).__name__}; put it in a list")
    if len(images) == 0:
        raise SalaError(f"{name} has no images; give at least one")
    array = images if isinstance(images, Tensor) else torch.from_numpy(_array(images, name))
    if array.dtype != torch.uint8 and not array.is_floating_point():
        raise SalaError(f"{name} has {array.dtype}; give images as uint8 (0 to 255) or as floats in [0, 1]")
    array = array if array.dtype == torch.uint8 else array.float()
    if array.ndim == 2:
        return array
    return _channels_first(array[..., None] if array.ndim == 3 else array, name)


def _array(images: Any, name: str) -> np.ndarray[Any, np.dtype[Any]]:
    if isinstance(images, np.ndarray):
        return np.require(images, requirements=["C", "W"])  # torch takes no read-only arrays: a copy of those
    if all(isinstance(image, Image.Image) for image in images):
        images = _from_pillow(images)
    arrays = [image.detach().cpu().numpy() if isinstance(image, Tensor) else np.asarray(image) for image in images]
    if len(shapes := {array.shape for array in arrays}) > 1:
        two = " and ".join(str(list(shape)) for shape in sorted(shapes)[:2])
        raise SalaError(f"all images of {name} have one shape; got {two}; resize or convert them")
    stacked = np.stack(arrays)
    if stacked.dtype.kind not in "biuf":
        raise SalaError(f"{name} holds {type(images[0]).__name__}, which is no image; open files with PIL.Image.open")
    return stacked


def _from_pillow(images: Sequence[Image.Image]) -> list[np.ndarray[Any, np.dtype[Any]]]:
    is_gray = all(map(_is_gray, images))
    return [np.asarray(to_mode(image, "L" if is_gray else "RGB")) for image in images]


def _channels_first(images: Tensor, name: str) -> Tensor:  # [n, H, W, C] or [n, C, H, W] -> [n, C, H, W]
    is_first, is_last = (images.ndim == 4 and images.shape[axis] in CHANNELS for axis in (1, -1))
    if is_first == is_last:
        raise SalaError(
            f"{name} is [n, H, W, C], [n, C, H, W] or [n, H, W] with 1 or 3 channels C, or embeddings [n, d]; got "
            f"{list(images.shape)}; convert the images to gray or RGB"
        )
    return images if is_first else images.permute(0, 3, 1, 2)

"""A task from what users have: arrays, tensors, images opened with Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from sala.data.images import to_mode
from sala.episodes.checks import check_range, check_task
from sala.episodes.task import Task
from sala.errors import SalaError

CHANNELS = (1, 3)
GRAY = ("1", "L", "LA", "La", "I", "F")  # modes of Pillow; those of 16 bits begin with "I;"


def make_task(support: Any, labels: Any, query: Any, unlabeled: Any = None, *, n_way: int | None = None) -> Task:
    """A checked `Task` for `method.classify` (images) or `method.logits` (embeddings).

    Parameters
    ----------
    support, query, unlabeled : array_like
        Images: an array or tensor `[n, H, W, C]`, `[n, C, H, W]` or `[n, H, W]` (gray) of uint8 or of floats in [0, 1], or a
        list of such images or of Pillow's. Or embeddings: floats `[n, d]`. Without `unlabeled` there are no unlabeled images.
    labels : array_like
        The class of each support image: whole numbers from 0 to n_way - 1.
    n_way : int, optional
        The number of classes; the largest label + 1 by default.

    Returns
    -------
    Task
        Of tensors `[n, C, H, W]`, uint8 or float32, or of embeddings `[n, d]`.

    Raises
    ------
    SalaError
        Where an array has another shape, dtype or range, sizes differ, or a class has no support image.

    Examples
    --------
    >>> import numpy as np, sala
    >>> owl, crow = np.zeros((28, 28), np.uint8), np.full((28, 28), 255, np.uint8)
    >>> task = sala.make_task(support=[owl, crow], labels=[0, 1], query=[crow])
    >>> task.query.shape, task.n_way
    (torch.Size([1, 1, 28, 28]), 2)
    >>> method = sala.build_method("protonet", sala.build_backbone("conv4", (28, 28, 1))).eval()
    >>> method.classify(task).argmax(-1)
    tensor([1])
    """
    given, numbers = _tensor(support, "support"), _labels(labels)
    has_unlabeled = unlabeled is not None and len(unlabeled) > 0
    n_classes = int(numbers.max()) + 1 if n_way is None else n_way
    rest = _tensor(unlabeled, "unlabeled") if has_unlabeled else given[:0]
    return _checked(Task(given, numbers, rest, _tensor(query, "query"), n_classes))


def _checked(task: Task) -> Task:
    check_task(task)
    if task.support.ndim == 4 and task.support.dtype != torch.uint8:
        check_range(task)
    return task


def _labels(labels: Any) -> Tensor:  # -> [S]
    array = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not len(array):
        raise SalaError(
            f"labels are whole numbers, one per support image; got {array.dtype} of shape {list(array.shape)}; number "
            "the classes from 0"
        )
    return torch.from_numpy(array.astype(np.int64))


def _tensor(images: Any, name: str) -> Tensor:  # -> [n, C, H, W] or [n, d]
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
        return np.ascontiguousarray(images)
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
    is_gray = all(image.mode in GRAY or image.mode.startswith("I;") for image in images)
    return [np.asarray(to_mode(image, "L" if is_gray else "RGB")) for image in images]


def _channels_first(images: Tensor, name: str) -> Tensor:  # [n, H, W, C] or [n, C, H, W] -> [n, C, H, W]
    is_first, is_last = (images.ndim == 4 and images.shape[axis] in CHANNELS for axis in (1, -1))
    if is_first == is_last:
        raise SalaError(
            f"{name} is [n, H, W, C], [n, C, H, W] or [n, H, W] with 1 or 3 channels C, or embeddings [n, d]; got "
            f"{list(images.shape)}; convert the images to gray or RGB"
        )
    return images if is_first else images.permute(0, 3, 1, 2)

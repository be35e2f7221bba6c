"""What a task must be, checked where users hand one in: each failure is one sentence with the rule, the value and the repair.

The checks read shapes and dtypes, the labels, and of floats the range: some 30 microseconds for a task of Omniglot.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sala.episodes.task import Task
from sala.errors import SalaError

ImageShape = tuple[int, int, int]
PARTS = ("support", "unlabeled", "query")
SLACK = 1e-3  # of floats in [0, 1]: a resized image overshoots a little


def check_task(task: Task) -> None:
    """Tensors of one shape and dtype, with labels 0 to n_way - 1 that each have support."""
    if not isinstance(task, Task):
        raise SalaError(f"expected a Task, got {type(task).__name__}; sala.make_task makes one")
    for name in ("labels", *PARTS):
        if not isinstance(value := getattr(task, name), Tensor):
            raise SalaError(
                f"a task is made of tensors, and its {name} is of type {type(value).__name__}; "
                "sala.make_task takes arrays and images"
            )
    check_labels(task.labels, task.n_way)
    _check_parts(task)


def check_labels(labels: Tensor, n_way: int) -> None:
    """Whole numbers 0 to n_way - 1, of which none is missing."""
    if isinstance(n_way, bool) or not isinstance(n_way, int) or n_way < 1:
        raise SalaError(f"n_way is the number of classes, a whole number from 1; got {n_way!r}")
    if labels.dtype != torch.int64 or not labels.ndim:
        raise SalaError(
            f"labels are whole numbers (torch.int64), one per support image; got {labels.dtype} of shape "
            f"{list(labels.shape)}; sala.make_task converts them"
        )
    wanted = set(range(n_way))
    for row in labels.flatten(0, -2).tolist() if labels.ndim > 1 else [labels.tolist()]:
        if set(row) != wanted:
            raise SalaError(
                f"labels are 0 to n_way - 1 = {n_way - 1}, each with at least one support image; got "
                f"{_shown(sorted(set(row)))}; number the classes from 0 and set n_way to how many there are"
            )


def check_query_labels(task: Task, query_labels: Tensor) -> None:
    """One label 0 to n_way - 1 per query."""
    shape = task.query.shape[: task.labels.ndim]
    if not isinstance(query_labels, Tensor) or query_labels.dtype != torch.int64 or query_labels.shape != shape:
        got = f"{query_labels.dtype} {list(query_labels.shape)}" if isinstance(query_labels, Tensor) else query_labels
        raise SalaError(f"query labels are torch.int64 of shape {list(shape)}, one per query; got {got}")
    if not query_labels.numel():
        raise SalaError("a loss is a mean over queries, and this task has none; add queries")
    least, most = (int(value) for value in query_labels.aminmax())
    if least < 0 or most >= task.n_way:
        raise SalaError(f"query labels are 0 to n_way - 1 = {task.n_way - 1}; got {least} to {most}")


def check_images(task: Task, image_shape: ImageShape) -> None:
    """Images [C, H, W] of the size that the backbone was built for, bytes or floats in [0, 1]."""
    shape, wanted = item_shape(task), (image_shape[2], *image_shape[:2])
    if shape != wanted:
        raise SalaError(f"images are [C, H, W] = {list(wanted)} here; got {list(shape)}; {_repair(shape, image_shape)}")
    if task.support.dtype != torch.uint8:
        check_range(task)


def check_range(task: Task) -> None:
    """Floats of images are in [0, 1]."""
    if not task.support.is_floating_point():
        raise SalaError(f"images are torch.uint8 or floats in [0, 1]; got {task.support.dtype}; convert with .byte()")
    for name in PARTS:
        if (part := getattr(task, name)).numel():
            least, most = (float(value) for value in part.detach().aminmax())
            if not (least >= -SLACK and most <= 1 + SLACK):
                repair = "divide by 255, or give torch.uint8" if least >= -SLACK else "undo the normalization"
                raise SalaError(f"images as floats are in [0, 1]; {name} has {least:g} to {most:g}; {repair}")


def check_features(task: Task, width: int | None, image_shape: ImageShape | None, what: str) -> None:
    """Finite floats [d]; where they look like images the repair says where images go."""
    shape = item_shape(task)
    is_image = image_shape is not None and shape == (image_shape[2], *image_shape[:2])
    if is_image or not task.support.is_floating_point():
        raise SalaError(
            f"{what} takes embeddings, floats [d]; got {task.support.dtype} {list(shape)}; for images call "
            "classify(task), or logits(embed(task))"
        )
    if width is not None and shape != (width,):
        raise SalaError(f"{what} takes embeddings of width {width} here; got {list(shape)}; use the same backbone")
    for name in PARTS:
        if not bool(getattr(task, name).isfinite().all()):
            raise SalaError(f"embeddings are finite numbers; {name} has NaN or infinity; remove those images")


def item_shape(task: Task) -> tuple[int, ...]:
    """The shape of one image [C, H, W] or of one embedding [d]."""
    return tuple(task.support.shape[task.labels.ndim :])


def _check_parts(task: Task) -> None:
    n_batch, support = task.labels.ndim - 1, task.support
    if support.ndim <= n_batch + 1 or support.shape[: n_batch + 1] != task.labels.shape:
        raise SalaError(
            f"expected one label per support image: got labels {list(task.labels.shape)} and support "
            f"{list(support.shape)}"
        )
    for name in PARTS[1:]:
        part = getattr(task, name)
        if part.shape[:n_batch] != support.shape[:n_batch] or part.shape[n_batch + 1 :] != item_shape(task):
            raise SalaError(
                f"all images of a task have one shape: {name} is {list(part.shape)}, support {list(support.shape)}; "
                "resize them, and add the dimension of the images where there is one image"
            )
        if (part.dtype, part.device) != (support.dtype, support.device):
            raise SalaError(
                f"all images of a task have one dtype and device: {name} has {part.dtype} on {part.device}, support "
                f"{support.dtype} on {support.device}; convert one of them"
            )


def _repair(shape: tuple[int, ...], image_shape: ImageShape) -> str:
    height, width, channels = image_shape
    if len(shape) == 1:
        return "for embeddings call logits(task)"
    if len(shape) == 2:
        return "add the channel's dimension, or use sala.make_task"
    if shape == image_shape:
        return "put the channels first with .permute(0, 3, 1, 2), or use sala.make_task"
    if shape[1:] == (height, width):
        return f"convert the images to {'gray' if channels == 1 else 'RGB'}"
    return f"resize the images to {height} x {width}"


def _shown(values: list[int]) -> str:
    return ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")

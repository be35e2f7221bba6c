"""A task from what users have: arrays, tensors, images opened with Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sala.data.arrays import as_tensor
from sala.episodes.checks import check_range, check_task
from sala.episodes.task import Task
from sala.errors import SalaError


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
    given, numbers = as_tensor(support, "support"), _labels(labels)
    has_unlabeled = unlabeled is not None and len(unlabeled) > 0
    n_classes = int(numbers.max()) + 1 if n_way is None else n_way
    rest = as_tensor(unlabeled, "unlabeled") if has_unlabeled else given[:0]
    return _checked(Task(given, numbers, rest, as_tensor(query, "query"), n_classes))


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

"""What a generator makes up, as a picture: for each task its labeled images and, beside them, the made-up ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sala.episodes.sampler import fixed_sampler
from sala.errors import SalaError, at_least
from sala.methods.base import in_unit_range
from sala.training.config import read_config, run_folder
from sala.training.loading import load, open_data

GAP = 0.12  # between images, as a share of their side
PAPER = 255


def sample_sheet(
    folder: Path | str,
    *,
    n_tasks: int = 6,
    n_images: int = 12,
    split: str = "test",
    weights: str = "best",
    root: Path | None = None,
) -> NDArray[np.uint8]:  # [H, W, C]
    """One row a task: the support, a gap, then images that the run's generator makes for this task."""
    at_least(1, n_tasks, "the number of tasks")
    at_least(1, n_images, "the number of images a task")
    config, method = read_config(folder), load(folder, weights=weights)
    store = open_data(run_folder(folder), config, root)
    sampler = fixed_sampler(store, config.protocol.validation, split, config.protocol)
    rows = []
    with torch.inference_mode():
        for i in range(n_tasks):
            task = sampler.episode(i).task
            made = method.samples(task)
            if made is None:
                raise SalaError(
                    f"{folder} is a run of {config.method}, which has no generator; samples are made by metagan "
                    "(with its adversary)"
                )
            rows.append(_row([in_unit_range(task.support), made[:n_images]]))
    return _bytes(_stack(rows, 1, _gap(rows[0])))


def _row(groups: list[Tensor]) -> Tensor:
    """Groups of images [n, C, H, W] beside each other, with a wider gap between the groups."""
    gap = _gap(groups[0][0])
    return _stack([_stack(list(images), 2, gap) for images in groups], 2, 6 * gap)


def _gap(image: Tensor) -> int:
    return max(1, round(GAP * image.shape[-2]))


def _stack(images: list[Tensor], dim: int, gap: int) -> Tensor:
    """[C, H, W] images along a dimension, with paper between them."""
    shape = [*images[0].shape]
    shape[dim] = gap
    pieces = [piece for image in images for piece in (image, torch.ones(shape))]
    return torch.cat(pieces[:-1], dim)


def _bytes(image: Tensor) -> NDArray[np.uint8]:
    return np.ascontiguousarray((PAPER * image.clamp(0, 1)).round().byte().permute(1, 2, 0).numpy())

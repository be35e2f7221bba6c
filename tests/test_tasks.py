"""`sala.make_task`: from arrays, tensors and Pillow's images to a task that a method takes."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
import torch
from PIL import Image

import sala
import sala.tasks
from sala.errors import SalaError
from sala.tasks import make_task

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (3, 20, 24), np.uint8)  # [n, H, W]
COLOR = RNG.integers(0, 256, (3, 20, 24, 3), np.uint8)  # [n, H, W, C]


def test_the_example_runs() -> None:
    torch.manual_seed(0)
    tested = doctest.testmod(sala.tasks)
    assert tested.attempted >= 5
    assert tested.failed == 0


@pytest.mark.parametrize(
    "images",
    [
        GREY,
        GREY[..., None],
        GREY[:, None],
        torch.from_numpy(GREY),
        torch.from_numpy(GREY)[:, None],
        list(GREY),
        [torch.from_numpy(image) for image in GREY],
        [Image.fromarray(image) for image in GREY],
        tuple(image[..., None] for image in GREY),
    ],
)
def test_grey_images_come_in_many_forms(images: object) -> None:
    task = make_task(images, [0, 1, 2], images, images)
    for part in (task.support, task.query, task.unlabeled):
        assert torch.equal(part, torch.from_numpy(GREY)[:, None])
    assert task.n_way == 3
    assert task.labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "images",
    [
        COLOR,
        COLOR.transpose(0, 3, 1, 2),
        torch.from_numpy(COLOR),
        list(COLOR),
        [Image.fromarray(image) for image in COLOR],
        [Image.fromarray(image).convert("RGBA") for image in COLOR],
    ],
)
def test_color_images_come_in_many_forms(images: object) -> None:
    task = make_task(images, np.array([0, 1, 1], np.int32), images)
    assert torch.equal(task.support, torch.from_numpy(COLOR).permute(0, 3, 1, 2))
    assert task.unlabeled.shape == (0, 3, 20, 24)
    assert task.n_way == 2


def test_floats_stay_floats() -> None:
    task = make_task(GREY / 255, [0, 1, 2], GREY / 255)
    assert task.support.dtype == torch.float32
    assert torch.allclose(task.support, torch.from_numpy(GREY)[:, None].float() / 255)


def test_embeddings_are_taken_too() -> None:
    features = RNG.normal(size=(4, 7))
    task = make_task(features, [0, 1, 0, 1], features)
    assert (task.support.shape, task.unlabeled.shape, task.support.dtype) == ((4, 7), (0, 7), torch.float32)


def test_a_made_task_is_classified() -> None:
    method = sala.build_method("sala", sala.build_backbone("conv4", (20, 20, 3))).eval()
    task = make_task(COLOR[:, :, :20], torch.tensor([0, 1, 1]), COLOR[:, :, :20], list(COLOR[:, :, :20]))
    assert method.classify(task).shape == (3, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"labels": [1, 2, 3]}, "0 to n_way - 1"),
        ({"labels": [0, 1, 1], "n_way": 3}, "at least one support image"),
        ({"labels": [0, 1]}, "one label per support image"),
        ({"labels": [0.0, 1.0, 2.0]}, "whole numbers"),
        ({"labels": ["owl", "crow", "owl"]}, "whole numbers"),
        ({"labels": [[0], [1], [2]]}, "whole numbers"),
        ({"labels": []}, "whole numbers"),
        ({"support": []}, "no images"),
        ({"query": None}, "list"),
        ({"support": GREY.astype(np.float32), "query": GREY.astype(np.float32)}, "255"),
        ({"support": GREY.astype(np.int64)}, "uint8"),
        ({"support": GREY.astype(np.float32) * np.nan, "query": GREY / 255}, "nan"),
        ({"support": Image.fromarray(GREY[0])}, "list"),
        ({"support": ["owl.png", "crow.png", "owl2.png"]}, "PIL.Image.open"),
        ({"support": [GREY[0], GREY[1], GREY[2, :9]]}, r"\[9, 24\]"),
        ({"support": RNG.random((3, 20, 24, 4))}, "1 or 3 channels"),
        ({"support": RNG.random((3, 2, 20, 24, 3))}, "1 or 3 channels"),
        ({"query": COLOR}, "one shape"),
        ({"query": GREY / 255}, "one dtype"),
        ({"unlabeled": GREY[:, :9]}, "one shape"),
    ],
)
def test_what_makes_no_task_is_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(SalaError, match=words):
        make_task(**{"support": GREY, "labels": [0, 1, 2], "query": GREY, **arguments})  # type: ignore[arg-type]

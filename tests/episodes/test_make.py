"""`sala.make_task`: from arrays, tensors and Pillow's images to a task that a method takes."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
import torch
from PIL import Image

import sala
import sala.episodes.make
from sala.episodes.make import make_task
from sala.errors import SalaError

RNG = np.random.default_rng(0)
GRAY = RNG.integers(0, 256, (3, 20, 24), np.uint8)  # [n, H, W]
COLOR = RNG.integers(0, 256, (3, 20, 24, 3), np.uint8)  # [n, H, W, C]


def test_the_example_runs() -> None:
    torch.manual_seed(0)
    tested = doctest.testmod(sala.episodes.make)
    assert tested.attempted >= 5
    assert tested.failed == 0


@pytest.mark.parametrize(
    "images",
    [
        GRAY,
        GRAY[..., None],
        GRAY[:, None],
        torch.from_numpy(GRAY),
        torch.from_numpy(GRAY)[:, None],
        list(GRAY),
        [torch.from_numpy(image) for image in GRAY],
        [Image.fromarray(image) for image in GRAY],
        tuple(image[..., None] for image in GRAY),
    ],
)
def test_gray_images_come_in_many_forms(images: object) -> None:
    task = make_task(images, [0, 1, 2], images, images)
    for part in (task.support, task.query, task.unlabeled):
        assert torch.equal(part, torch.from_numpy(GRAY)[:, None])
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
    task = make_task(GRAY / 255, [0, 1, 2], GRAY / 255)
    assert task.support.dtype == torch.float32
    assert torch.allclose(task.support, torch.from_numpy(GRAY)[:, None].float() / 255)


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
        ({"support": GRAY.astype(np.float32), "query": GRAY.astype(np.float32)}, "255"),
        ({"support": GRAY.astype(np.int64)}, "uint8"),
        ({"support": GRAY.astype(np.float32) * np.nan, "query": GRAY / 255}, "nan"),
        ({"support": Image.fromarray(GRAY[0])}, "list"),
        ({"support": ["owl.png", "crow.png", "owl2.png"]}, "PIL.Image.open"),
        ({"support": [GRAY[0], GRAY[1], GRAY[2, :9]]}, r"\[9, 24\]"),
        ({"support": RNG.random((3, 20, 24, 4))}, "1 or 3 channels"),
        ({"support": RNG.random((3, 2, 20, 24, 3))}, "1 or 3 channels"),
        ({"query": COLOR}, "one shape"),
        ({"query": GRAY / 255}, "one dtype"),
        ({"unlabeled": GRAY[:, :9]}, "one shape"),
    ],
)
def test_what_makes_no_task_is_named(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(SalaError, match=words):
        make_task(**{"support": GRAY, "labels": [0, 1, 2], "query": GRAY, **arguments})  # type: ignore[arg-type]

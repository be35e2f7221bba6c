"""Stores in memory: from arrays, from a torch dataset, from features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

from sala.data import FeatureStore, ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.errors import SalaError

LABELS = ["owl", "crow", "owl", "crow"]
GRAYS = np.arange(4, dtype=np.uint8)[:, None, None] * np.ones((1, 2, 2), np.uint8)  # image i is filled with i


def test_images_are_sorted_by_class_in_their_order() -> None:
    store = ImageStore.from_arrays(GRAYS, LABELS, split="test")
    assert [(c.name, c.start, c.count) for c in store.classes] == [("crow", 0, 2), ("owl", 2, 2)]
    assert store.images[:, 0, 0, 0].tolist() == [1, 3, 0, 2]
    assert store.image_shape == (2, 2, 1)
    assert store.folder is None


def test_a_store_in_memory_is_the_same_data_as_one_on_disk(make_store: Callable[..., ImageStore]) -> None:
    on_disk = make_store({"train": [2, 3], "test": [2]})
    names = ["train0"] * 2 + ["train1"] * 3 + ["test0"] * 2
    split = {"train0": "train", "train1": "train", "test0": "test"}
    in_memory = ImageStore.from_arrays(on_disk.images, [f"{'z' * (n == 'test0')}{n}" for n in names], split={
        "train0": "train", "train1": "train", "ztest0": "test"})  # fmt: skip
    assert in_memory.images.tolist() == on_disk.images.tolist()
    assert in_memory.verify()
    numbered = ImageStore.from_arrays(on_disk.images, [0, 0, 1, 1, 1, 2, 2], classes=list(split), split=split)
    assert numbered.content_hash == on_disk.content_hash


@pytest.mark.parametrize("layout", ["channels last", "channels first", "floats", "tensor", "list", "pillow"])
def test_every_layout_gives_the_same_images(layout: str) -> None:
    colors = np.random.default_rng(0).integers(0, 256, (4, 6, 6, 3), np.uint8)
    given: dict[str, Any] = {
        "channels last": colors,
        "channels first": colors.transpose(0, 3, 1, 2),
        "floats": colors / 255,
        "tensor": torch.from_numpy(colors).permute(0, 3, 1, 2),
        "list": list(colors),
        "pillow": [Image.fromarray(image) for image in colors],
    }
    store = ImageStore.from_arrays(given[layout], [0, 0, 1, 1], split="test")
    assert np.array_equal(store.images, colors)


def test_without_a_split_classes_are_drawn_by_the_seed() -> None:
    images, labels = np.zeros((40, 2, 2), np.uint8), np.repeat(np.arange(20), 2)
    one, same, other = (ImageStore.from_arrays(images, labels, split_seed=seed) for seed in (0, 0, 1))
    assert [len(one.split(name)) for name in ("train", "val", "test")] == [12, 4, 4]
    assert one.classes == same.classes != other.classes


@pytest.mark.parametrize(
    ("images", "labels", "options"),
    [
        (GRAYS, LABELS[:3], {}),
        (GRAYS, [0.5] * 4, {}),
        (GRAYS, LABELS, {}),  # two classes, three splits
        (GRAYS, LABELS, {"split": "dev"}),
        (GRAYS, LABELS, {"split": {"owl": "test"}}),
        (GRAYS, [0, 0, 1, 1], {"split": "test", "classes": ["owl"]}),
        (GRAYS, [0, 0, 1, 1], {"split": "test", "classes": ["owl", "owl"]}),
        (GRAYS, [0, 1, 1, 1], {"split": "test"}),  # a class of one image
        (GRAYS * 1000.0, LABELS, {"split": "test"}),
        (np.zeros((4, 9)), LABELS, {"split": "test"}),  # features
    ],
)
def test_what_does_not_fit_is_refused(images: Any, labels: Any, options: dict[str, Any]) -> None:
    with pytest.raises(SalaError):
        ImageStore.from_arrays(images, labels, **options)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_images_with_holes_are_not_taken_for_normalized_ones(value: float) -> None:
    with pytest.raises(SalaError, match="remove"):
        ImageStore.from_arrays(np.full((4, 8, 8), value), LABELS, split="test")


class Named(TensorDataset):
    classes = ("crow", "owl")


def test_any_map_style_dataset_becomes_a_store() -> None:
    images = torch.rand(6, 3, 8, 8)
    store = ImageStore.from_dataset(Named(images, torch.tensor([1, 0, 1, 0, 1, 0])), split="test")
    assert [c.name for c in store.classes] == ["crow", "owl"]
    assert np.array_equal(store.images, (255 * images[[1, 3, 5, 0, 2, 4]]).round().byte().permute(0, 2, 3, 1))


def test_images_of_other_sizes_are_resized_and_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    items = [(Image.new("RGB", (20 + i, 30)), "ab"[i % 2]) for i in range(4)]
    store = ImageStore.from_dataset(items, image_size=16, split="test", progress=lambda *now: told.append(now))
    assert store.image_shape == (16, 16, 3)
    assert told[-1] == (4, 4)
    with pytest.raises(SalaError, match="image_size"):
        ImageStore.from_dataset(items, split="test")


@pytest.mark.parametrize("items", [[], [1, 2], [(GRAYS[0], 0.5)] * 4, [(torch.rand(9), 0)] * 4])
def test_other_datasets_are_refused(items: list[Any]) -> None:
    with pytest.raises(SalaError):
        ImageStore.from_dataset(items, split="test")


def test_features_are_drawn_from_as_images_are() -> None:
    features = torch.arange(24.0).reshape(12, 2)
    labels = torch.arange(12) % 3
    store = ImageStore.from_features(features, labels, split={0: "train", 1: "test", 2: "test"})
    assert isinstance(store, FeatureStore)
    assert [entry.name for entry in store.split("test")] == ["1", "2"]
    task = EpisodeSampler(store, EpisodeShape(2, 1, 1, 2), split="test", seed=0)[0].task
    assert all((row % 2).tolist() == [0, 1] for row in task.support)
    with pytest.raises(SalaError, match="no val classes"):
        store.split("val")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_features_of_any_float_are_taken(dtype: torch.dtype) -> None:
    features = torch.tensor([[0.5, 2.0]] * 4, dtype=dtype, requires_grad=True)
    assert FeatureStore.from_arrays(features, LABELS, split="test").images.tolist() == [[0.5, 2.0]] * 4


@pytest.mark.parametrize("features", [np.zeros((4, 2), int), np.zeros(4), np.full((4, 2), np.nan)])
def test_features_that_are_none_are_refused(features: Any) -> None:
    with pytest.raises(SalaError, match="features are"):
        FeatureStore.from_arrays(features, LABELS, split="test")


def test_names_may_be_a_column_of_objects() -> None:
    store = ImageStore.from_arrays(GRAYS, np.array(LABELS, dtype=object), split="test")
    assert [(entry.name, entry.count) for entry in store.classes] == [("crow", 2), ("owl", 2)]


def test_a_split_of_images_is_refused() -> None:
    with pytest.raises(SalaError, match="by class"):
        ImageStore.from_arrays(np.zeros((3, 4, 4), np.uint8), [0, 1, 2], split=["train", "val", "test"])  # type: ignore[arg-type]

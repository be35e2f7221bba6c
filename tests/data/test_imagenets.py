"""The published splits, and miniImageNet, tieredImageNet and tiny-tiered in each layout in circulation."""

from __future__ import annotations

import base64
import pickle
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.data import ImageStore, load_dataset
from sala.data.splits import miniimagenet_splits, omniglot_split, tieredimagenet_splits
from sala.data.store import SPLITS
from sala.data.tieredimagenet import stream_npz
from sala.errors import SalaError
from tests.helpers.trees import encoded, gray, levels, n_classes, splits_of, write, zipped

pytestmark = pytest.mark.usefixtures("own_cache")

# the published lists


def lists_of(real_data: Path, dataset: str, suffix: str) -> dict[str, list[str]]:
    if not (real_data / "splits").is_dir():
        pytest.skip("the data folder has no splits/")
    paths = {split: real_data / "splits" / f"{dataset}_{split}.{suffix}" for split in SPLITS}
    return {split: path.read_text().split() for split, path in paths.items()}


@pytest.mark.slow
def test_our_omniglot_split_is_the_published_one(real_data: Path, omniglot: ImageStore) -> None:
    listed = {name: split for split, names in lists_of(real_data, "omniglot", "txt").items() for name in names}
    ours = {entry.name.rpartition("/")[0]: entry.split for entry in omniglot.classes}
    assert ours == listed


def test_our_miniimagenet_split_is_the_published_one(real_data: Path) -> None:
    listed = lists_of(real_data, "miniimagenet", "txt")
    assert miniimagenet_splits() == {name: split for split, names in listed.items() for name in names}


def test_our_tieredimagenet_split_is_the_published_one(real_data: Path) -> None:
    listed = lists_of(real_data, "tieredimagenet", "csv")
    assert tieredimagenet_splits() == {row.split(",")[0]: split for split, rows in listed.items() for row in rows}


def test_the_lists_have_the_published_sizes() -> None:
    for splits, sizes in ((miniimagenet_splits(), [64, 16, 20]), (tieredimagenet_splits(), [351, 97, 160])):
        assert [list(splits.values()).count(split) for split in SPLITS] == sizes


def test_one_alphabet_of_omniglot_is_divided_between_train_and_test() -> None:
    assert [omniglot_split("Gurmukhi", n) for n in (1, 41, 42, 45)] == ["train", "train", "test", "test"]


# miniImageNet

# {'image_data': uint8 [6, 2, 2, 3], image i filled with 10 i, 'class_dict': {'n01532829': [0, 2, 4],
# 'n01558993': [1, 3, 5]}}, written by Python 2.7.18 with numpy 1.16.6: cPickle.dumps(..., 2)
PYTHON_2_CACHE = (
    "eNpNzz1rwzAQBmBLzkejplvnzJpM4xCI/0HpgYeCxmBkWQRD7OTk02BooEsJ/dWtqDvoObjh7h3uPvkNmVSi7fTJVo0mjdz0vruOmbk4m3X+TK12To+i"
    "ctZc+oGcNyQwnVKib6YtziD5Uqy+v+NcApOwAB4qpf9cQ+PVClwo7reQAAu5pYRUsY+yLN9+gr8GCdXf6jWJiMhzZBORkTxCtRLmrIehalpD+HDDlVSr"
    "/mW73+WHvEBxxEcZzuEws9N8fyiKHa6P+BS+gBTm1vvsF4KiTt4="
)


def cache_of(first: int, names: list[str]) -> dict[str, Any]:
    """Two images a class, of the levels first, first + 1, ..."""
    images = np.stack([np.full((84, 84, 3), first + i, np.uint8) for i in range(2 * len(names))])
    return {"image_data": images, "class_dict": {name: [2 * i, 2 * i + 1] for i, name in enumerate(names)}}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_miniimagenet_is_read_from_cache_pickles(tmp_path: Path, protocol: int) -> None:
    for i, split in enumerate(SPLITS):
        content = pickle.dumps(cache_of(10 * i, [f"n0{i}", f"n1{i}"]), protocol)
        (tmp_path / f"mini-imagenet-cache-{split}.pkl").write_bytes(content)
    store = load_dataset("miniimagenet", tmp_path)
    assert levels(store) == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
    assert store.image_shape == (84, 84, 3) and splits_of(store)["n02"] == "test"


def test_miniimagenet_is_read_from_the_pickles_of_python_2(tmp_path: Path) -> None:
    old = zlib.decompress(base64.b64decode(PYTHON_2_CACHE))
    (tmp_path / "mini-imagenet-cache-train.pkl").write_bytes(old)
    for split in ("val", "test"):
        content = {key.encode(): value for key, value in cache_of(0, [split]).items()}
        (tmp_path / f"mini-imagenet-cache-{split}.pkl").write_bytes(pickle.dumps(content, 2))
    store = load_dataset("miniimagenet", tmp_path)
    assert [entry.name for entry in store.split("train")] == ["n01532829", "n01558993"]
    assert levels(store) == [0, 20, 40, 10, 30, 50, 0, 1, 0, 1]


def test_miniimagenet_is_read_from_images_and_csv_lists(tmp_path: Path) -> None:
    for i, split in enumerate(SPLITS):
        write(tmp_path / "images", {f"n{i}_{k}.jpg": encoded((60 * i + 20 * k,) * 3, "JPEG") for k in (0, 1)})
        lines = "".join(f"n{i}_{k}.jpg,n{i}\n" for k in (0, 1))
        (tmp_path / f"{split}.csv").write_text("filename,label\n" + lines)
    store = load_dataset("miniimagenet", tmp_path)
    assert splits_of(store) == {"n0": "train", "n1": "val", "n2": "test"}
    assert np.allclose(levels(store), [0, 20, 60, 80, 120, 140], atol=2)


def test_a_csv_list_saved_by_a_spreadsheet_is_read(tmp_path: Path) -> None:
    for i, split in enumerate(SPLITS):
        write(tmp_path, {f"{i}{k}.png": gray(i) for k in (0, 1)})
        (tmp_path / f"{split}.csv").write_text(f"\ufefflabel,filename\r\nn{i},{i}0.png\r\nn{i},{i}1.png\r\n\r\n")
    assert levels(load_dataset("miniimagenet", tmp_path)) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("dataset", ["miniimagenet", "tieredimagenet"])
def test_class_folders_are_split_by_the_published_list(tmp_path: Path, dataset: str) -> None:
    splits = {"miniimagenet": miniimagenet_splits, "tieredimagenet": tieredimagenet_splits}[dataset]()
    names = [*splits, "n99999999"]  # one that is not on the list, as in all of ImageNet
    zipped(tmp_path / "all.zip", {f"top/{name}/{k}.png": gray(k) for name in names for k in (0, 1)})
    assert splits_of(load_dataset(dataset, tmp_path / "all.zip", image_size=8)) == splits


def test_class_folders_with_one_missing_are_refused(tmp_path: Path) -> None:
    names = sorted(miniimagenet_splits())[1:]
    write(tmp_path, {f"{name}/{k}.png": b"" for name in names for k in (0, 1)})
    with pytest.raises(SalaError, match=r"1 of 100 .* n01532829"):
        load_dataset("miniimagenet", tmp_path)


# tieredImageNet

# label_specific [0, 0, 1, 1] with the names 'crane' and 'owl', label_general [0, 0, 0, 0] with 'bird', by Python 2.7.18
PYTHON_2_LABELS = (
    "eNptkD1rwzAQhi3baRq1ST9+QUdPnjPkF1TgoXBjCJJ8rQWO7LvIBA+FLqH0V7cmLpSYvsPdcA+8D/cRv5PIYFVrg/Xu0KJ1r85SbH23b/vcNoz5vquD"
    "08y6lztG2/hD4M4GSclISV+OV0pVdAJhPl9olimh0tMvUIa+RUlXELu1ipQYgHmmEhCboiiev4ech4qC+YKnaBIx2cHAw+j7hh5ZD96B6XpLC0iN45Kk"
    "huUFQDdVUv3J3Y5y1fyfsmmGssfL55zblltaZTCzrD3SHSTNsaZ77PIf2Jtesg=="
)


def tiered_labels(split: str) -> dict[str, Any]:
    names = {"train": ["crane", "owl"], "val": ["lathe"], "test": ["sloth"]}[split]
    specific = np.repeat(np.arange(len(names)), 2)
    return {"label_specific": specific, "label_specific_str": names, "label_general": 0 * specific}


def write_tiered_labels(root: Path) -> None:
    for split in SPLITS:
        (root / f"{split}_labels.pkl").write_bytes(pickle.dumps(tiered_labels(split)))


def png_array(level: int, dims: int) -> np.ndarray:
    array = np.frombuffer(gray(level), np.uint8)
    return array if dims == 1 else array[:, None]  # OpenCV 4 and OpenCV 3


@pytest.mark.parametrize("dims", [1, 2])
def test_tieredimagenet_is_read_from_lists_of_encoded_images(tmp_path: Path, dims: int) -> None:
    write_tiered_labels(tmp_path)
    for i, split in enumerate(SPLITS):
        n_images = len(tiered_labels(split)["label_specific"])
        images = [png_array(10 * i + k, dims) for k in range(n_images)]
        (tmp_path / f"{split}_images_png.pkl").write_bytes(pickle.dumps(images, 2))
    store = load_dataset("tieredimagenet", tmp_path)
    assert splits_of(store) == {"crane": "train", "owl": "train", "lathe": "val", "sloth": "test"}
    assert levels(store) == [0, 1, 2, 3, 10, 11, 20, 21]


def test_tieredimagenet_is_read_with_the_labels_of_python_2(tmp_path: Path) -> None:
    write_tiered_labels(tmp_path)
    (tmp_path / "train_labels.pkl").write_bytes(zlib.decompress(base64.b64decode(PYTHON_2_LABELS)))
    for split in SPLITS:
        images = [gray(k) for k in range(len(tiered_labels(split)["label_specific"]))]
        (tmp_path / f"{split}_images_png.pkl").write_bytes(pickle.dumps(images, 2))
    assert [entry.name for entry in load_dataset("tieredimagenet", tmp_path).split("train")] == ["crane", "owl"]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_tieredimagenet_is_read_from_npz_files(tmp_path: Path, save: Any) -> None:
    write_tiered_labels(tmp_path)
    for i, split in enumerate(SPLITS):
        shape = (len(tiered_labels(split)["label_specific"]), 84, 84, 3)
        images = np.arange(10 * i, 10 * i + shape[0], dtype=np.uint8)[:, None, None, None]
        save(tmp_path / f"{split}_images.npz", images=np.broadcast_to(images, shape))
    assert levels(load_dataset("tieredimagenet", tmp_path)) == [0, 1, 2, 3, 10, 11, 20, 21]


def test_images_of_two_classes_may_alternate(tmp_path: Path) -> None:
    write_tiered_labels(tmp_path)
    labels = {**tiered_labels("train"), "label_specific": [1, 0, 1, 0]}
    (tmp_path / "train_labels.pkl").write_bytes(pickle.dumps(labels))
    for split in SPLITS:
        images = [gray(k) for k in range(len(tiered_labels(split)["label_specific"]))]
        (tmp_path / f"{split}_images_png.pkl").write_bytes(pickle.dumps(images))
    assert levels(load_dataset("tieredimagenet", tmp_path))[:4] == [1, 3, 0, 2]


def test_an_npz_passes_without_being_held_in_memory(tmp_path: Path) -> None:
    images = np.zeros((400, 84, 84, 3), np.uint8)  # 8 MiB
    np.savez_compressed(tmp_path / "images.npz", images=images)
    size, n_images = images.nbytes, 0
    del images
    tracemalloc.start()
    try:
        for _ in stream_npz(tmp_path / "images.npz", "images"):
            n_images += 1
        assert n_images == 400 and tracemalloc.get_traced_memory()[1] < size / 8
    finally:
        tracemalloc.stop()


# tiny-tiered


def tiny_imagenet(n_images: int = 2) -> dict[str, bytes]:
    """The 123 shared classes are not named anywhere: any 123 of tieredImageNet's do here, and one that is not its."""
    names = [*sorted(tieredimagenet_splits())[:123], "n99999999"]
    train = {f"tiny-imagenet-200/train/{n}/images/{n}_{k}.JPEG": gray(k) for n in names for k in range(n_images)}
    return {**train, f"tiny-imagenet-200/val/images/{names[0]}.JPEG": b"not read"}


def test_tiny_tiered_is_read_from_the_zip_or_its_folder(tmp_path: Path) -> None:
    zipped(tmp_path / "tiny-imagenet-200.zip", tiny_imagenet())
    write(tmp_path / "unpacked", tiny_imagenet())
    roots = (tmp_path, tmp_path / "tiny-imagenet-200.zip", tmp_path / "unpacked")
    stores = [load_dataset("tiny-tiered", root) for root in roots]
    assert len(stores[0].classes) == 123 and stores[0].image_shape == (32, 32, 3)
    assert len({store.content_hash for store in stores}) == 1


def test_an_incomplete_tiny_imagenet_is_refused(tmp_path: Path) -> None:
    files = {name: b"" for name in tiny_imagenet() if sorted(tieredimagenet_splits())[0] not in name}
    with pytest.raises(SalaError, match="122 of the 123"):
        load_dataset("tiny-tiered", zipped(tmp_path / "t.zip", files))


@pytest.mark.slow
def test_real_tiny_tiered_has_61_17_and_45_classes_of_500(real_data: Path) -> None:
    store = load_dataset("tiny-tiered", real_data / "tiny-imagenet")
    assert n_classes(store) == [61, 17, 45]
    assert {entry.count for entry in store.classes} == {500}

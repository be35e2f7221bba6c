"""The loaders: each layout of each dataset becomes the same kind of store, with the published split."""

from __future__ import annotations

import base64
import io
import os
import pickle
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from trees import write, zipped

from sala.cli import main
from sala.data import DATASETS, ImageStore, load_dataset, omniglot
from sala.data.files import Tree, decode
from sala.data.glyphs import FACES, SCRIPTS, candidate_letters, distinct, read_glyphs
from sala.data.splits import miniimagenet_splits, omniglot_split, tieredimagenet_splits
from sala.data.store import SPLITS
from sala.data.tieredimagenet import stream_npz
from sala.errors import SalaError


@pytest.fixture(autouse=True)
def own_cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Stores of made-up files go where the test ends; stores of the session are made before."""
    for name in ("glyphs", "omniglot", "real_data"):
        if name in request.fixturenames:
            request.getfixturevalue(name)
    monkeypatch.setenv("SALA_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("SALA_DATA", raising=False)


def encoded(
    level: int | tuple[int, ...], form: str = "PNG", mode: str = "RGB", size: tuple[int, int] = (8, 8)
) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, level).save(file, form)
    return file.getvalue()


def grey(level: int) -> bytes:
    return encoded((level, level, level))


def classes_of(*names: str, n_images: int = 2) -> dict[str, bytes]:
    """Class folders; image k of class c is grey of the level 10 c + k."""
    return {f"{name}/{k}.png": grey(10 * c + k) for c, name in enumerate(names) for k in range(n_images)}


def levels(store: ImageStore) -> list[int]:
    return [int(level) for level in store.images[:, 0, 0, 0]]


def splits_of(store: ImageStore) -> dict[str, str]:
    return {entry.name: entry.split for entry in store.classes}


def n_classes(store: ImageStore) -> list[int]:
    return [len(store.split(split)) for split in SPLITS]


# glyphs


def test_glyphs_are_many_letters_with_many_images(glyphs: ImageStore) -> None:
    assert len(glyphs.classes) >= 600
    assert min(entry.count for entry in glyphs.classes) >= 20
    assert glyphs.image_shape == (28, 28, 1)


def test_no_script_of_the_glyphs_is_in_two_splits(glyphs: ImageStore) -> None:
    scripts = [{entry.name.split("/")[0] for entry in glyphs.split(split)} for split in SPLITS]
    assert sum(map(len, scripts)) == len(set.union(*scripts)) == sum(map(len, SCRIPTS.values()))


def test_glyphs_are_drawn_the_same_every_time(glyphs: ImageStore) -> None:
    again = read_glyphs(None, 28)
    assert [(c.name, c.split, c.count) for c in again.classes] == [(c.name, c.split, c.count) for c in glyphs.classes]
    for row, (_, image) in enumerate(islice(again.images, 200)):
        assert np.array_equal(image, glyphs.images[row])


@pytest.mark.slow
def test_glyphs_built_twice_have_one_content_hash(glyphs: ImageStore) -> None:
    assert load_dataset("glyphs").content_hash == glyphs.content_hash  # in another cache, so drawn again


def test_letters_that_look_alike_are_one_class(glyphs: ImageStore) -> None:
    names = [entry.name for entry in glyphs.classes]
    assert [n for n in names if n.endswith(("U+0041", "U+0391", "U+0410"))] == ["latin/U+0041"]  # A, Alpha, Cyrillic A


def test_a_letter_and_its_double_are_kept_once_and_another_letter_stays() -> None:
    letters = {letter.character: letter for letter in candidate_letters()}
    assert [k.character for k in distinct([letters["A"], letters["Α"], letters["B"]])] == ["A", "B"]


def test_the_fonts_of_the_glyphs_are_text_fonts() -> None:
    assert FACES and not any("LastResort" in face for face in FACES)  # its letters are boxes that name their block


def test_glyphs_differ_from_image_to_image_and_show_bright_ink(glyphs: ImageStore) -> None:
    letter = glyphs.images[:20].astype(int)
    assert len(np.unique(letter.reshape(20, -1), axis=0)) == 20
    assert letter[:, 10:18, 10:18].mean() > letter[:, [0, -1]].mean() + 50


# Omniglot


def drawing(level: int = 0) -> bytes:
    """Black ink in the upper left corner of white paper, as in the official files."""
    image = Image.new("1", (105, 105), 1)
    image.paste(0, (0, 0, 30 + level, 30))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


OMNIGLOT_FILES = {
    "images_background": {"Latin/character01": "0001", "Gurmukhi/character41": "0002", "Gurmukhi/character42": "0003"},
    "images_evaluation": {"Hebrew/character03": "0004", "Tengwar/character02": "0005"},
}


@pytest.fixture
def small_omniglot(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, bytes]]:
    """The files of the two parts of an Omniglot of five characters with two drawings each."""
    monkeypatch.setattr(omniglot_module(), "N_CHARACTERS", 5)
    monkeypatch.setattr(omniglot_module(), "N_DRAWINGS", 2)
    return {
        part: {
            f"{part}/{character}/{number}_{k:02d}.png": drawing(10 * k)
            for character, number in characters.items()
            for k in (1, 2)
        }
        for part, characters in OMNIGLOT_FILES.items()
    }


def omniglot_module() -> Any:
    return omniglot


def test_omniglot_is_read_from_its_two_zips(tmp_path: Path, small_omniglot: dict[str, dict[str, bytes]]) -> None:
    for part, files in small_omniglot.items():
        zipped(tmp_path / f"{part}.zip", files)
    store = load_dataset("omniglot", tmp_path)
    assert n_classes(store) == [8, 4, 8] and {entry.count for entry in store.classes} == {2}
    assert store.image_shape == (28, 28, 1)


def test_unpacked_omniglot_is_the_same_data(tmp_path: Path, small_omniglot: dict[str, dict[str, bytes]]) -> None:
    for part, files in small_omniglot.items():
        zipped(tmp_path / f"{part}.zip", files)
        write(tmp_path / "unpacked", files)
    folders = load_dataset("omniglot", tmp_path / "unpacked")
    assert folders.content_hash == load_dataset("omniglot", tmp_path).content_hash


def test_what_macos_adds_to_a_zip_is_no_drawing(tmp_path: Path, small_omniglot: dict[str, dict[str, bytes]]) -> None:
    for part, files in small_omniglot.items():
        extra = {f"__MACOSX/{name.replace('/0', '/._0')}": b"resource fork" for name in files}
        zipped(tmp_path / f"{part}.zip", {**files, **extra})
    assert len(load_dataset("omniglot", tmp_path)) == 5 * 4 * 2


def test_ink_is_bright_and_rotations_turn_it(tmp_path: Path, small_omniglot: dict[str, dict[str, bytes]]) -> None:
    for files in small_omniglot.values():
        write(tmp_path, files)
    store = load_dataset("omniglot", tmp_path)
    upright, left = (store.images[store.classes[i].start, :, :, 0] for i in (0, 1))
    assert upright[2, 2] == 255 and upright[-2, -2] == 0
    assert np.array_equal(left, np.rot90(upright)) and left[-2, 2] == 255


def test_an_omniglot_with_a_part_missing_is_refused(
    tmp_path: Path, small_omniglot: dict[str, dict[str, bytes]]
) -> None:
    write(tmp_path, small_omniglot["images_background"])
    with pytest.raises(SalaError, match=r"has neither images_evaluation\.zip nor a folder images_evaluation"):
        load_dataset("omniglot", tmp_path)


def test_an_omniglot_with_characters_missing_is_refused(
    tmp_path: Path, small_omniglot: dict[str, dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for files in small_omniglot.values():
        write(tmp_path, files)
    monkeypatch.setattr(omniglot_module(), "N_CHARACTERS", 1623)
    with pytest.raises(SalaError, match="has 5 characters where the official parts have 1,623; get both parts again"):
        load_dataset("omniglot", tmp_path)


def test_an_omniglot_with_a_drawing_missing_is_refused(
    tmp_path: Path, small_omniglot: dict[str, dict[str, bytes]]
) -> None:
    for files in small_omniglot.values():
        write(tmp_path, files)
    (tmp_path / "images_evaluation/Tengwar/character02/0005_01.png").unlink()
    with pytest.raises(SalaError, match="has 1 drawings of Tengwar/character02 where the official parts have 2"):
        load_dataset("omniglot", tmp_path)


def test_real_omniglot_has_the_published_number_of_classes(omniglot: ImageStore) -> None:
    assert n_classes(omniglot) == [4112, 688, 1692]
    assert {entry.count for entry in omniglot.classes} == {20}


def test_real_omniglot_rotations_are_exact(omniglot: ImageStore) -> None:
    for first in range(0, len(omniglot.classes), 400):
        upright, *turned = (omniglot.images[c.start : c.start + c.count] for c in omniglot.classes[first : first + 4])
        for k, images in enumerate(turned, start=1):
            assert np.array_equal(images, np.rot90(upright, k, axes=(1, 2)))


def test_real_omniglot_has_bright_ink_on_dark_paper(omniglot: ImageStore) -> None:
    some = omniglot.images[::97]
    assert 0 < some.mean() < 64 and some.max() > 200 and np.median(some) == 0


# the published lists


def lists_of(real_data: Path, dataset: str, suffix: str) -> dict[str, list[str]]:
    if not (real_data / "splits").is_dir():
        pytest.skip("the data folder has no splits/")
    paths = {split: real_data / "splits" / f"{dataset}_{split}.{suffix}" for split in SPLITS}
    return {split: path.read_text().split() for split, path in paths.items()}


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
        write(tmp_path, {f"{i}{k}.png": grey(i) for k in (0, 1)})
        (tmp_path / f"{split}.csv").write_text(f"\ufefflabel,filename\r\nn{i},{i}0.png\r\nn{i},{i}1.png\r\n\r\n")
    assert levels(load_dataset("miniimagenet", tmp_path)) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("dataset", ["miniimagenet", "tieredimagenet"])
def test_class_folders_are_split_by_the_published_list(tmp_path: Path, dataset: str) -> None:
    splits = {"miniimagenet": miniimagenet_splits, "tieredimagenet": tieredimagenet_splits}[dataset]()
    names = [*splits, "n99999999"]  # one that is not on the list, as in all of ImageNet
    zipped(tmp_path / "all.zip", {f"top/{name}/{k}.png": grey(k) for name in names for k in (0, 1)})
    assert splits_of(load_dataset(dataset, tmp_path / "all.zip", image_size=8)) == splits


def test_class_folders_with_one_missing_are_refused(tmp_path: Path) -> None:
    names = sorted(miniimagenet_splits())[1:]
    write(tmp_path, {f"{name}/{k}.png": b"" for name in names for k in (0, 1)})
    with pytest.raises(SalaError, match="lacks 1 of 100 class folders, for example n01532829; add them"):
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
    array = np.frombuffer(grey(level), np.uint8)
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
        images = [grey(k) for k in range(len(tiered_labels(split)["label_specific"]))]
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
        images = [grey(k) for k in range(len(tiered_labels(split)["label_specific"]))]
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
    train = {f"tiny-imagenet-200/train/{n}/images/{n}_{k}.JPEG": grey(k) for n in names for k in range(n_images)}
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
    with pytest.raises(SalaError, match="holds 122 of the 123 classes"):
        load_dataset("tiny-tiered", zipped(tmp_path / "t.zip", files))


@pytest.mark.slow
def test_real_tiny_tiered_has_61_17_and_45_classes_of_500(real_data: Path) -> None:
    store = load_dataset("tiny-tiered", real_data / "tiny-imagenet")
    assert n_classes(store) == [61, 17, 45]
    assert {entry.count for entry in store.classes} == {500}


# folders of anyone's images


def test_a_folder_and_its_zip_are_the_same_data(tmp_path: Path) -> None:
    files = classes_of("cat", "dog", "owl", "yak")
    folder = load_dataset("folder", write(tmp_path / "photos", files), image_size=8)
    archive = load_dataset("folder", zipped(tmp_path / "photos.zip", files), image_size=8)
    assert folder.content_hash == archive.content_hash and sorted(levels(folder)) == [0, 1, 10, 11, 20, 21, 30, 31]


def test_the_folder_around_all_classes_is_not_part_of_their_names(tmp_path: Path) -> None:
    files = {f"photos/{name}": content for name, content in classes_of("cat", "dog", "owl").items()}
    assert sorted(splits_of(load_dataset("folder", zipped(tmp_path / "z.zip", files)))) == ["cat", "dog", "owl"]


def test_a_zip_with_backslashes_is_read(tmp_path: Path) -> None:
    files = classes_of("cat", "dog", "owl")
    windows = load_dataset("folder", zipped(tmp_path / "w.zip", {n.replace("/", "\\"): c for n, c in files.items()}))
    assert windows.content_hash == load_dataset("folder", zipped(tmp_path / "p.zip", files)).content_hash


def test_class_folders_that_are_links_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", classes_of("cat"))
    write(tmp_path / "photos", classes_of("dog", "owl"))
    (tmp_path / "photos" / "cat").symlink_to(tmp_path / "elsewhere" / "cat")
    (tmp_path / "photos" / "dog" / "loop").symlink_to(tmp_path / "photos")
    assert sorted(splits_of(load_dataset("folder", tmp_path / "photos"))) == ["cat", "dog", "owl"]


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM"])
def test_many_kinds_of_images_are_read(tmp_path: Path, form: str) -> None:
    suffix = {"JPEG": "JPG", "TIFF": "tif"}.get(form, form.lower())
    write(tmp_path, {f"{c}/{k}.{suffix}": encoded((80, 80, 80), form) for c in "abc" for k in (0, 1)})
    assert np.allclose(levels(load_dataset("folder", tmp_path)), 80, atol=2)


def test_images_take_the_size_that_is_asked_for(tmp_path: Path) -> None:
    root = write(tmp_path, classes_of("cat", "dog", "owl"))
    assert load_dataset("folder", root).image_shape == (84, 84, 3)
    assert load_dataset("folder", root, image_size=20).image_shape == (20, 20, 3)


@pytest.mark.parametrize("size", [0, -5, 7, 100_000])
def test_an_image_size_without_sense_is_refused(size: int) -> None:
    with pytest.raises(SalaError, match=f"images are 8 to 1024 pixels wide; got an image size of {size}"):
        load_dataset("glyphs", image_size=size)


def test_folders_named_after_the_splits_are_the_split(tmp_path: Path) -> None:
    store = load_dataset("folder", write(tmp_path, classes_of("train/cat", "val/dog", "test/owl")))
    assert splits_of(store) == {"train/cat": "train", "val/dog": "val", "test/owl": "test"}


def test_a_class_in_two_split_folders_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path, classes_of("train/cat", "val/dog", "test/cat"))
    with pytest.raises(SalaError, match=r"the class 'cat' in test and in train; few-shot splits divide the classes"):
        load_dataset("folder", root)


def test_a_list_decides_the_split(tmp_path: Path) -> None:
    root = write(tmp_path / "photos", classes_of("cat", "dog", "owl"))
    listing = tmp_path / "splits.csv"
    listing.write_text("class,split\ncat,test\ndog, train\nowl,val\n")
    assert splits_of(load_dataset("folder", root, split_file=str(listing))) == {
        "cat": "test",
        "dog": "train",
        "owl": "val",
    }


def test_an_edited_list_makes_another_store(tmp_path: Path) -> None:
    root = write(tmp_path / "photos", classes_of("cat", "dog"))
    listing = tmp_path / "splits.csv"
    seen = []
    for lines in ("cat,test\ndog,train\n", "cat,train\ndog,test\n"):
        listing.write_text(lines)
        seen.append(splits_of(load_dataset("folder", root, split_file=str(listing)))["cat"])
    assert seen == ["test", "train"]


def test_a_seed_draws_the_split_60_20_20(tmp_path: Path) -> None:
    root = write(tmp_path, classes_of(*"abcdefghij"))
    stores = [load_dataset("folder", root, image_size=8, split_seed=seed) for seed in (0, 0, 1)]
    assert all(n_classes(store) == [6, 2, 2] for store in stores)
    assert splits_of(stores[0]) == splits_of(stores[1]) != splits_of(stores[2])


def test_an_option_that_a_dataset_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SalaError, match="omniglot has no option split_file; leave it out"):
        load_dataset("omniglot", tmp_path, split_file="x.csv")


def test_new_files_make_a_new_store(tmp_path: Path) -> None:
    root = write(tmp_path / "photos", classes_of("cat", "dog", "owl"))
    assert len(load_dataset("folder", root)) == 6
    write(root, {"cat/new.png": grey(9)})
    os.utime(root / "cat", ns=(1, 1))
    assert len(load_dataset("folder", root)) == 7


def test_a_changed_file_makes_a_new_store(tmp_path: Path) -> None:
    root = write(tmp_path / "photos", classes_of("cat", "dog", "owl"))
    assert 200 not in levels(load_dataset("folder", root))
    write(root, {"cat/1.png": grey(200)})  # in place: the folder does not notice
    assert 200 in levels(load_dataset("folder", root))


def test_hidden_files_and_other_files_are_passed_over(tmp_path: Path) -> None:
    others = {".git/x.png": b"", "cat/.DS_Store": b"", "cat/._0.png": b"", "dog/notes.txt": b"", "README": b""}
    assert len(load_dataset("folder", write(tmp_path, {**classes_of("cat", "dog", "owl"), **others}))) == 6


def test_without_files_the_newest_prepared_store_is_taken(tmp_path: Path) -> None:
    prepared = load_dataset("folder", write(tmp_path, classes_of("cat", "dog", "owl")))
    assert load_dataset("folder").folder == prepared.folder


# all sorts of images


def pixel(content: bytes, mode: str = "RGB") -> list[int]:
    """The upper left pixel after decoding at 8 x 8."""
    return [int(level) for level in decode(content, "here", image_size=8, mode=mode)[0, 0]]


def test_a_cmyk_jpeg_becomes_rgb() -> None:
    red, green, blue = pixel(encoded((0, 255, 255, 0), "JPEG", "CMYK"))
    assert red > 200 and green < 50 and blue < 50


def test_a_grey_image_has_three_equal_channels() -> None:
    assert pixel(encoded(77, mode="L")) == [77, 77, 77]


def test_a_colour_image_becomes_grey_where_one_channel_is_asked_for() -> None:
    assert pixel(encoded((100, 100, 100)), mode="L") == [100]


def test_a_transparent_palette_image_lies_on_white() -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([200, 0, 0, 0, 200, 0])
    file = io.BytesIO()
    image.save(file, "PNG", transparency=0)
    assert pixel(file.getvalue()) == [255, 255, 255]


def test_half_transparent_black_over_white_is_grey() -> None:
    assert np.allclose(pixel(encoded((0, 0, 0, 128), mode="RGBA")), 127, atol=1)


@pytest.mark.parametrize(("level", "expected"), [(65535, 255), (32896, 128), (200, 1), (0, 0)])
def test_16_bit_grey_is_scaled_to_8_bits(level: int, expected: int) -> None:
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8), level, np.uint16)).save(file, "TIFF")
    assert pixel(file.getvalue(), mode="L") == [expected]


@pytest.mark.parametrize(("level", "expected"), [(1.0, 255), (200.0, 200), (float("nan"), 0)])
def test_a_tiff_of_floats_is_scaled_by_its_range(level: float, expected: int) -> None:
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8), level, np.float32)).save(file, "TIFF")
    assert pixel(file.getvalue(), mode="L") == [expected]


def test_an_image_that_the_camera_says_is_turned_is_turned_back() -> None:
    image = Image.new("RGB", (8, 8), "black")
    image.paste((255, 255, 255), (0, 0, 4, 8))  # left half white
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise: left comes to the top
    file = io.BytesIO()
    image.save(file, "PNG", exif=exif)
    upright = decode(file.getvalue(), "here", image_size=8, mode="L")[:, :, 0]
    assert upright[0].tolist() == [255] * 8 and upright[-1].tolist() == [0] * 8


def test_broken_camera_notes_do_not_spoil_an_image() -> None:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (90, 90, 90)).save(file, "JPEG", exif=b"Exif\0\0garbage, not TIFF")
    assert np.allclose(pixel(file.getvalue()), 90, atol=2)


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_counts(form: str) -> None:
    frames = [Image.new("RGB", (8, 8), (level,) * 3) for level in (50, 150, 250)]
    file = io.BytesIO()
    frames[0].save(file, form, save_all=True, append_images=frames[1:])
    assert np.allclose(pixel(file.getvalue()), 50, atol=3)


def test_a_large_jpeg_is_scaled_with_antialiasing() -> None:
    stripes = np.tile(np.array([0, 255], np.uint8), (800, 400))
    file = io.BytesIO()
    Image.fromarray(stripes).save(file, "JPEG", quality=95)
    assert np.allclose(decode(file.getvalue(), "here", image_size=8, mode="L"), 127, atol=6)


# the commands


@pytest.fixture
def sala(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """Run a command; what it printed on stdout."""

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["sala", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        return capsys.readouterr().out

    return run


def test_data_list_shows_every_dataset_and_what_is_ready(tmp_path: Path, sala: Any) -> None:
    load_dataset("folder", write(tmp_path, classes_of("cat", "dog", "owl")))
    lines = sala("data", "list").splitlines()
    assert all(any(line.startswith(name) for line in lines) for name in DATASETS)
    assert [line.split()[-1] for line in lines if line.startswith(("omniglot", "folder"))] == ["-", "yes"]


def test_data_prepare_prints_the_splits_the_hash_and_the_place(tmp_path: Path, sala: Any) -> None:
    printed = sala("data", "prepare", "folder", "--root", str(write(tmp_path, classes_of("cat", "dog", "owl"))))
    store = load_dataset("folder")
    assert "folder: 84 x 84 pixels, RGB" in printed
    assert ["val", "1", "2", "2"] in [line.split() for line in printed.splitlines()]
    assert store.content_hash in printed and str(store.folder) in printed


def test_data_prepare_takes_a_seed_for_the_split(tmp_path: Path, sala: Any) -> None:
    root = str(write(tmp_path, classes_of(*"abcdefghij")))
    hashes = {
        sala("data", "prepare", "folder", "--root", root, "--split-seed", seed).split("hash")[1] for seed in "012"
    }
    assert len(hashes) == 3


def test_data_info_tells_the_protocol_and_verifies(tmp_path: Path, sala: Any) -> None:
    load_dataset("folder", write(tmp_path, classes_of("cat", "dog", "owl")))
    printed = sala("data", "info", "folder", "--verify")
    assert "training episodes: 5-way 1-shot" in printed
    assert "verified: the images have the content hash above" in printed


@pytest.mark.parametrize("command", ["list", "prepare", "info", "fetch"])
def test_the_help_of_a_data_command_explains_itself(command: str, sala: Any) -> None:
    printed = sala("data", command, "--help")
    assert f"sala data {command}" in printed and (command == "list" or "Example" in printed)


def test_the_help_of_prepare_names_the_files_of_every_dataset(sala: Any) -> None:
    printed = sala("data", "prepare", "--help")
    files = ("images_background.zip", "mini-imagenet-cache-", "_images_png.pkl", "tiny-imagenet-200.zip", "class_name/")
    assert all(name in printed for name in (*DATASETS, *files))


def test_a_tree_lists_a_zip_as_it_lists_a_folder(tmp_path: Path) -> None:
    files = {"a/b/1.png": b"1", "a/2.png": b"2"}
    archive, folder = Tree(zipped(tmp_path / "z.zip", files)), Tree(write(tmp_path / "f", files))
    assert archive.files() == folder.files() == ["a/2.png", "a/b/1.png"]
    assert archive.folders() == folder.folders() == {"a", "a/b"}
    assert archive.read("a/2.png") == folder.read("a/2.png") == b"2"

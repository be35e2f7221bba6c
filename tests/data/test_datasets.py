"""Folders of anyone's images as datasets, and the commands about data."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sala.cli.app import main
from sala.data import DATASETS, load_dataset
from sala.data.files import Tree
from sala.errors import SalaError
from tests.helpers.trees import classes_of, encoded, gray, levels, n_classes, splits_of, write, zipped

pytestmark = pytest.mark.usefixtures("own_cache")


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
    with pytest.raises(SalaError, match=f"8 to 1024 .* {size}"):
        load_dataset("glyphs", image_size=size)


def test_folders_named_after_the_splits_are_the_split(tmp_path: Path) -> None:
    store = load_dataset("folder", write(tmp_path, classes_of("train/cat", "val/dog", "test/owl")))
    assert splits_of(store) == {"train/cat": "train", "val/dog": "val", "test/owl": "test"}


def test_a_class_in_two_split_folders_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path, classes_of("train/cat", "val/dog", "test/cat"))
    with pytest.raises(SalaError, match=r"'cat' in test and in train"):
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
    with pytest.raises(SalaError, match="split_file"):
        load_dataset("omniglot", tmp_path, split_file="x.csv")


def test_new_files_make_a_new_store(tmp_path: Path) -> None:
    root = write(tmp_path / "photos", classes_of("cat", "dog", "owl"))
    assert len(load_dataset("folder", root)) == 6
    write(root, {"cat/new.png": gray(9)})
    os.utime(root / "cat", ns=(1, 1))
    assert len(load_dataset("folder", root)) == 7


def test_a_changed_file_makes_a_new_store(tmp_path: Path) -> None:
    root = write(tmp_path / "photos", classes_of("cat", "dog", "owl"))
    assert 200 not in levels(load_dataset("folder", root))
    write(root, {"cat/1.png": gray(200)})  # in place: the folder does not notice
    assert 200 in levels(load_dataset("folder", root))


def test_hidden_files_and_other_files_are_passed_over(tmp_path: Path) -> None:
    others = {".git/x.png": b"", "cat/.DS_Store": b"", "cat/._0.png": b"", "dog/notes.txt": b"", "README": b""}
    assert len(load_dataset("folder", write(tmp_path, {**classes_of("cat", "dog", "owl"), **others}))) == 6


def test_without_files_the_newest_prepared_store_is_taken(tmp_path: Path) -> None:
    prepared = load_dataset("folder", write(tmp_path, classes_of("cat", "dog", "owl")))
    assert load_dataset("folder").folder == prepared.folder


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

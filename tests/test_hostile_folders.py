"""Folders and lists of classes that are not as they should be: one sentence on stderr, exit code 1, nothing in the cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from trees import Prepare, grey, photos, write


def test_an_empty_class_folder_is_named(tmp_path: Path, prepare: Prepare) -> None:
    (write(tmp_path, photos()) / "yak").mkdir()
    assert prepare("folder", tmp_path) == (
        f"the class folder yak in {tmp_path} has no images; add some or remove the folder"
    )


def test_a_class_of_one_image_is_named(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {**photos(), "yak/0.png": grey()})
    assert prepare("folder", tmp_path) == (
        f"class 'yak' in {tmp_path} has one image and needs two at least; add some or remove it"
    )


def test_an_empty_folder_is_told_what_it_should_hold(tmp_path: Path, prepare: Prepare) -> None:
    assert prepare("folder", tmp_path) == (f"{tmp_path} holds no images; it should be a tree of class_name/image.jpg")


def test_images_beside_the_class_folders_are_named(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {**photos(), "stray.png": grey()})
    assert prepare("folder", tmp_path) == (
        f"{tmp_path} holds images outside class folders (stray.png); put each in class_name/"
    )


def test_two_classes_are_too_few_for_three_splits(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {name: content for name, content in photos().items() if "owl" not in name})
    assert "has 2 class folders, and train, val and test need one each at least; add classes" in prepare(
        "folder", tmp_path
    )


def test_a_folder_named_like_an_image_is_an_empty_class(tmp_path: Path, prepare: Prepare) -> None:
    (write(tmp_path, photos()) / "cat" / "2.png").mkdir()
    assert f"the class folder cat/2.png in {tmp_path} has no images" in prepare("folder", tmp_path)


@pytest.mark.parametrize("dataset", ["omniglot", "miniimagenet", "tieredimagenet", "tiny-tiered"])
def test_a_folder_with_nothing_of_a_dataset_gets_a_sentence(tmp_path: Path, prepare: Prepare, dataset: str) -> None:
    assert str(tmp_path) in prepare(dataset, tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("what", ["cat/0.png", "cat"])
def test_what_may_not_be_read_is_named(tmp_path: Path, prepare: Prepare, what: str) -> None:
    path = write(tmp_path, photos()) / what
    path.chmod(0)
    try:
        assert prepare("folder", tmp_path) == (f"{path} cannot be read (Permission denied); allow this user to read it")
    finally:
        path.chmod(0o755)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"cat,train\ndog,train\n", "does not list the class 'owl'; add a line owl,train (or val, or test)"),
        (b"cat,train\ndog\nowl,val\n", "each line is class,split with a split of train, val, test; correct 'dog'"),
        (b"cat,dev\n", "each line is class,split with a split of train, val, test; correct 'cat,dev'"),
        (b"cat,tr\0ain\n", "is not a CSV file"),
        (b"caf\xe9,train\n", "is not a CSV file in UTF-8"),
        (b"PK\x03\x04\xff\xfe\0\0", "is not a CSV file"),
    ],
)
def test_a_broken_split_list_is_explained(tmp_path: Path, prepare: Prepare, content: bytes, sentence: str) -> None:
    write(tmp_path / "photos", photos())
    (tmp_path / "list.csv").write_bytes(content)
    told = prepare("folder", tmp_path / "photos", "--split-file", str(tmp_path / "list.csv"))
    assert told.startswith(f"{tmp_path}/list.csv") and sentence in told


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: None], ids=["a folder", "missing"])
def test_a_split_list_that_is_no_file_is_named(tmp_path: Path, prepare: Prepare, make: Callable[[Path], None]) -> None:
    write(tmp_path / "photos", photos())
    make(tmp_path / "list.csv")
    told = prepare("folder", tmp_path / "photos", "--split-file", str(tmp_path / "list.csv"))
    assert told.startswith(f"{tmp_path}/list.csv ") and ("not a file" in told or "cannot be read" in told)


def test_a_split_seed_below_zero_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    assert prepare("folder", write(tmp_path, photos()), "--split-seed", "-1") == (
        "a split seed must be at least 0; got -1"
    )


def test_an_option_of_another_dataset_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    assert prepare("omniglot", tmp_path, "--split-seed", "3") == "omniglot has no option split_seed; leave it out"


def test_a_root_for_the_built_in_letters_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    assert prepare("glyphs", tmp_path) == "glyphs is built in and reads no files; leave --root out"


def test_a_dataset_that_is_none_is_answered_with_those_there_are(tmp_path: Path, prepare: Prepare) -> None:
    assert prepare("imagenet", tmp_path).startswith("there is no dataset 'imagenet'; the datasets are glyphs, omniglot")

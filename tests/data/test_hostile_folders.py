"""Folders and lists of classes that are not as they should be: one sentence on stderr, exit code 1, nothing in the cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.trees import Prepare, gray, photos, write


def test_an_empty_class_folder_is_named(tmp_path: Path, prepare: Prepare) -> None:
    (write(tmp_path, photos()) / "yak").mkdir()
    assert "yak" in prepare("folder", tmp_path)


def test_a_class_of_one_image_is_named(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {**photos(), "yak/0.png": gray()})
    assert "'yak'" in (told := prepare("folder", tmp_path)) and "one image" in told


def test_an_empty_folder_is_told_what_it_should_hold(tmp_path: Path, prepare: Prepare) -> None:
    assert "no images" in prepare("folder", tmp_path)


def test_images_beside_the_class_folders_are_named(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {**photos(), "stray.png": gray()})
    assert "stray.png" in prepare("folder", tmp_path)


def test_two_classes_are_too_few_for_three_splits(tmp_path: Path, prepare: Prepare) -> None:
    write(tmp_path, {name: content for name, content in photos().items() if "owl" not in name})
    assert "2 class folders" in prepare("folder", tmp_path)


def test_a_folder_named_like_an_image_is_an_empty_class(tmp_path: Path, prepare: Prepare) -> None:
    (write(tmp_path, photos()) / "cat" / "2.png").mkdir()
    assert "cat/2.png" in prepare("folder", tmp_path)


@pytest.mark.parametrize("dataset", ["omniglot", "miniimagenet", "tieredimagenet", "tiny-tiered"])
def test_a_folder_with_nothing_of_a_dataset_gets_a_sentence(tmp_path: Path, prepare: Prepare, dataset: str) -> None:
    assert str(tmp_path) in prepare(dataset, tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("what", ["cat/0.png", "cat"])
def test_what_may_not_be_read_is_named(tmp_path: Path, prepare: Prepare, what: str) -> None:
    path = write(tmp_path, photos()) / what
    path.chmod(0)
    try:
        assert f"{path} cannot be read" in prepare("folder", tmp_path)
    finally:
        path.chmod(0o755)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"cat,train\ndog,train\n", "'owl'"),
        (b"cat,train\ndog\nowl,val\n", "'dog'"),
        (b"cat,dev\n", "'cat,dev'"),
        (b"cat,tr\0ain\n", "CSV"),
        (b"caf\xe9,train\n", "CSV"),
        (b"PK\x03\x04\xff\xfe\0\0", "CSV"),
    ],
)
def test_a_broken_split_list_is_explained(tmp_path: Path, prepare: Prepare, content: bytes, word: str) -> None:
    write(tmp_path / "photos", photos())
    (tmp_path / "list.csv").write_bytes(content)
    told = prepare("folder", tmp_path / "photos", "--split-file", str(tmp_path / "list.csv"))
    assert told.startswith(f"{tmp_path}/list.csv") and word in told


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: None], ids=["a folder", "missing"])
def test_a_split_list_that_is_no_file_is_named(tmp_path: Path, prepare: Prepare, make: Callable[[Path], None]) -> None:
    write(tmp_path / "photos", photos())
    make(tmp_path / "list.csv")
    told = prepare("folder", tmp_path / "photos", "--split-file", str(tmp_path / "list.csv"))
    assert told.startswith(f"{tmp_path}/list.csv ") and ("not a file" in told or "cannot be read" in told)


def test_a_split_seed_below_zero_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    assert "-1" in prepare("folder", write(tmp_path, photos()), "--split-seed", "-1")


def test_an_option_of_another_dataset_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    assert "split_seed" in prepare("omniglot", tmp_path, "--split-seed", "3")


def test_a_root_for_the_built_in_letters_is_refused(tmp_path: Path, prepare: Prepare) -> None:
    assert "--root" in prepare("glyphs", tmp_path)


def test_a_dataset_that_is_none_is_answered_with_those_there_are(tmp_path: Path, prepare: Prepare) -> None:
    assert "glyphs, omniglot" in prepare("imagenet", tmp_path)

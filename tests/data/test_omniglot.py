"""Omniglot, from its zips and unpacked: the official files and nothing less become classes, four rotations each."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sala.data import ImageStore, load_dataset, omniglot
from sala.errors import SalaError
from tests.helpers.trees import n_classes, write, zipped

pytestmark = pytest.mark.usefixtures("own_cache")


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
    with pytest.raises(SalaError, match=r"images_evaluation\.zip"):
        load_dataset("omniglot", tmp_path)


def test_an_omniglot_with_characters_missing_is_refused(
    tmp_path: Path, small_omniglot: dict[str, dict[str, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for files in small_omniglot.values():
        write(tmp_path, files)
    monkeypatch.setattr(omniglot_module(), "N_CHARACTERS", 1623)
    with pytest.raises(SalaError, match=r"5 characters .* 1,623"):
        load_dataset("omniglot", tmp_path)


def test_an_omniglot_with_a_drawing_missing_is_refused(
    tmp_path: Path, small_omniglot: dict[str, dict[str, bytes]]
) -> None:
    for files in small_omniglot.values():
        write(tmp_path, files)
    (tmp_path / "images_evaluation/Tengwar/character02/0005_01.png").unlink()
    with pytest.raises(SalaError, match="1 drawings of Tengwar/character02"):
        load_dataset("omniglot", tmp_path)


@pytest.mark.slow  # builds the whole store
def test_real_omniglot_has_the_published_number_of_classes(omniglot: ImageStore) -> None:
    assert n_classes(omniglot) == [4112, 688, 1692]
    assert {entry.count for entry in omniglot.classes} == {20}


@pytest.mark.slow  # builds the whole store
def test_real_omniglot_rotations_are_exact(omniglot: ImageStore) -> None:
    for first in range(0, len(omniglot.classes), 400):
        upright, *turned = (omniglot.images[c.start : c.start + c.count] for c in omniglot.classes[first : first + 4])
        for k, images in enumerate(turned, start=1):
            assert np.array_equal(images, np.rot90(upright, k, axes=(1, 2)))


@pytest.mark.slow  # builds the whole store
def test_real_omniglot_has_bright_ink_on_dark_paper(omniglot: ImageStore) -> None:
    some = omniglot.images[::97]
    assert 0 < some.mean() < 64 and some.max() > 200 and np.median(some) == 0

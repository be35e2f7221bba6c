"""The built-in letters: many, each drawn the same every time, no two classes alike."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from sala.data import ImageStore, load_dataset
from sala.data.glyphs import FACES, SCRIPTS, candidate_letters, distinct, read_glyphs
from sala.data.store import SPLITS

pytestmark = pytest.mark.usefixtures("own_cache")


def test_glyphs_are_many_letters_with_many_images(glyphs: ImageStore) -> None:
    assert len(glyphs.classes) >= 600
    assert min(entry.count for entry in glyphs.classes) >= 20
    assert glyphs.image_shape == (28, 28, 1)


def test_no_script_of_the_glyphs_is_in_two_splits(glyphs: ImageStore) -> None:
    scripts = [{entry.name.split("/")[0] for entry in glyphs.split(split)} for split in SPLITS]
    assert sum(map(len, scripts)) == len(set.union(*scripts)) == sum(map(len, SCRIPTS.values()))


@pytest.mark.slow
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

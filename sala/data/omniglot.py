"""Omniglot: 1,623 handwritten characters of 50 alphabets, 20 drawings each; four rotations make 6,492 classes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from sala.data.files import Tree
from sala.data.folder import is_image
from sala.data.images import decode
from sala.data.splits import omniglot_split
from sala.data.store import ClassEntry, Source
from sala.errors import SalaError

PARTS = ("images_background", "images_evaluation")
N_ROTATIONS = 4
N_CHARACTERS = 1623
N_DRAWINGS = 20  # of each character
CHARACTER = re.compile(r"character(\d+)")
Drawings = list[tuple[Tree, str]]  # files of one character


def read_omniglot(root: Path, image_size: int) -> Source:
    """From the two official zips or the folders unpacked from them; both parts are pooled, then split by alphabet."""
    characters: dict[tuple[str, int], Drawings] = defaultdict(list)
    for part in PARTS:
        tree = Tree(_find_part(root, part))
        for name in tree.files():
            parts = PurePosixPath(name).parts
            if is_image(name) and len(parts) >= 3 and (match := CHARACTER.fullmatch(parts[-2])):
                characters[parts[-3], int(match[1])].append((tree, name))
    _check_complete(characters, root)
    classes = [
        ClassEntry(_name(alphabet, number, turn), omniglot_split(alphabet, number), len(drawings))
        for (alphabet, number), drawings in sorted(characters.items())
        for turn in range(N_ROTATIONS)
    ]
    return Source(classes, _images(characters, image_size), (image_size, image_size, 1))


def _name(alphabet: str, number: int, turn: int) -> str:
    return f"{alphabet}/character{number:02d}/rot{90 * turn:03d}"


def _find_part(root: Path, part: str) -> Path:
    for folder in (root, root / "python"):  # the official repository keeps them in python/
        for candidate in (folder / f"{part}.zip", folder / part):
            if candidate.exists():
                return candidate
    raise SalaError(
        f"{root} has neither {part}.zip nor a folder {part}; put both official parts there, or run `sala data fetch omniglot`"
    )


def _check_complete(characters: dict[tuple[str, int], Drawings], root: Path) -> None:
    if len(characters) != N_CHARACTERS:
        raise SalaError(
            f"Omniglot in {root} has {len(characters):,} characters where the official parts have {N_CHARACTERS:,}; get both "
            "parts again"
        )
    for (alphabet, number), drawings in characters.items():
        if len(drawings) != N_DRAWINGS:
            raise SalaError(
                f"Omniglot in {root} has {len(drawings)} drawings of {alphabet}/character{number:02d} where the official "
                f"parts have {N_DRAWINGS}; get both parts again"
            )


def _images(characters: dict[tuple[str, int], Drawings], image_size: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    for index, (_, drawings) in enumerate(sorted(characters.items())):
        for tree, name in drawings:
            # gray before resizing (the files are 1-bit), then ink = 255, paper = 0
            image = 255 - decode(tree.read(name), tree.where(name), image_size=image_size, mode="L")
            for turn in range(N_ROTATIONS):
                yield N_ROTATIONS * index + turn, np.rot90(image, turn)

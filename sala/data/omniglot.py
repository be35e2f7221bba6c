"""Omniglot: 1,623 handwritten characters of 50 alphabets, 20 drawings each; four rotations make 6,492 classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from sala.data.files import Tree, decode
from sala.data.splits import omniglot_held_out_alphabets, omniglot_split
from sala.data.store import ClassEntry, Source
from sala.errors import SalaError

PARTS = ("images_background", "images_evaluation")
N_ROTATIONS = 4


def read_omniglot(root: Path, image_size: int) -> Source:
    """From the two official zips or the folders unpacked from them; both parts are pooled, then split by alphabet."""
    characters: dict[tuple[str, str], list[tuple[Tree, str]]] = defaultdict(list)
    for part in PARTS:
        tree = Tree(_find_part(root, part))
        for name in tree.files():
            parts = PurePosixPath(name).parts
            if name.endswith(".png") and len(parts) >= 3 and parts[-2].startswith("character"):
                characters[parts[-3], parts[-2]].append((tree, name))
    _check_complete(characters, root)
    classes = [
        ClassEntry(f"{alphabet}/{character}/rot{90 * turn:03d}", _split(alphabet, character), len(drawings))
        for (alphabet, character), drawings in sorted(characters.items())
        for turn in range(N_ROTATIONS)
    ]
    return Source(classes, _images(characters, image_size), (image_size, image_size, 1))


def _split(alphabet: str, character: str) -> str:
    return omniglot_split(alphabet, int(character.removeprefix("character")))


def _find_part(root: Path, part: str) -> Path:
    for folder in (root, root / "python"):  # the official repository keeps them in python/
        for candidate in (folder / f"{part}.zip", folder / part):
            if candidate.exists():
                return candidate
    raise SalaError(
        f"{root} has neither {part}.zip nor a folder {part}; put both official parts there, or run `sala data fetch omniglot`"
    )


def _check_complete(characters: dict[tuple[str, str], list[tuple[Tree, str]]], root: Path) -> None:
    alphabets = {alphabet for alphabet, _ in characters}
    missing = [alphabet for alphabet in omniglot_held_out_alphabets() if alphabet not in alphabets]
    if missing:
        raise SalaError(
            f"Omniglot in {root} lacks the alphabet {missing[0]!r} ({len(missing)} in all); get both parts again"
        )


def _images(
    characters: dict[tuple[str, str], list[tuple[Tree, str]]], image_size: int
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    for index, (_, drawings) in enumerate(sorted(characters.items())):
        for tree, name in drawings:
            # grey before resizing (the files are 1-bit), then ink = 255, paper = 0
            image = 255 - decode(tree.read(name), tree.where(name), image_size=image_size, mode="L")
            for turn in range(N_ROTATIONS):
                yield N_ROTATIONS * index + turn, np.rot90(image, turn)

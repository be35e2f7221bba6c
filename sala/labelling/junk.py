"""A folder of images that are of none of the classes, given by the user: they tell of others like them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sala.encoders import Encoder, embed_files
from sala.errors import SalaError
from sala.labelling.folders import check_folder, first_of_content, image_files, is_inside
from sala.points import Floats
from sala.wording import printable


@dataclass(frozen=True)
class Junk:
    """Its images that can be read, with their features, and what is wrong with others."""

    paths: list[Path] = field(default_factory=list)
    features: Floats | None = None
    set_aside: dict[Path, str] = field(default_factory=dict)

    def distinct(self, paths: list[Path], n_labelled: int) -> tuple[Junk, NDArray[np.int64], NDArray[np.bool_]]:
        """Each image once. Beside that, for each of the labelled images and the pool's the first with the same content, and
        whether that is junk. No labelled image may be."""
        first = first_of_content([*paths, *self.paths])
        n, original = len(paths), first[len(paths) :]
        for path, i in zip(self.paths, original.tolist(), strict=True):
            if i < n_labelled:
                names = f"{printable(str(paths[i]))} and {printable(str(path))}"
                raise SalaError(f"{names} are the same image, of a class and of none; remove one of them")
        rows = np.unique(original, return_index=True)[1]
        features = None if self.features is None else self.features[rows]
        return (
            replace(self, paths=[self.paths[i] for i in rows], features=features),
            first[:n],
            np.isin(first[:n], original),
        )


def read_junk(folder: Path | None, encoder: Encoder) -> Junk:
    """Nothing where there is no such folder; else at least one image."""
    if folder is None:
        return Junk()
    found = list(image_files(folder))
    paths = [path for path, problem in found if problem is None]
    embedded = embed_files(paths, encoder)
    set_aside = {path: problem for path, problem in found if problem is not None}
    set_aside |= {paths[i]: reason for i, reason in embedded.set_aside.items()}
    if not len(embedded.kept):
        why = f" that can be used ({next(iter(set_aside.values()))})" if set_aside else ""
        raise SalaError(
            f"{printable(str(folder))} has no image{why}; put some into it that are of no class, or leave it out"
        )
    return Junk([paths[i] for i in embedded.kept], embedded.features, set_aside)


def check_junk(folder: Path, labelled: Path, pool: Path, out: Path | None = None, copy_to: Path | None = None) -> None:
    """Refuse a folder that is not there, or whose images are, or would become, something else too."""
    check_folder(folder, "images of no class")
    shown = f"{printable(str(folder))} with images of no class"
    for other in (labelled, pool):
        if is_inside(folder, other) or is_inside(other, folder):
            raise SalaError(
                f"the folder {shown} and {printable(str(other))} lie in each other; give these images a folder of their own"
            )
    for place in [place for place in (out, copy_to) if place is not None]:
        if is_inside(place, folder):
            raise SalaError(
                f"{printable(str(place))} is in the folder {shown}, and what is written there would be of no class the next "
                "time; choose a folder outside"
            )
    if copy_to is not None and is_inside(folder, copy_to):
        raise SalaError(
            f"the folder {shown} is in {printable(str(copy_to))}, where sala sorts images as it sees them; copy those that "
            "are of no class indeed into a folder of their own"
        )

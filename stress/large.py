"""Images that are small files and have nearly as many pixels as are accepted: two at a time, in at most 400 MB."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from stress import readers
from stress.trials import Trial
from stress.world import MeanColor, World, in_child

SIDE = 8_900  # pixels: 79 million, below the limit of 80
MEGABYTES = 400
FORMS = (
    "deep.png",
    "alpha.png",
    "float.tif",
    "gray.png",
    "palette.gif",
    "progressive.jpg",
    "cmyk.jpg",
    "rgb.webp",
    "rgb.tif",
    "bits.png",
)


def trials(world: World, folder: Path, *, quick: bool) -> list[Trial]:
    folder.mkdir(parents=True)
    forms = FORMS[:2] if quick else FORMS
    return [Trial("files: large images", f"large {form}", partial(_attempt, form)) for form in forms]


def _attempt(form: str, folder: Path) -> str | None:
    in_child(lambda: _write(folder / form), folder)
    (folder / f"again-{form}").symlink_to(form)
    files = [folder / form, folder / f"again-{form}"]
    read = partial(_embed, files)
    return readers.problem_in_child(read, folder, folder, MEGABYTES)


def _write(path: Path) -> None:
    """All of one value, so that it takes few bytes."""
    size = (SIDE, SIDE)
    form = path.stem
    if form == "deep":
        Image.fromarray(np.full(size, 40_000, np.uint16)).save(path)
    elif form == "float":
        Image.fromarray(np.full(size, 0.5, np.float32)).save(path, compression="tiff_deflate")
    else:
        mode = {"alpha": "RGBA", "gray": "L", "palette": "P", "cmyk": "CMYK", "bits": "1"}.get(form, "RGB")
        more = {
            "progressive": {"progressive": True},
            "rgb": {"compression": "tiff_deflate"} if path.suffix == ".tif" else {},
        }
        Image.new(mode, size, 1 if mode in ("1", "P", "L") else (90,) * len(mode)).save(path, **more.get(form, {}))


def _embed(files: list[Path], folder: Path) -> None:
    from sala.encoders import embed_files

    found = embed_files(files, MeanColor(), cache=False)
    if len(found.kept) not in (0, 2):
        raise AssertionError(f"of one image, one is read and one is not: {found.skipped}")

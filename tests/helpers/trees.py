"""Images in folders and archives for tests, from a dict of names and contents, and what a store made of them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from sala.data import ImageStore
from sala.data.store import SPLITS

Prepare = Callable[..., str]  # the fixture `prepare`: dataset, root, further options -> what it was refused with


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def encoded(
    level: int | tuple[int, ...], form: str = "PNG", mode: str = "RGB", size: tuple[int, int] = (8, 8)
) -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, level).save(file, form)
    return file.getvalue()


def gray(level: int = 0, size: tuple[int, int] = (8, 8)) -> bytes:
    return encoded((level, level, level), size=size)


def classes_of(*names: str, n_images: int = 2) -> dict[str, bytes]:
    """Class folders; image k of class c is gray of the level 10 c + k."""
    return {f"{name}/{k}.png": gray(10 * c + k) for c, name in enumerate(names) for k in range(n_images)}


def levels(store: ImageStore) -> list[int]:
    return [int(level) for level in store.images[:, 0, 0, 0]]


def splits_of(store: ImageStore) -> dict[str, str]:
    return {entry.name: entry.split for entry in store.classes}


def n_classes(store: ImageStore) -> list[int]:
    return [len(store.split(split)) for split in SPLITS]


def jpeg() -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file, "JPEG")
    return file.getvalue()


def photos() -> dict[str, bytes]:
    """Three sound classes of two images."""
    return classes_of("cat", "dog", "owl")

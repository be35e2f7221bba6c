"""What trials are made of: a small trained run, folders of painted images with features, a model, files of every format.

All of it is made once, by `sala` itself where it can be, in one folder; trials copy what they change.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from stress.children import Child
from stress.warm import learn_imports

COLORS = {"red": (220, 30, 30), "green": (30, 220, 30), "blue": (30, 30, 220)}
# an ONNX file: x [n, 3, 16, 16] -> mean over width -> [n, 3, 16]
ONNX = base64.b64decode(
    "CAgSADptCjAKAXgSAW8iClJlZHVjZU1lYW4qCwoEYXhlc0ADoAEHKg8KCGtlZXBkaW1zGACgAQISAWdaHAoBeBIXChUIARIRCgMSAW4KAggDCgIIEAoCCBBi"
    "GAoBbxITChEIARINCgMSAW4KAggDCgIIEEIECgAQDQ=="
)
TRAIN = ["--method", "sala", "--image-size", "16", "--ways", "2", "--unlabeled", "1", "--queries", "1", "--episodes", "9",
         "--validate-every", "3", "--threads", "1", "--distractors", "0"]  # fmt: skip


@dataclass(frozen=True)
class World:
    """Where things are; see `make_world`."""

    folder: Path
    seed: int

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    @property
    def run(self) -> Path:
        return self / "run"

    @property
    def cache(self) -> Path:
        return self / "cache"

    @property
    def images(self) -> tuple[Path, Path]:
        return self / "labeled", self / "pool"

    def train(self, out: Path) -> list[object]:
        """The words of a training of nine episodes."""
        return ["train", "--dataset", "folder", "--root", self / "classes", *TRAIN, "--out", out]


def make_world(folder: Path, seed: int) -> World:
    world = World(folder, seed)
    world.cache.mkdir(parents=True)
    os.environ["SALA_CACHE"] = str(world.cache)
    os.environ.pop("SALA_DATA", None)
    paint_pool(world)
    _paint_classes(world / "classes")
    learn_imports(world.train(world.run), folder)
    learn_imports(["evaluate", world.run, "--episodes", "3"], folder)
    learn_imports(["label", *world.images, "--encoder", world / "features.npy", "--out", world / "labels"], folder)
    learn_imports(["label", *world.images, "--encoder", world.run, "--out", world / "labels-by-run"], folder)
    return world


def paint(path: Path, color: tuple[int, ...], rng: np.random.Generator, size: tuple[int, int] = (24, 16)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = rng.normal(0, 12, (size[1], size[0], 3))
    Image.fromarray(np.clip(np.array(color) + noise, 0, 255).astype(np.uint8)).save(path)


def paint_pool(world: World) -> None:
    """Two labeled images a class, ten of each color in the pool, and their features in a .npy file."""
    rng = np.random.default_rng(world.seed)
    for name, color in COLORS.items():
        for i in range(2):
            paint(world / f"labeled/{name}/{i}.png", color, rng)
        for i in range(10):
            paint(world / f"pool/{name}-{i}.png", color, rng)
    write_features(world / "features.npy", [world / "labeled", world / "pool"])


def write_features(path: Path, folders: list[Path]) -> None:
    files = sorted(file for folder in folders for file in folder.rglob("*.png"))
    means = [np.asarray(Image.open(file)).reshape(-1, 3).mean(0) / 255 for file in files]
    np.save(path, np.array([[*mean, *(mean**2), 1] for mean in means], np.float32))
    path.with_suffix(".txt").write_text("".join(f"{file}\n" for file in files))


def _paint_classes(folder: Path) -> None:
    """Nine classes of forty images: a dataset of the user's own, with a list of splits."""
    rng = np.random.default_rng(0)
    for c in range(9):
        for i in range(40):
            paint(folder / f"class{c}" / f"{i}.png", tuple(rng.integers(0, 255, 3)), rng, (16, 16))


def image_files(folder: Path) -> None:
    """An image in each format and mode that is read."""
    rng = np.random.default_rng(1)
    pixels = rng.integers(0, 255, (20, 24, 3), np.uint8)
    folder.mkdir(parents=True)
    rgb = Image.fromarray(pixels)
    for name in ("a.png", "a.jpg", "a.webp", "a.bmp", "a.ppm", "a.tif"):
        rgb.save(folder / name)
    rgb.convert("RGBA").save(folder / "alpha.png")
    rgb.convert("P").save(folder / "palette.png", transparency=3)
    rgb.convert("CMYK").save(folder / "cmyk.jpg")
    rgb.save(
        folder / "progressive.jpg",
        progressive=True,
        exif=b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0",
    )
    rgb.save(folder / "lossless.webp", lossless=True)
    rgb.convert("1").save(folder / "bits.pbm")
    rgb.convert("L").save(folder / "gray.pgm")
    rgb.convert("P").save(folder / "moving.gif", save_all=True, append_images=[rgb.convert("P").rotate(90)])
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(folder / "deep.png")
    Image.fromarray(pixels[..., 0].astype(np.float32) / 255).save(folder / "float.tif")
    rgb.save(folder / "lzw.tif", compression="tiff_lzw")
    rgb.convert("RGBA").save(folder / "deflate.tif", compression="tiff_deflate")


def mini_imagenet(folder: Path) -> None:
    """The cache pickles of miniImageNet, with three small classes each."""
    folder.mkdir(parents=True)
    for i, split in enumerate(("train", "val", "test")):
        images = np.random.default_rng(i).integers(0, 255, (6, 10, 10, 3), np.uint8)
        classes = {f"n0000{i}{c}": [2 * c, 2 * c + 1] for c in range(3)}
        content = {"image_data": images, "class_dict": classes}
        (folder / f"mini-imagenet-cache-{split}.pkl").write_bytes(pickle.dumps(content, protocol=2 + i))


def mini_imagenet_lists(folder: Path) -> None:
    """miniImageNet's other layout: images and three CSV files."""
    rng = np.random.default_rng(2)
    for split in ("train", "val", "test"):
        names = [f"{split}{c}_{i}.png" for c in range(2) for i in range(2)]
        for name in names:
            paint(folder / "images" / name, (9, 99, 199), rng, (10, 10))
        rows = "".join(f"{name},{name.partition('_')[0]}\n" for name in names)
        (folder / f"{split}.csv").write_text("filename,label\n" + rows)


def tiered_imagenet(folder: Path, *, as_npz: bool) -> None:
    folder.mkdir(parents=True)
    for split in ("train", "val", "test"):
        labels = {"label_specific": [0, 0, 1, 1], "label_specific_str": [f"{split}a", f"{split}b"]}
        (folder / f"{split}_labels.pkl").write_bytes(pickle.dumps(labels))
        images = np.random.default_rng(3).integers(0, 255, (4, 10, 10, 3), np.uint8)
        if as_npz:
            np.savez(folder / f"{split}_images.npz", images=images)
        else:
            (folder / f"{split}_images_png.pkl").write_bytes(pickle.dumps([_png(image) for image in images]))


def _png(pixels: np.ndarray) -> np.ndarray:
    from io import BytesIO

    Image.fromarray(pixels).save(file := BytesIO(), "PNG")
    return np.frombuffer(file.getvalue(), np.uint8)


def zip_of(folder: Path, path: Path, how: int = zipfile.ZIP_DEFLATED) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", how) as archive:
        for file in sorted(folder.rglob("*.png")):
            archive.write(file, file.relative_to(folder))


def onnx_encoder(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "net.onnx").write_bytes(ONNX)
    (folder / "net.json").write_text(json.dumps({"image_size": 16, "mean": [0, 0, 0], "std": [1, 1, 1]}))


def copy(source: Path, target: Path) -> Path:
    """A copy to spoil."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    return target


def in_child(function: Callable[[], object], folder: Path) -> None:
    """Make something with the library; the process that forks must not compute."""
    ended = Child(function, folder, "made").wait(120)
    if ended.code != 0:
        raise RuntimeError(f"a good file could not be made: {ended.err}")


class MeanColor:
    """An encoder that needs no weights."""

    name, identity, image_size, mode = "mean-color", "mean-color-stress", 8, "RGB"

    def embed(self, images: np.ndarray) -> np.ndarray:
        return images.mean((1, 2)).astype(np.float32)


def an_image(folder: Path) -> Path:
    place = folder.parent / "image.png"
    paint(place, (50, 100, 150), np.random.default_rng(0))
    return place

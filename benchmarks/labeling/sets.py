"""Image sets of different kinds, as features of one encoder: what the labeling benchmark draws its pools from.

    SALA_DATA=FILES python benchmarks/labeling/sets.py     # embeds what is there, once; features go to the cache

Each set is a function from the folder of datasets to image files by class. A set whose files are not there is left out, with a
line that says where they come from. No set holds test classes of a dataset that results are reported for: Caltech, the test
classes of miniImageNet and tiny-tiered and Omniglot's evaluation alphabets stay apart, to try what was chosen here.

Icons and fonts are of Debian packages, others give other images: adwaita-, elementary-xfce-, faenza-, gnome-, gnome-brave-,
lxde-, mate-, moka-, obsidian-, oxygen- and tango-icon-theme, gnome-colors-common, mate-themes; fonts-dejavu, -freefont-ttf,
-lato, -liberation, -linuxlibertine and -open-sans. The records say how many images and classes each set had.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from draws import data_root, show
from PIL import Image, ImageDraw, ImageFont

from sala.cache import cache_folder
from sala.data.files import Tree
from sala.data.folder import synset_files
from sala.data.splits import miniimagenet_splits, tieredimagenet_splits
from sala.encoders import embed_files, open_encoder

Files = dict[str, list[Path]]  # of each class
SUFFIXES = {".jpg", ".jpeg", ".png"}
ICON_THEMES = ("Adwaita", "Faenza", "Moka", "Obsidian", "Tango", "elementary-xfce", "gnome", "gnome-brave",
               "gnome-colors-common", "mate", "menta", "nuoveXT2", "oxygen")  # fmt: skip
ICONS, FONTS = Path("/usr/share/icons"), Path("/usr/share/fonts")
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True)
class ImageSet:
    """Features of a set's images, and the class of each."""

    name: str
    features: np.ndarray  # [n, d]
    classes: np.ndarray  # [n], texts


def class_folders(folder: Path, most: int) -> Files:
    """Up to `most` images of each class folder, drawn by a fixed seed."""
    rng = np.random.default_rng(0)
    found = {}
    for path in sorted(p for p in folder.iterdir() if p.is_dir()):
        images = sorted(p for p in path.rglob("*") if p.suffix.lower() in SUFFIXES)
        found[path.name] = [images[i] for i in rng.permutation(len(images))[:most]]
    return found


@contextmanager
def photos(root: Path) -> Iterator[Files]:
    """miniImageNet's training classes."""
    yield _miniimagenet(root, "train", 60)


def _miniimagenet(root: Path, split: str, most: int) -> Files:
    splits = miniimagenet_splits()
    return {name: files for name, files in class_folders(root / "miniimagenet", most).items() if splits[name] == split}


@contextmanager
def small_photos(root: Path) -> Iterator[Files]:
    """The training and validation classes of tiny-tiered, 64 x 64 pixels."""
    archive, splits = root / "tiny-imagenet" / "tiny-imagenet-200.zip", tieredimagenet_splits()
    files = synset_files(Tree(archive), splits, below="train", complete=False)
    rng = np.random.default_rng(0)
    chosen = {
        synset: [str(name) for name in rng.permutation(sorted(names))[:60]]
        for synset, names in sorted(files.items())
        if splits[synset] != "test"
    }
    with _unpacked(archive, chosen) as unpacked:
        yield unpacked


@contextmanager
def characters(root: Path) -> Iterator[Files]:
    """Handwritten characters: 120 of Omniglot's background alphabets."""
    archive = root / "omniglot" / "images_background.zip"
    by_class: dict[str, list[str]] = {}
    for name in Tree(archive).files():
        if name.endswith(".png"):
            by_class.setdefault("/".join(name.split("/")[-3:-1]), []).append(name)
    chosen = np.random.default_rng(0).permutation(sorted(by_class))[:120]
    with _unpacked(archive, {str(c): by_class[c] for c in chosen}) as unpacked:
        yield unpacked


@contextmanager
def _unpacked(archive: Path, names: dict[str, list[str]]) -> Iterator[Files]:
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(archive) as opened:
        found: Files = {}
        for c, members in names.items():
            for member in members:
                path = Path(folder) / str(sum(map(len, found.values()))) / Path(member).name
                path.parent.mkdir(parents=True)
                path.write_bytes(opened.read(member))
                found.setdefault(c, []).append(path)
        yield found


@contextmanager
def satellite(root: Path) -> Iterator[Files]:
    """AID: aerial photos of 30 kinds of land use."""
    yield class_folders(root / "satellite", 80)


@contextmanager
def groceries(root: Path) -> Iterator[Files]:
    """GroceryStoreDataset: products on shelves, 81 fine-grained classes."""
    yield {name: files for name, files in class_folders(root / "groceries", 60).items() if len(files) >= 15}


@contextmanager
def low_resolution(root: Path) -> Iterator[Files]:
    """CIFAR-100: photos of 32 x 32 pixels; 30 classes have enough images for large pools."""
    many = class_folders(root / "cifar-100", 200)
    yield {name: files[: 200 if i % 3 == 0 and i < 90 else 50] for i, (name, files) in enumerate(sorted(many.items()))}


@contextmanager
def aerial_textures(root: Path) -> Iterator[Files]:
    """One patch of 100 x 100 pixels of each aerial photo: what covers the ground, without its layout."""
    with _patches(class_folders(root / "satellite", 60), 100) as found:
        yield found


@contextmanager
def photo_patches(root: Path) -> Iterator[Files]:
    """One patch of 40 x 40 pixels of each photo of miniImageNet's validation classes: parts of things, and surfaces."""
    with _patches(_miniimagenet(root, "val", 60), 40) as found:
        yield found


@contextmanager
def _patches(files: Files, side: int) -> Iterator[Files]:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        found: Files = {}
        for c, paths in files.items():
            for path in paths:
                image = Image.open(path).convert("RGB")
                left, top = (int(rng.integers(0, max(1, n - side + 1))) for n in image.size)
                found.setdefault(c, []).append(Path(folder) / f"{sum(map(len, found.values()))}.png")
                image.crop((left, top, left + side, top + side)).save(found[c][-1])
        yield found


@contextmanager
def digits(root: Path) -> Iterator[Files]:
    """scikit-learn's handwritten digits, 8 x 8 pixels, enlarged to 32 x 32."""
    from sklearn.datasets import load_digits

    data = load_digits()
    with tempfile.TemporaryDirectory() as folder:
        found: Files = {}
        for i, (pixels, digit) in enumerate(zip(data.images, data.target, strict=True)):
            image = Image.fromarray((255 - pixels * 255 / 16).astype(np.uint8))
            found.setdefault(str(digit), []).append(Path(folder) / f"{i}.png")
            image.resize((32, 32), Image.Resampling.BILINEAR).save(found[str(digit)][-1])
        yield {digit: paths[:120] for digit, paths in found.items()}


@contextmanager
def icons(root: Path) -> Iterator[Files]:
    """Desktop icons: a class is one symbol (edit-copy) as different icon themes draw it."""
    if sum((ICONS / theme).is_dir() for theme in ICON_THEMES) < 8:
        raise FileNotFoundError(f"icon themes in {ICONS} (the Debian packages that sets.py names)")
    largest: dict[tuple[str, str], Path] = {}
    for theme in ICON_THEMES:
        for path in sorted((ICONS / theme).rglob("*.png")):
            key = (path.stem, theme)
            if path.stem.endswith("symbolic") or not path.is_file():  # a theme may link to what another package has
                continue
            if key not in largest or path.stat().st_size > largest[key].stat().st_size:
                largest[key] = path
    found: dict[str, dict[str, Path]] = {}
    seen: dict[str, str] = {}  # a drawing belongs to the first name it has: themes link one drawing under several
    for (name, _), path in sorted(largest.items()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if seen.setdefault(digest, name) == name:
            found.setdefault(name, {})[digest] = path
    yield {name: list(paths.values()) for name, paths in found.items() if len(paths) >= 9}


@contextmanager
def printed_letters(root: Path) -> Iterator[Files]:
    """Capitals and digits in the fonts of this machine, dark on light, one font an image."""
    fonts = sorted(path for path in FONTS.rglob("*.?tf") if not _is_symbols(path))
    if len(fonts) < 60:
        raise FileNotFoundError(f"60 fonts in {FONTS} (the Debian packages that sets.py names)")
    chosen = [fonts[i] for i in np.random.default_rng(0).permutation(len(fonts))[:60]]
    with tempfile.TemporaryDirectory() as folder:
        found: Files = {}
        for i, path in enumerate(chosen):
            font = ImageFont.truetype(str(path), 72)
            for c in CHARACTERS:
                image = Image.new("L", (112, 112), 255)
                ImageDraw.Draw(image).text((56, 56), c, font=font, fill=0, anchor="mm")
                found.setdefault(c, []).append(Path(folder) / f"{c}-{i}.png")
                image.save(found[c][-1])
        yield found


def _is_symbols(path: Path) -> bool:
    return any(word in path.name.lower() for word in ("math", "symbol", "dingbat", "keyboard", "awesome", "initial"))


SETS: dict[str, Callable[[Path], object]] = {
    "photos": photos,
    "small photos": small_photos,
    "low resolution": low_resolution,
    "photo patches": photo_patches,
    "satellite": satellite,
    "aerial textures": aerial_textures,
    "groceries": groceries,
    "icons": icons,
    "printed letters": printed_letters,
    "characters": characters,
    "digits": digits,
}


def load_sets(root: Path, names: Iterable[str] = SETS) -> dict[str, ImageSet]:
    """The sets whose files are there, embedded by EfficientNet-Lite0; the features are kept in the cache."""
    found = {}
    for name in names:
        try:
            found[name] = _load(root, name)
        except FileNotFoundError as error:
            print(f"{name} is left out: it needs {error}", file=sys.stderr)
    return found


def _load(root: Path, name: str) -> ImageSet:
    path = cache_folder() / "benchmarks" / f"{name.replace(' ', '-')}.npz"
    if not path.is_file():
        print(f"{name}:", file=sys.stderr)
        with SETS[name](root) as files:  # type: ignore[attr-defined]
            paths = [path for members in files.values() for path in members]
            classes = np.array([c for c, members in files.items() for _ in members])
            embedded = embed_files(paths, open_encoder("lite0"), progress=show)
        print(file=sys.stderr)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, features=embedded.features, classes=classes[embedded.kept])
    with np.load(path) as content:
        return ImageSet(name, content["features"], content["classes"])


def described(image_set: ImageSet) -> str:
    """How many images and classes it has."""
    n = np.unique(image_set.classes, return_counts=True)[1]
    return f"{len(image_set.classes):,} images of {len(n)} classes, {n.min()} to {n.max()} each"


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for image_set in load_sets(data_root()).values():
        print(f"{image_set.name}: {described(image_set)}")


if __name__ == "__main__":
    main()

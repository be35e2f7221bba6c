"""Users' files, which are not trusted: archives, images and lists, each opened within bounds (`pickles.py` has pickles).

Every failure is a `SalaError` with one sentence: what, where, what to do.
"""

from __future__ import annotations

import csv
import io
import os
import re
import warnings
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from sala.errors import SalaError
from sala.wording import printable

# odd metadata is not an error. Once for the process: images are decoded by many threads, and filters are not a thread's own
warnings.filterwarnings("ignore", module=r"PIL(\.|$)")

MAX_PIXELS = 80_000_000  # of one image: more than nearly any camera's, below Pillow's own warning, and 240 MB to decode
MAX_MEMBER_BYTES = 256 << 20  # of one image file: MAX_PIXELS in RGB, not compressed
IMAGE_SUFFIXES = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm",
}  # fmt: skip
IMAGE_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")  # not Pillow's others: EPS would run Ghostscript


class Tree:
    """A folder or a zip archive, seen as a set of relative paths with bytes behind them. Nothing is ever unpacked."""

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self._zip = None if self.path.is_dir() else _open_zip(self.path)

    def files(self) -> list[str]:
        """The relative paths of all files, sorted, with `/` between the parts."""
        return sorted(self._members if self._zip is not None else self._listing[0])

    def folders(self) -> set[str]:
        """The relative paths of all folders, empty ones too."""
        if self._zip is None:
            return self._listing[1]
        explicit = {_slashed(name).rstrip("/") for name in self._zip.namelist() if _slashed(name).endswith("/")}
        return explicit | {parent.as_posix() for f in self._members for parent in PurePosixPath(f).parents} - {"."}

    def read(self, name: str, limit: int = MAX_MEMBER_BYTES) -> bytes:
        """The bytes of one file, which is an image's and so has a bound."""
        content = self._read_file(name, limit) if self._zip is None else self._read_member(name, limit)
        self._check_size(name, len(content), limit)
        return content

    def _check_size(self, name: str, n_bytes: int, limit: int) -> None:
        if n_bytes > limit:
            raise SalaError(f"{self.where(name)} is larger than {limit >> 20} MiB, too large for one image; remove it")

    def where(self, name: str) -> str:
        return printable(f"{self.path}/{name}" if self._zip is None else f"{name} in {self.path}")

    @cached_property
    def _members(self) -> dict[str, zipfile.ZipInfo]:
        infos = self._zip.infolist() if self._zip is not None else []
        return {_slashed(info.filename): info for info in infos if not _slashed(info.filename).endswith("/")}

    @cached_property
    def _listing(self) -> tuple[set[str], set[str]]:  # files, folders
        files, folders = set(), set()
        for folder, names in walk(self.path):
            here = folder.relative_to(self.path)
            folders.add(here.as_posix())
            files |= {(here / name).as_posix() for name in names if (folder / name).is_file()}  # no pipe, no dead link
        return files, folders - {"."}

    def _read_file(self, name: str, limit: int) -> bytes:
        try:
            with (self.path / name).open("rb") as file:
                return file.read(limit + 1)
        except OSError as error:
            raise unreadable(self.where(name), error) from None

    def _read_member(self, name: str, limit: int) -> bytes:
        assert self._zip is not None
        info = self._members[name]
        if info.flag_bits & 1:
            raise SalaError(f"{self.where(name)} is encrypted; unpack the archive and give the folder")
        self._check_size(name, info.file_size, limit)  # before a byte is unpacked
        try:
            with self._zip.open(info) as file:
                return file.read(limit + 1)
        except Exception as error:  # each way of compression has its own exceptions
            raise SalaError(f"{self.where(name)} cannot be read ({error}); get a fresh copy of the archive") from None


def walk(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each folder with its files. Links to folders are followed (class folders are often links), but none twice."""

    def refuse(error: OSError) -> None:
        raise unreadable(printable(str(error.filename)), error) from None

    seen = set()
    for folder, subfolders, files in os.walk(root, onerror=refuse, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:
            subfolders.clear()
            continue
        subfolders.sort()
        seen.add(real)
        yield Path(folder), sorted(files)


def unreadable(where: object, error: OSError) -> SalaError:
    """The sentence for a file or folder that the system does not let us read."""
    repairs = {PermissionError: "allow this user to read it", FileNotFoundError: "put it there"}
    repair = repairs.get(type(error), "get a fresh copy of it")
    return SalaError(f"{where} cannot be read ({error.strerror or error}); {repair}")


def read_csv(path: Path) -> list[list[str]]:
    """The non-empty lines of a CSV file, cells without blanks around them."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # -sig: spreadsheets put a mark in front
            rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    except OSError as error:
        raise unreadable(path, error) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise SalaError(f"{path} is not a CSV file in UTF-8 ({error}); save it as such") from None
    if any("\0" in cell for row in rows for cell in row):
        raise SalaError(f"{path} is not a CSV file: it holds NUL bytes; get a fresh copy of it")
    return rows


def _slashed(name: str) -> str:
    return name.replace("\\", "/")  # some Windows programs write archives with backslashes


def _open_zip(path: Path) -> zipfile.ZipFile:
    if not path.is_file():
        raise SalaError(f"{path} is neither a folder nor a zip archive; give one of them")
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise unreadable(path, error) from None
    except Exception:  # a damaged table of contents raises nearly anything
        raise SalaError(f"{path} {_what_is_wrong_with_zip(path)}") from None
    for name in archive.namelist():
        parts = PurePosixPath(_slashed(name)).parts
        if ".." in parts or (parts and (parts[0].startswith("/") or ":" in parts[0])):
            raise SalaError(
                f"{path} holds a member named {name!r}, which points outside the archive; do not use this file"
            )
    return archive


def _what_is_wrong_with_zip(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(512).lstrip().lower()
    if head.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "is a web page, not a zip archive: the download went wrong; open the link in a browser and save the file again"
    if head.startswith(b"pk"):
        return "is a zip archive that is cut short or damaged; download it again"
    return "is not a zip archive; give the official archive or the folder unpacked from it"


def decode(content: bytes, where: str, *, image_size: int, mode: str) -> NDArray[np.uint8]:
    """An encoded image as `[image_size, image_size, channels]`; mode is "L" (one channel) or "RGB" (three)."""
    return resize(open_image(content, where, image_size=image_size, mode=mode), image_size)


def open_image(content: bytes, where: str, *, image_size: int, mode: str) -> Image.Image:
    """An encoded image, upright, in its own proportions; where that is quicker, smaller, but not below `image_size`."""
    try:
        image: Image.Image = Image.open(io.BytesIO(content), formats=IMAGE_FORMATS)
        _check_size(image, where)
        image.draft(mode, (image_size, image_size))  # JPEG: decoded at a fraction of the size, not below the target
        image.load()
        return flatten(_upright(image), mode)
    except Image.DecompressionBombError as error:  # Pillow's own limit is before ours, and tells the number of pixels
        n_pixels = re.search(r"\d+", str(error))
        raise _too_large(where, f"{int(n_pixels[0]):,} pixels" if n_pixels else "too many pixels") from None
    except UnidentifiedImageError:
        raise SalaError(f"{where} is not an image, whatever its name says; replace or remove it") from None
    except SalaError:
        raise
    except Exception as error:  # Pillow's decoders raise nearly anything on broken files
        raise SalaError(f"{where} is not a readable image ({error}); replace or remove it") from None


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # the pixels are sound; only the camera's notes are not
        return image


def _check_size(image: Image.Image, where: str) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise _too_large(where, f"{width} x {height} pixels")


def _too_large(where: str, size: str) -> SalaError:
    return SalaError(f"{where} has {size}, and {MAX_PIXELS // 10**6} million are the limit; scale it down or remove it")


def flatten(image: Image.Image, mode: str) -> Image.Image:
    """8-bit "L" or "RGB", transparency over white, deeper grey scaled to 8 bits."""
    if image.mode.startswith("I") or image.mode == "F":
        image = Image.fromarray(_to_8_bits(np.asarray(image, dtype=np.float64), image.mode))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert(mode)


def _to_8_bits(values: NDArray[np.float64], mode: str) -> NDArray[np.uint8]:
    """By the smallest usual range of the mode that holds the values: "I;16" has one, "I" two, "F" three."""
    values = np.nan_to_num(values)
    usual = {"F": (1.0, 255.0), "I": (255.0,)}.get(mode, ())
    highest = next((top for top in usual if values.max(initial=0) <= top), 65535.0)
    scaled: NDArray[np.float64] = values.clip(0, highest) * (255 / highest)
    return np.rint(scaled).astype(np.uint8)


def resize(image: Image.Image, image_size: int) -> NDArray[np.uint8]:
    """To `[image_size, image_size, channels]`: bilinear with antialiasing."""
    if image.size != (image_size, image_size):
        image = image.resize((image_size, image_size), Image.Resampling.BILINEAR)
    array = np.asarray(image, dtype=np.uint8)
    return array[:, :, None] if array.ndim == 2 else array

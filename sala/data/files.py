"""Users' files, which are not trusted: archives, images and pickles, each opened within bounds.

Every failure is a `SalaError` with one sentence: what, where, what to do.
"""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from sala.errors import SalaError

MAX_PIXELS = 80_000_000  # of one image: more than any camera's, and below Pillow's own warning
MAX_MEMBER_BYTES = 512 << 20  # of one image file
IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}


class Tree:
    """A folder or a zip archive, seen as a set of relative paths with bytes behind them. Nothing is ever unpacked."""

    def __init__(self, path: Path | str):
        self.path = Path(path)
        if self.path.is_dir():
            self._zip = None
        elif self.path.is_file():
            self._zip = _open_zip(self.path)
        else:
            raise SalaError(f"{self.path} does not exist; give a folder or a zip archive")

    def files(self) -> list[str]:
        """The relative paths of all files, sorted, with `/` between the parts."""
        if self._zip is not None:
            return sorted(name for name in self._zip.namelist() if not name.endswith("/"))
        return sorted(p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_file())

    def folders(self) -> set[str]:
        """The relative paths of all folders, empty ones too."""
        if self._zip is None:
            return {p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_dir()}
        explicit = {name.rstrip("/") for name in self._zip.namelist() if name.endswith("/")}
        return explicit | {parent.as_posix() for f in self.files() for parent in PurePosixPath(f).parents} - {"."}

    def read(self, name: str, limit: int = MAX_MEMBER_BYTES) -> bytes:
        with self._opening(name), self._open(name) as file:
            content: bytes = file.read(limit + 1)
        if len(content) > limit:
            raise SalaError(f"{self.where(name)} is larger than {limit >> 20} MiB, too large for one image; remove it")
        return content

    def where(self, name: str) -> str:
        return f"{self.path}/{name}" if self._zip is None else f"{name} in {self.path}"

    def _open(self, name: str) -> Any:
        return (self.path / name).open("rb") if self._zip is None else self._zip.open(name)

    @contextmanager
    def _opening(self, name: str) -> Iterator[None]:
        try:
            yield
        except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, zipfile.zlib.error) as error:  # type: ignore[attr-defined]
            raise SalaError(f"{self.where(name)} cannot be read ({error}); get a fresh copy of it") from None
        except RuntimeError:  # zipfile's word for a missing password
            raise SalaError(f"{self.where(name)} is encrypted; unpack the archive first and give the folder") from None


def _open_zip(path: Path) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile:
        raise SalaError(f"{path} {_what_is_wrong_with_zip(path)}") from None
    for name in archive.namelist():
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if ".." in parts or (parts and (parts[0] == "/" or ":" in parts[0])):
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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            warnings.simplefilter("ignore", UserWarning)  # odd metadata is not an error
            image: Image.Image = Image.open(io.BytesIO(content))
            _check_size(image, where)
            image.draft(
                mode, (image_size, image_size)
            )  # JPEG: decode at a fraction of the size, never below the target
            image = ImageOps.exif_transpose(image)
            return resize(flatten(image, mode), image_size)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise SalaError(
            f"{where} has too many pixels (the limit is {MAX_PIXELS:,}); scale it down or remove it"
        ) from None
    except SalaError:
        raise
    except Exception as error:  # Pillow's decoders raise nearly anything on broken files
        raise SalaError(f"{where} is not a readable image ({error}); replace or remove it") from None


def _check_size(image: Image.Image, where: str) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise SalaError(
            f"{where} is {width} x {height} pixels (the limit is {MAX_PIXELS:,} in all); scale it down or remove it"
        )


def flatten(image: Image.Image, mode: str) -> Image.Image:
    """8-bit "L" or "RGB", transparency over white, 16-bit grey scaled to 8 bits."""
    if image.mode.startswith("I") or image.mode == "F":
        values = np.asarray(image, dtype=np.float64)
        top = 65535.0 if values.max(initial=0) > 255 else 255.0
        image = Image.fromarray((values.clip(0, top) * (255.0 / top)).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or (image.mode == "P" and "transparency" in image.info):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert(mode)


def resize(image: Image.Image, image_size: int) -> NDArray[np.uint8]:
    """To `[image_size, image_size, channels]`: bilinear with antialiasing."""
    if image.size != (image_size, image_size):
        image = image.resize((image_size, image_size), Image.Resampling.BILINEAR)
    array = np.asarray(image, dtype=np.uint8)
    return array[:, :, None] if array.ndim == 2 else array


# What the pickles of the public few-shot datasets consist of, and nothing else.
_ALLOWED: dict[tuple[str, str], Callable[..., Any]] = {}


def _allow(modules: tuple[str, ...], name: str, value: Any) -> None:
    for module in modules:
        _ALLOWED[module, name] = value


def _encode(text: str, encoding: str) -> bytes:
    return text.encode(encoding)  # how Python 3 writes bytes in old pickle protocols


_NUMPY_CORE = ("numpy.core.multiarray", "numpy._core.multiarray")
_allow(_NUMPY_CORE, "_reconstruct", np.empty(0).__reduce__()[0])
_allow(_NUMPY_CORE, "scalar", np.uint8(0).__reduce__()[0])
_allow(
    ("numpy.core.numeric", "numpy._core.numeric"),
    "_frombuffer",
    lambda buffer, dtype, shape, order: np.frombuffer(buffer, dtype=dtype).reshape(shape, order=order),
)
_allow(("numpy",), "ndarray", np.ndarray)
_allow(("numpy",), "dtype", np.dtype)
_allow(("_codecs",), "encode", _encode)
_allow(("builtins", "__builtin__"), "range", range)
_allow(("__builtin__",), "xrange", range)


class _DataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise SalaError(f"it asks for {module}.{name}, which has no place in a file of images") from None


def load_pickle(path: Path) -> Any:
    """Plain data and numpy arrays from a pickle; whatever would run code is refused. Python 2's strings come as bytes."""
    try:
        with path.open("rb") as file:
            return _DataUnpickler(file, encoding="bytes").load()
    except SalaError as error:
        raise SalaError(f"{path} is refused: {error}; get the file from its official source") from None
    except Exception as error:  # a damaged pickle raises nearly anything
        raise SalaError(f"{path} is not a readable pickle ({error}); download it again") from None


def text(value: Any) -> str:
    """A str from a str or from the bytes that Python 2's pickles hold."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def text_keys(mapping: Any, where: Path, required: tuple[str, ...]) -> dict[str, Any]:
    """A dict with str keys whose required ones are there."""
    found = {text(key): value for key, value in mapping.items()} if isinstance(mapping, dict) else {}
    missing = [key for key in required if key not in found]
    if missing:
        raise SalaError(f"{where} has no {' and no '.join(map(repr, missing))} in it; it is not the file its name says")
    return found

"""Users' image files to pixels, upright and of one size, in bounded memory.

An image is loaded once, in its own mode; whatever is made of it (8 bits, no transparency, another size) is made band by
band, so that a file costs what its pixels take and little more. All decoders of the process together stay within
`MAX_BYTES`: one that would go beyond waits for the others, and a file that alone goes beyond is refused.

Every failure is a `SalaError` with one sentence: what, where, what to do.
"""

from __future__ import annotations

import io
import math
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from sala.data.decoding import decoding_bytes, is_slow
from sala.data.memory import give_back_large_blocks
from sala.errors import SalaError

# odd metadata is not an error. Once for the process: images are decoded by many threads, and filters are not a thread's own
warnings.filterwarnings("ignore", module=r"PIL(\.|$)")

MAX_PIXELS = 80_000_000  # of one image: more than nearly any camera's, below Pillow's own warning
MAX_SLOW_PIXELS = 4_000_000  # where Pillow's decoder is a loop in Python
MAX_BYTES = 370_000_000  # of all images that are being decoded
LARGE_BYTES = 16_000_000  # of one: freed memory is then given back to the system
WHOLE_PIXELS = 16_000_000  # up to here an image is converted as a whole: 4 more bytes a pixel
FURTHER_BYTES = 10  # a pixel of a full image: copies that others make of it while they scale it
MAX_SIDE = 65_535  # of a JPEG: no fraction of the size is asked for
BAND_PIXELS = 1 << 18
IMAGE_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")  # not Pillow's others: EPS would run Ghostscript
UPRIGHT = {  # EXIF orientation -> what turns the image upright
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip


def decode(source: bytes | BinaryIO, where: str, *, image_size: int, mode: str, min_side: int = 1) -> NDArray[np.uint8]:
    """An encoded image as `[image_size, image_size, channels]`; mode is "L" (one channel) or "RGB" (three)."""
    with _loaded(source, where, image_size, mode, min_side) as image:
        return _array(_upright(image, (image_size, image_size), mode))


@contextmanager
def full_image(source: bytes | BinaryIO, where: str, *, min_side: int = 1) -> Iterator[Image.Image]:
    """An encoded image in RGB, upright, in its own size; one of more than `WHOLE_PIXELS` is scaled down to so many."""
    with _loaded(source, where, MAX_SIDE, "RGB", min_side, FURTHER_BYTES) as image:
        width, height = _upright_size(image)
        scale = min(1.0, math.sqrt(WHOLE_PIXELS / (width * height)))
        yield _upright(image, (max(1, int(width * scale)), max(1, int(height * scale))), "RGB")


def thumbnail(source: bytes | BinaryIO, where: str, *, side: int) -> Image.Image:
    """An encoded image in RGB, in its own proportions, its longer side `side` pixels at most."""
    with _loaded(source, where, side, "RGB") as image:
        width, height = _upright_size(image)
        scale = min(1.0, side / max(width, height))
        return _upright(image, (max(1, round(width * scale)), max(1, round(height * scale))), "RGB")


class _Room:
    """Bytes that decoders share: who wants more than is free waits."""

    def __init__(self) -> None:
        self._taken, self._change = 0, threading.Condition()

    @contextmanager
    def take(self, n_bytes: int) -> Iterator[None]:
        if n_bytes > LARGE_BYTES:
            give_back_large_blocks()
        with self._change:
            self._change.wait_for(lambda: self._taken + n_bytes <= MAX_BYTES or not self._taken)
            self._taken += n_bytes
        try:
            yield
        finally:
            with self._change:
                self._taken -= n_bytes
                self._change.notify_all()


_ROOM = _Room()


@contextmanager
def _loaded(
    source: bytes | BinaryIO, where: str, image_size: int, mode: str, min_side: int = 1, further_bytes: int = 0
) -> Iterator[Image.Image]:
    """The image in its own mode, at a fraction of its size where the format has one, not below `image_size`. So many
    `further_bytes` are taken for each pixel that is handed on."""
    try:
        image = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=IMAGE_FORMATS)
        _check_pixels(image, where, min_side)
        full_size = image.size
        image.draft(mode, (image_size, image_size))  # JPEG: decoded at a fraction of the size
        n_bytes = decoding_bytes(image, full_size) + (4 * image.width * image.height if _is_kept_whole(image) else 0)
        n_bytes += len(source) if isinstance(source, bytes) else 0
        n_bytes = min(n_bytes + further_bytes * min(image.width * image.height, WHOLE_PIXELS), max(n_bytes, MAX_BYTES))
        if n_bytes > MAX_BYTES:
            raise _too_large(where, f"takes {n_bytes // 10**6} MB to decode", f"{MAX_BYTES // 10**6} MB are")
        with _ROOM.take(n_bytes), image:  # closed, and its pixels freed, before the next one takes the room
            image.load()
            yield image
            image.close()
    except Image.DecompressionBombError as error:  # Pillow's own limit is before ours, and tells the number of pixels
        n_pixels = re.search(r"\d+", str(error))
        size = f"has {int(n_pixels[0]):,} pixels" if n_pixels else "has too many pixels"
        raise _too_large(where, size, f"{MAX_PIXELS // 10**6} million are") from None
    except UnidentifiedImageError:
        raise SalaError(f"{where} is not an image, whatever its name says; replace or remove it") from None
    except SalaError:
        raise
    except Exception as error:  # Pillow's decoders raise nearly anything on broken files
        raise SalaError(f"{where} is not a readable image ({error}); replace or remove it") from None


def _check_pixels(image: Image.Image, where: str, min_side: int) -> None:
    width, height = image.size
    limit = MAX_SLOW_PIXELS if is_slow(image) else MAX_PIXELS
    if width * height > limit:
        what = f"has {width} x {height} pixels" + (f" in a slow kind of {image.format}" if is_slow(image) else "")
        raise _too_large(where, what, f"{limit // 10**6} million are")
    if min(width, height) < min_side:  # what is scaled up from a few pixels, or from a line, looks like nothing
        raise SalaError(
            f"{where} is {width} x {height} pixels, too small to tell anything from (the shorter side has {min_side} at "
            "least); get a larger copy or remove it"
        )


def _too_large(where: str, what: str, limit: str) -> SalaError:
    return SalaError(f"{where} {what}, and {limit} the limit; scale it down or remove it")


def _upright_size(image: Image.Image) -> tuple[int, int]:
    width, height = image.size
    return (height, width) if _orientation(image) >= 5 else (width, height)


def _upright(image: Image.Image, size: tuple[int, int], mode: str) -> Image.Image:
    """The image turned as its EXIF says, in `mode`, at `size`: bilinear with antialiasing.

    Of a very large image each band is narrowed before the next is looked at; the others are scaled as a whole.
    """
    width, height = _upright_size(image)
    highest, turn = _highest(image), UPRIGHT.get(_orientation(image))
    canvas = Image.new(mode, (width if _is_kept_whole(image) else size[0], height))
    for top, box in _bands(image):
        band = to_mode(image.crop(box), mode, highest)
        band = band if turn is None else band.transpose(turn)
        canvas.paste(_scaled(band, (canvas.width, band.height)), (0, top))
    return _scaled(canvas, size)


def _is_kept_whole(image: Image.Image) -> bool:
    return image.width * image.height <= WHOLE_PIXELS


def _bands(image: Image.Image) -> Iterator[tuple[int, tuple[int, int, int, int]]]:
    """Rows of the upright image: where they begin, and the box of the image as it lies that they come from."""
    width, height = _upright_size(image)
    n_rows = max(1, BAND_PIXELS // width)
    by_column, from_end = _orientation(image) >= 5, _orientation(image) in (3, 4, 7, 8)
    for top in range(0, height, n_rows):
        bottom = min(top + n_rows, height)
        first, last = (height - bottom, height - top) if from_end else (top, bottom)
        yield top, ((first, 0, last, image.height) if by_column else (0, first, image.width, last))


def _orientation(image: Image.Image) -> int:
    try:
        value = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:  # the pixels are sound; only the camera's notes are not
        return 1
    return value if value in UPRIGHT else 1


def _highest(image: Image.Image) -> float:
    """The white of an image deeper than 8 bits: the smallest usual range of its mode that holds its values.
    "I;16" has one, "I" two, "F" three."""
    usual = {"F": (1.0, 255.0), "I": (255.0,)}.get(image.mode, ())
    if not usual:
        return 65535.0
    top = max(float(np.nan_to_num(np.asarray(image.crop(box), np.float64)).max()) for _, box in _bands(image))
    return next((limit for limit in usual if top <= limit), 65535.0)


def to_mode(image: Image.Image, mode: str, highest: float = 65535.0) -> Image.Image:
    """8-bit "L" or "RGB", transparency over white, deeper gray scaled to 8 bits."""
    if image.mode.startswith("I") or image.mode == "F":
        values = np.nan_to_num(np.asarray(image, dtype=np.float64)).clip(0, highest) * (255 / highest)
        image = Image.fromarray(np.rint(values).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert(mode)


def resize(image: Image.Image, image_size: int | None) -> NDArray[np.uint8]:
    """To `[image_size, image_size, channels]`: bilinear with antialiasing. None: as it is."""
    return _array(image if image_size is None else _scaled(image, (image_size, image_size)))


def _scaled(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    return image if image.size == size else image.resize(size, Image.Resampling.BILINEAR)


def _array(image: Image.Image) -> NDArray[np.uint8]:
    array = np.asarray(image, dtype=np.uint8)
    return array[:, :, None] if array.ndim == 2 else array

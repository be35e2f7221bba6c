"""What decoding an image file costs, told from its header before a pixel is read.

Measured with Pillow 13 on files of 25 million pixels, as growth of the process: PNG, BMP and PPM take what Pillow keeps an
image in; JPEG next to nothing where it is decoded at a fraction of its size, unless it has several scans, whose coefficients
(two bytes each) are all kept; WEBP 16 bytes a pixel; TIFF also one decoded strip or tile, and the file itself.
"""

from __future__ import annotations

from io import SEEK_CUR, SEEK_END
from math import prod
from typing import Any, BinaryIO

from PIL import ExifTags, Image

WEBP_BYTES = 16  # a pixel: two canvases of the animation decoder, a copy of one, and the image
COEFFICIENT_BYTES = 2
START_OF_SCAN = 0xDA
SLOW_CODECS = {"bmp_rle", "ppm", "ppm_plain"}  # decoded by a loop in Python
TIFF_BITS, TIFF_SAMPLES, TIFF_ROWS_PER_STRIP, TIFF_TILE_WIDTH, TIFF_TILE_LENGTH = 258, 277, 278, 322, 323


def decoding_bytes(image: Image.Image, full_size: tuple[int, int]) -> int:
    """How much memory `image.load()` takes at its peak; `full_size` is what the image had before `draft`."""
    n_pixels = int(prod(image.size))
    own = n_pixels * _pixel_bytes(image.mode)
    if image.format == "WEBP":
        return n_pixels * WEBP_BYTES
    if image.format == "TIFF":
        is_turned = bool(image.getexif().get(ExifTags.Base.Orientation, 1) != 1)  # Pillow itself turns it upright
        return own * (1 + is_turned) + _strip_bytes(image) + _file_bytes(image)
    if image.format == "JPEG":
        return own + _coefficient_bytes(image, full_size)
    if is_slow(image):
        return 4 * own  # bytes that are gathered, and copied
    return own


def is_slow(image: Image.Image) -> bool:
    """Whether Pillow decodes it in a loop in Python."""
    return any(tile[0] in SLOW_CODECS for tile in getattr(image, "tile", []))


def _pixel_bytes(mode: str) -> int:
    if mode in ("1", "L", "P"):
        return 1
    return 2 if mode.startswith("I;16") else 4


def _strip_bytes(image: Any) -> int:
    """The largest strip or tile of a TIFF, decoded."""
    tags = image.tag_v2
    width, height = image.size
    bits = tags.get(TIFF_BITS, (8,))
    sample_bytes = int(max(1, max(bits if isinstance(bits, tuple) else (bits,)) // 8))
    columns, rows = tags.get(TIFF_TILE_WIDTH, width), tags.get(TIFF_TILE_LENGTH, tags.get(TIFF_ROWS_PER_STRIP, height))
    if TIFF_TILE_LENGTH not in tags:
        rows = min(rows, height)
    return int(columns * rows) * sample_bytes * max(1, int(tags.get(TIFF_SAMPLES, 1)))


def _file_bytes(image: Any) -> int:
    place = image.fp.tell()
    size: int = image.fp.seek(0, SEEK_END)
    image.fp.seek(place)
    return size


def _coefficient_bytes(image: Any, full_size: tuple[int, int]) -> int:
    """Of a JPEG that comes in several scans: all of them are kept until the last is there."""
    is_plain = not image.info.get("progressive") and _first_scan_parts(image.fp) == image.layers
    return 0 if is_plain else int(prod(full_size) * image.layers * COEFFICIENT_BYTES)


def _first_scan_parts(file: BinaryIO) -> int:
    """How many components (Y, Cb, Cr) the first scan of a JPEG has; 0 where there is none."""
    place = file.tell()
    file.seek(2)  # after the mark of a JPEG
    try:
        while len(head := file.read(4)) == 4:
            marker, length = head[1], int.from_bytes(head[2:], "big")
            if head[0] != 0xFF or length < 2:
                return 0
            if marker == START_OF_SCAN:
                return next(iter(file.read(1)), 0)
            if marker == 0xFF:  # padding before the marker
                file.seek(-3, SEEK_CUR)
            else:
                file.seek(length - 2, SEEK_CUR)
        return 0
    finally:
        file.seek(place)

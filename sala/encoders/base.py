"""What an encoder is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sala.data.files import open_regular, unreadable
from sala.data.images import decode, full_image, resize, to_mode

MIN_SIDE = 8  # pixels of an image's shorter side: letters of 28 and icons of 16 are images, lines and dots are not
Images = NDArray[np.uint8]  # [n, image_size, image_size, channels]
Features = NDArray[np.float32]  # [n, d]


class Encoder(Protocol):
    """Images of one size to features. Equal `identity` means equal features, whatever the machine's paths are.

    More is optional. `is_thread_safe` says that `embed` may be called by several threads at once, `batch_size` how many images
    it is best given then. `weights` lists its files. `cache_key` is what features are kept under where `identity` does not
    tell all. With `prepare(image)`, from an upright RGB image of any size to an array, it has its own preprocessing, and
    `embed` takes such arrays.
    """

    name: str
    identity: str
    image_size: int
    mode: str  # "RGB" or "L"

    def embed(self, images: Images) -> Features:
        """Features `[n, d]` of images `[n, image_size, image_size, channels]`."""
        ...


def cache_key(encoder: Encoder) -> str:
    """What the features of an encoder are kept under."""
    return str(getattr(encoder, "cache_key", encoder.identity))


def prepared(image: Image.Image, encoder: Encoder) -> NDArray[Any]:
    """An image in memory as the encoder takes it."""
    prepare = getattr(encoder, "prepare", None)
    if prepare is None:
        return resize(to_mode(image, encoder.mode), encoder.image_size)
    return np.asarray(prepare(to_mode(image, "RGB")))


def read_image(stream: BinaryIO, where: str, encoder: Encoder) -> NDArray[Any]:
    """An image file as the encoder takes it."""
    prepare = getattr(encoder, "prepare", None)
    if prepare is None:
        return decode(stream, where, image_size=encoder.image_size, mode=encoder.mode, min_side=MIN_SIDE)
    with full_image(stream, where, min_side=MIN_SIDE) as image:
        return np.asarray(prepare(image))


def file_hash(path: Path) -> str:
    """sha256 of a file's content."""
    try:
        with open_regular(path) as file:
            return content_hash(file).hex()
    except OSError as error:
        raise unreadable(path, error) from None


def content_hash(file: BinaryIO) -> bytes:
    """sha256 of what an open file holds."""
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.digest()

"""What an encoder is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from sala.data.files import open_regular, unreadable

Images = NDArray[np.uint8]  # [n, image_size, image_size, channels]
Features = NDArray[np.float32]  # [n, d]


class Encoder(Protocol):
    """Images of one size to features. Equal `identity` means equal features, whatever the machine's paths are.

    Two attributes more are optional: `is_thread_safe` says that `embed` may be called by several threads at once, and
    `batch_size` how many images it is best given then.
    """

    name: str
    identity: str
    image_size: int
    mode: str  # "RGB" or "L"

    def embed(self, images: Images) -> Features:
        """Features `[n, d]` of images `[n, image_size, image_size, channels]`."""
        ...


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

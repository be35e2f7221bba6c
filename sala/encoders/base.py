"""What an encoder is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sala.data.files import unreadable

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

    def embed(self, images: Images) -> Features: ...


def file_hash(path: Path) -> str:
    """sha256 of a file's content."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise unreadable(path, error) from None
    return digest.hexdigest()

"""Files of one color each, and an encoder whose answer one sees, which counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


class MeanColor:
    """An encoder whose answer one sees: the mean of each channel. It counts the images it is given."""

    name, identity, image_size, mode = "mean-color", "mean-color-1", 8, "RGB"

    def __init__(self) -> None:
        self.n_images = 0

    def embed(self, images: np.ndarray) -> np.ndarray:
        self.n_images += len(images)
        assert images.shape[1:] == (8, 8, 3) and images.dtype == np.uint8
        return images.mean((1, 2)).astype(np.float32)


def saved(path: Path, image: Image.Image, **options: object) -> Path:
    image.save(path, **options)  # type: ignore[arg-type]
    return path


def some_images(folder: Path, n: int) -> list[Path]:
    return [saved(folder / f"{i}.png", Image.new("RGB", (8, 8), (i, 2 * i, 3 * i))) for i in range(n)]

"""Hints on images that are hard to label whatever the classifier: tiny and blurred ones, compared with the others.

    measured = {i: measure(small, size) for ...}      # Measure: size and sharpness
    find_hints(measured)                              # {17: "tiny: 40 x 30 pixels", 23: "blurred"}

Sharpness is the variance of the Laplacian over that of the image, at 240 pixels. Turned images get no hint: what the camera
noted (EXIF) is applied when a file is read, and nothing reliable tells a turned photo that has no such note.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image

SIDE = 240  # pixels of the longer side at which sharpness is measured
TINY = 64  # pixels of the shorter side
BLURRED = 0.08  # of the median sharpness: below the 99 % sharpest photos, above nearly all blurred by 1 % of their side
MIN_COMPARED = 20  # images
MIN_CONTRAST = 5.0  # standard deviation of gray levels: a flat image has no edges to be sharp


@dataclass(frozen=True)
class Measure:
    """Width and height of an image, and its sharpness; None where it is flat or was enlarged."""

    width: int
    height: int
    sharpness: float | None


def measure(image: Image.Image, size: tuple[int, int]) -> Measure:
    """Of an image of the original size `size`, which may be scaled down by now."""
    scale = SIDE / max(image.size)
    if scale < 1:
        image = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    return Measure(*size, _sharpness(np.asarray(image.convert("L"), np.float32)) if max(size) >= SIDE else None)


def _sharpness(x: np.ndarray) -> float | None:
    if min(x.shape) < 3 or x.std() < MIN_CONTRAST:
        return None
    laplacian = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]
    return float(laplacian.var() / x.var())


def find_hints(measured: Mapping[int, Measure]) -> dict[int, str]:
    """A hint for each image that is tiny or blurred among the others; none where there are few to compare with."""
    if len(measured) < MIN_COMPARED:
        return {}
    tiny = min(TINY, float(np.median([min(m.width, m.height) for m in measured.values()])) / 2)
    sharpness = [m.sharpness for m in measured.values() if m.sharpness is not None]
    blurred = BLURRED * float(np.median(sharpness)) if len(sharpness) >= MIN_COMPARED else 0.0
    hints = {}
    for i, m in measured.items():
        if 0 < min(m.width, m.height) < tiny:
            hints[i] = f"tiny: {m.width} x {m.height} pixels"
        elif m.sharpness is not None and m.sharpness < blurred:
            hints[i] = "blurred"
    return hints

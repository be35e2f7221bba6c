"""Pictures of a page: small images as data URIs, with a frame and lines below."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image


@dataclass(frozen=True)
class Picture:
    """An image with a colored frame, as the macro `figure` shows it."""

    uri: str
    color: str  # of the frame
    lines: Sequence[str]  # below the image
    name: str = ""  # below the lines, cut to one line
    title: str = ""  # shown on hovering
    is_faded: bool = False


def data_uri(image: Image.Image, form: str = "PNG", **options: Any) -> str:
    """Return an image file as the text of a `src` attribute; `options` are those of `Image.save`."""
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return f"data:image/{form.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"

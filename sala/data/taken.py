"""When a picture was taken: its EXIF date, else the time of its file."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import BinaryIO

from PIL import Image

WITH_EXIF = ("JPEG", "TIFF", "WEBP")  # formats whose header has it; others would have to be decoded
EXIF_IFD, DATE_TIME_ORIGINAL, DATE_TIME = 0x8769, 0x9003, 0x0132


def date_taken(file: BinaryIO) -> float:
    """Return seconds since 1970, as the camera's clock had it; 0 where nothing is known. No pixel is decoded."""
    return _exif_date(file) or _file_date(file)


def _exif_date(file: BinaryIO) -> float:
    try:
        with Image.open(file, formats=WITH_EXIF) as image:
            exif = image.getexif()
            text = exif.get_ifd(EXIF_IFD).get(DATE_TIME_ORIGINAL) or exif.get(DATE_TIME)
        found = datetime.strptime(str(text)[:19], "%Y:%m:%d %H:%M:%S").replace(tzinfo=timezone.utc)
    except Exception:  # strangers made the file: whatever is wrong with its header, it has no date
        return 0.0
    return max(0.0, found.timestamp())


def _file_date(file: BinaryIO) -> float:
    try:
        return max(0.0, os.fstat(file.fileno()).st_mtime)
    except OSError:
        return 0.0

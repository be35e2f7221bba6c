"""Pictures of a report: each image is read once, for its picture and for what is measured of it."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from sala.data import images
from sala.errors import SalaError
from sala.labeling.export import image_size
from sala.labeling.hints import Measure, measure
from sala.labeling.predictions import Row
from sala.templates.pictures import data_uri

BLANK = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
SIDES = {300: 400, 800: 280, 2_000: 180}  # up to so many pictures, pixels of their longer side: about 10 MB in all
SMALLEST = 120
WORKERS = 4


class Album:
    """Pictures as data URIs by file. The fewer there are, the larger they are."""

    def __init__(self, rows: Iterable[Row]):
        wanted = {row.path: row for row in rows}
        self.side = next((side for most, side in SIDES.items() if len(wanted) <= most), SMALLEST)
        with ThreadPoolExecutor(WORKERS) as workers:
            found = list(workers.map(self._read, wanted.values()))
        self._uris = {row.path: uri for row, (uri, _) in zip(wanted.values(), found, strict=True)}
        self.measured = {
            row.index: m for row, (_, m) in zip(wanted.values(), found, strict=True) if m is not None and row.index >= 0
        }

    def uri(self, row: Row) -> str:
        """A JPEG; a blank image where the file is gone or unreadable."""
        return self._uris.get(row.path, BLANK)

    def _read(self, row: Row) -> tuple[str, Measure | None]:
        try:
            with row.open() as file:
                image = images.thumbnail(file, "", side=self.side)
        except (SalaError, OSError):
            return BLANK, None
        return data_uri(image, "JPEG", quality=72, optimize=True), measure(image, image_size(row))

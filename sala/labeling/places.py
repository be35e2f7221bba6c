"""Where the images of a project come from, and where results may go without becoming input the next time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sala.data.files import open_regular
from sala.errors import SalaError
from sala.labeling.folders import check_folder, check_writable, is_inside
from sala.text import printable


@dataclass(frozen=True)
class Places:
    """A pool, and labels for it: a folder for each class in `labeled`, or `path,label` rows in the file `labels`."""

    pool: Path
    labeled: Path | None = None
    labels: Path | None = None
    outliers: Path | None = None  # a folder of images that are of none of the classes

    def check(self, out: Path | None = None, copy_to: Path | None = None) -> None:
        """Refuse, before the work, what is not there, lies in each other, or could not be written."""
        if (self.labeled is None) == (self.labels is None):
            raise SalaError("labels come from a folder of class folders or from a --labels file; give one of them")
        if self.labels is not None:
            open_regular(self.labels).close()
        for folder, what in self._folders():
            check_folder(folder, what)
        self._check_apart()
        for place, option in ((out, "--out"), (copy_to, "--copy-to")):
            if place is not None:
                self._check_target(place, option, may_be_in_pool=option == "--out")
                check_writable(place, option)

    def _folders(self) -> list[tuple[Path, str]]:
        named = [(self.labeled, "labeled images"), (self.pool, "images to label"), (self.outliers, "known outliers")]
        return [(folder, what) for folder, what in named if folder is not None]

    def _check_apart(self) -> None:
        if self.labeled is not None and is_inside(self.pool, self.labeled):
            raise SalaError(
                f"the pool {printable(str(self.pool))} is in the folder of labeled images {printable(str(self.labeled))}, "
                "where it would be a class; put the images to label into a folder of their own"
            )
        for other in (self.labeled, self.pool):
            if self.outliers is None or other is None:
                continue
            if is_inside(self.outliers, other) or is_inside(other, self.outliers):
                raise SalaError(
                    f"the folder of known outliers {printable(str(self.outliers))} and {printable(str(other))} lie in each "
                    "other; give the outliers a folder of their own"
                )

    def _check_target(self, place: Path, option: str, *, may_be_in_pool: bool) -> None:
        """What is written into a folder of images would be read as images of the user's the next time."""
        for folder, what in self._folders():
            if is_inside(place, folder) and not (may_be_in_pool and folder == self.pool):
                raise SalaError(
                    f"{printable(str(place))} is in the folder {printable(str(folder))} with {what}, where the next run would "
                    f"read it; choose another {option}"
                )
        if option == "--copy-to" and self.outliers is not None and is_inside(self.outliers, place):
            raise SalaError(
                f"the folder of known outliers {printable(str(self.outliers))} is in {printable(str(place))}, where images "
                "are sorted as predicted; copy those that are outliers indeed into a folder of their own"
            )

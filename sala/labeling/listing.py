"""The images of several folders, in an order that every process finds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sala.errors import SalaError
from sala.labeling.folders import image_files
from sala.text import printable


def listed(folders: Sequence[Path], *, skip: Path | None = None) -> tuple[list[tuple[int, Path]], dict[Path, str]]:
    """Images, each with the number of its folder, and files that cannot be used, with the reasons."""
    files: list[tuple[int, Path]] = []
    skipped: dict[Path, str] = {}
    for number, folder in enumerate(folders):
        for path, problem in image_files(folder, skip=skip):
            if problem is None:
                files.append((number, path))
            else:
                skipped[path] = problem
    if not files:
        why = f" ({next(iter(skipped.values()))})" if skipped else ""
        names = ", ".join(printable(str(folder)) for folder in folders)
        raise SalaError(f"there is no image in {names}{why}; name folders with images")
    return files, skipped

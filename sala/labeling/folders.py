"""Users' folders: which files are images, and which folders may be read from or written to."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from sala.data.files import IMAGE_SUFFIXES, unreadable
from sala.errors import SalaError
from sala.text import printable

# images that we cannot open: they are reported, where other files are passed over
FOREIGN_SUFFIXES = {".heic", ".heif", ".avif", ".jxl", ".jp2", ".svg", ".psd", ".cr2", ".nef", ".arw", ".dng"}


def check_folder(folder: Path, what: str) -> None:
    """Refuse one that is not there, or cannot be read."""
    if folder.is_file():
        raise SalaError(f"{printable(str(folder))} is a file, not a folder with {what}; put them into one, unpacked")
    if not folder.is_dir():
        raise SalaError(f"there is no folder {printable(str(folder))} with {what}; look at its name")
    try:
        check_readable(folder)
    except OSError as error:
        raise unreadable(f"the folder {printable(str(folder))} with {what}", error) from None


def check_readable(folder: Path) -> None:
    """OSError unless its names can be listed and what they stand for be read."""
    if not os.access(folder, os.R_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def check_writable(folder: Path, option: str) -> None:
    """Refuse, before the work, a folder that could not be made or written into."""
    place = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))
    if not place.is_dir():
        raise SalaError(f"{printable(str(place))} is a file, and a folder is wanted; choose another {option}")
    if not os.access(place, os.W_OK | os.X_OK):
        raise SalaError(f"this user may not write into {printable(str(place))}; allow it, or choose another {option}")


def check_file(path: Path, option: str) -> None:
    """Refuse, before the work, a file that could not be written."""
    if path.is_dir():
        raise SalaError(f"{printable(str(path))} is a folder, and a file is wanted; choose another {option}")
    if real_path(path).is_symlink():
        raise SalaError(f"{printable(str(path))} is a link that leads in a circle; choose another {option}")
    check_writable(path.absolute().parent, option)


OUTLIER_NAME = "outlier"  # what exports and the page call images that are of none of the classes


def checked_class(name: str) -> str:
    """A class's name, unless it is reserved for outliers."""
    if name.casefold() == OUTLIER_NAME:
        raise SalaError(
            f"a class cannot be called {printable(name)!r}, which is reserved for images of none of the classes; leave these "
            "in the pool, give them with --outliers, or rename the class"
        )
    return name


def is_inside(path: Path, folder: Path) -> bool:
    """Whether it is that folder or in it, links followed."""
    return real_path(path).is_relative_to(real_path(folder))


def real_path(path: Path) -> Path:
    """Where a path leads, links followed; links that lead in a circle are left as they are (`Path.resolve` fails there)."""
    return Path(os.path.realpath(path))


def image_files(root: Path, *, skip: Path | None = None) -> Iterator[tuple[Path, str | None]]:
    """Images in a folder and all below it, sorted, each with what is wrong with it, if anything is known already."""
    return ((root / name, problem) for name, problem in image_names(root, skip=skip))


def image_names(root: Path, *, skip: Path | None = None) -> Iterator[tuple[str, str | None]]:
    """The same by their names in the folder, with `/` between the parts: a path of its own for each of a million files
    costs more than looking them up.

    Hidden files and files that are no images by their names are passed over. A link is followed only to a file in the
    same root, so that nothing comes from elsewhere and nothing comes twice. Of the folders on the way to an image the names
    are in memory, and no more.
    """
    real_root, base = os.path.realpath(root), os.path.join(root, "")
    left: list[tuple[str, list[str]]] = []  # folders as `a/b/`, each with its names to come, the next one last

    def enter(below: str) -> None:
        folder = Path(base + below)
        if skip is None or real_path(folder) != real_path(skip):
            check_readable(folder)
            left.append((below, sorted((name for name in os.listdir(folder) if not is_hidden(name)), reverse=True)))

    try:
        enter("")
    except OSError as error:
        yield ".", str(unreadable(printable(str(root)), error))
    while left:
        below, names = left[-1]
        if not names:
            left.pop()
            continue
        name = below + names.pop()
        try:
            state = os.lstat(base + name)
            if stat.S_ISDIR(state.st_mode):
                enter(f"{name}/")
            elif (problem := _problem(base + name, state, real_root)) != PASSED_OVER:
                yield name, problem
        except OSError as error:
            yield name, str(unreadable(printable(str(root / name)), error))


PASSED_OVER = ""


def is_hidden(name: str) -> bool:
    """`.thumbnails`, `._photo.jpg`; a name that starts with two dots is only odd."""
    return name.startswith(".") and not name.startswith("..")


def _problem(name: str, state: os.stat_result, real_root: str) -> str | None:
    """None for an image; PASSED_OVER for what is none; else a sentence."""
    if stat.S_ISREG(state.st_mode) and state.st_size and os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES:
        return None  # nearly all of a large pool: nothing more is asked of the disk
    path = Path(name)
    shown, suffix = printable(str(path)), path.suffix.lower()
    if stat.S_ISLNK(state.st_mode):
        is_folder = path.is_dir()
        if suffix not in IMAGE_SUFFIXES and not is_folder:
            return PASSED_OVER
        if not Path(os.path.realpath(path)).is_relative_to(real_root):
            return f"{shown} is a link that points out of the folder and is not followed; copy what it points to"
        if is_folder:
            return f"{shown} is a link to a folder and is not followed; its images are taken where they are"
    if suffix in FOREIGN_SUFFIXES:
        return f"{shown} is in a format that is not read ({suffix[1:]}); convert it to JPEG or PNG"
    if suffix not in IMAGE_SUFFIXES:
        return PASSED_OVER
    if not path.is_file():
        return f"{shown} is not a file; remove it"
    if path.stat().st_size == 0:
        return f"{shown} is empty; get a fresh copy of it or remove it"
    return None


def as_text(name: str | Path) -> str:
    """A name that any UTF-8 file can hold: bytes that are not UTF-8 become `\\udcXX`."""
    return str(name).encode("utf-8", "backslashreplace").decode()

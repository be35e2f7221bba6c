"""Images in users' folders: which files count, which are examples of which class, and which are copies of each other."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sala.data.files import IMAGE_SUFFIXES, unreadable
from sala.errors import SalaError
from sala.wording import counted, printable

# images that we cannot open: they are reported, where other files are passed over
FOREIGN_SUFFIXES = {".heic", ".heif", ".avif", ".jxl", ".jp2", ".svg", ".psd", ".cr2", ".nef", ".arw", ".dng"}


@dataclass(frozen=True)
class Examples:
    """The labelled images: file i is of class labels[i]."""

    classes: tuple[str, ...]
    paths: list[Path]
    labels: list[int]
    set_aside: dict[Path, str]


def check_places(labelled: Path, pool: Path, written: Sequence[Path] = ()) -> None:
    """Refuse folders that are not there, or lie in each other so that images would count as what they are not."""
    check_folder(labelled, "labelled images")
    check_folder(pool, "images to label")
    if is_inside(pool, labelled):
        raise SalaError(
            f"the pool {printable(str(pool))} is in the folder of labelled images {printable(str(labelled))}, where it "
            "would be a class; put the images to label into a folder of their own"
        )
    for place in written:
        for folder in (labelled, pool):
            if is_inside(place, folder):
                raise SalaError(
                    f"{printable(str(place))} is in {printable(str(folder))}, and what is written there would be taken for "
                    "images of yours the next time; choose a folder outside"
                )


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


def check_out(out: Path, labelled: Path) -> None:
    """Refuse, before anything is done, what could not be written to, or would be a class the next time."""
    if is_inside(out, labelled):
        raise SalaError(
            f"{printable(str(out))} is in the folder of labelled images {printable(str(labelled))}, where it would be a class "
            "the next time; choose another --out"
        )
    check_writable(out, "--out")


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
    check_writable(path.absolute().parent, option)


NO_CLASS = "none of these"  # what images are called that are of no class


def checked_class(name: str) -> str:
    """A class's name, unless it is what is said of images of no class."""
    if name.casefold() == NO_CLASS:
        raise SalaError(
            f"a class cannot be called {printable(name)!r}, which is what images of no class are called; these need no "
            "examples: leave them in the pool, or name the class otherwise"
        )
    return name


def in_two_classes(a: Path, b: Path) -> SalaError:
    names = " and ".join(printable(str(path)) for path in (a, b))
    return SalaError(f"{names} are the same image in two classes; remove it from one of them")


def copied(path: Path, original: Path) -> str:
    return f"{printable(str(path))} has the content of {printable(str(original))}, which counts once; remove it"


def is_inside(path: Path, folder: Path) -> bool:
    """Whether it is that folder or in it, links followed."""
    return path.resolve().is_relative_to(folder.resolve())


def image_files(root: Path, *, skip: Path | None = None) -> Iterator[tuple[Path, str | None]]:
    """Images in a folder and all below it, sorted, each with what is wrong with it, if anything is known already.

    Hidden files and files that are no images by their names are passed over. A link is followed only to a file in the
    same root, so that nothing comes from elsewhere and nothing comes twice. Of the folders on the way to an image the names
    are in memory, and no more.
    """
    real_root = os.path.realpath(root)
    left: list[tuple[Path, list[str]]] = []  # folders, each with its names that are to come, the next one last

    def enter(folder: Path) -> None:
        if skip is None or folder.resolve() != skip.resolve():
            check_readable(folder)
            left.append((folder, sorted((name for name in os.listdir(folder) if not is_hidden(name)), reverse=True)))

    try:
        enter(root)
    except OSError as error:
        yield root, str(unreadable(printable(str(root)), error))
    while left:
        folder, names = left[-1]
        if not names:
            left.pop()
            continue
        path = folder / names.pop()
        try:
            state = path.lstat()
            if stat.S_ISDIR(state.st_mode):
                enter(path)
            elif (problem := _problem(path, state, real_root)) != PASSED_OVER:
                yield path, problem
        except OSError as error:
            yield path, str(unreadable(printable(str(path)), error))


PASSED_OVER = ""


def is_hidden(name: str) -> bool:
    """`.thumbnails`, `._photo.jpg`; a name that starts with two dots is only odd."""
    return name.startswith(".") and not name.startswith("..")


def _problem(path: Path, state: os.stat_result, real_root: str) -> str | None:
    """None for an image; PASSED_OVER for what is none; else a sentence."""
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


def read_examples(folder: Path) -> Examples:
    """`class/*.jpg`, with two classes at least and an image in each."""
    classes, loose = _class_folders(folder)
    _check_number(folder, classes, loose)
    set_aside = {path: f"{printable(str(path))} is in no class folder; move it into one" for path in loose}
    paths: list[Path] = []
    labels: list[int] = []
    for c, place in enumerate(classes):
        found = list(image_files(place))
        good = [path for path, problem in found if problem is None]
        set_aside |= {path: problem for path, problem in found if problem is not None}
        if not good:
            raise _without_image(place, found)
        paths += good
        labels += [c] * len(good)
    names = tuple(checked_class(as_text(place.name)) for place in classes)
    return Examples(names, paths, labels, set_aside | _links(folder))


def _check_number(folder: Path, classes: Sequence[Path], loose: Sequence[Path]) -> None:
    links = len(_links(folder))
    linked = f" (and {counted(links, 'link')} to folders, not followed: copy these)" if links else ""
    if not classes:
        what = f" but {counted(len(loose), 'image')}" if loose else ""
        raise SalaError(
            f"{printable(str(folder))} has no class folders{what}{linked}; make one folder a class in it, named as the "
            "class, with 1 to 10 images each (this folder is named first, the one to label second)"
        )
    if len(classes) < 2:
        raise SalaError(
            f"{printable(str(folder))} has one class only ({printable(classes[0].name)}), and there is nothing to tell apart"
            f"{linked}; add a folder with images of another class, or {ON_THE_PAGE}"
        )


ON_THE_PAGE = "add classes and examples by hand with `sala serve`"


def _without_image(place: Path, found: Sequence[tuple[Path, str | None]]) -> SalaError:
    """For a class folder, which may not even be readable."""
    where, reason = found[0] if found else (None, None)
    if where == place:
        return SalaError(f"the class folder {reason}")
    why = f" that can be used ({reason})" if reason else ""
    return SalaError(
        f"the class folder {printable(str(place))} has no image{why}; put one into it, remove the folder, or {ON_THE_PAGE}"
    )


def _class_folders(folder: Path) -> tuple[list[Path], list[Path]]:
    """Folders that are classes, and images beside them."""
    try:
        check_readable(folder)
        places = sorted(path for path in folder.iterdir() if not is_hidden(path.name))
    except OSError as error:
        raise unreadable(printable(str(folder)), error) from None
    classes = [path for path in places if path.is_dir() and not path.is_symlink()]
    return classes, [path for path in places if path.suffix.lower() in IMAGE_SUFFIXES and path not in classes]


def _links(folder: Path) -> dict[Path, str]:
    """Class folders that are links."""
    links = [path for path in sorted(folder.iterdir()) if path.is_symlink() and path.is_dir()]
    return {
        path: f"{printable(str(path))} is a link to a folder and is not followed; copy the folder" for path in links
    }


def as_text(name: str | Path) -> str:
    """A name that any UTF-8 file can hold: bytes that are not UTF-8 become `\\udcXX`."""
    return str(name).encode("utf-8", "backslashreplace").decode()


def first_of_content(paths: Sequence[Path]) -> NDArray[np.int64]:
    """For each file the index of the first file with the same content. Only files of equal size are read."""
    by_size: dict[int, list[int]] = defaultdict(list)
    first = np.arange(len(paths))
    for i, path in enumerate(paths):
        try:
            state = path.stat()
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(state.st_mode):
            by_size[state.st_size].append(i)
    for group in by_size.values():
        seen: dict[bytes, int] = {}
        for i in group if len(group) > 1 else []:
            try:
                digest = hashlib.sha256(paths[i].read_bytes()).digest()
            except OSError:
                continue
            first[i] = seen.setdefault(digest, i)
    return first

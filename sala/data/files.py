"""Users' files, which are not trusted: archives and lists, each opened within bounds (`images.py` has images, `pickles.py`
pickles).

Every failure is a `SalaError` with one sentence: what, where, what to do.
"""

from __future__ import annotations

import csv
import io
import os
import stat
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TextIO

from sala.errors import SalaError
from sala.text import printable

MAX_MEMBER_BYTES = 256 << 20  # of one image file: the most pixels that are read, in RGB, not compressed
MAX_TEXT_BYTES = 64 << 20  # of one list, table or configuration
MAX_ROW = 1 << 20  # characters of one row of a table
IMAGE_SUFFIXES = {
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm",
}  # fmt: skip


class Tree:
    """A folder or a zip archive, seen as a set of relative paths with bytes behind them. Nothing is ever unpacked."""

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self._zip = None if self.path.is_dir() else _open_zip(self.path)

    def files(self) -> list[str]:
        """The relative paths of all files, sorted, with `/` between the parts."""
        return sorted(self._members if self._zip is not None else self._listing[0])

    def folders(self) -> set[str]:
        """The relative paths of all folders, empty ones too."""
        if self._zip is None:
            return self._listing[1]
        explicit = {_slashed(name).rstrip("/") for name in self._zip.namelist() if _slashed(name).endswith("/")}
        return explicit | {parent.as_posix() for f in self._members for parent in PurePosixPath(f).parents} - {"."}

    def read(self, name: str, limit: int = MAX_MEMBER_BYTES) -> bytes:
        """The bytes of one file, which is an image's and so has a bound."""
        content = self._read_file(name, limit) if self._zip is None else self._read_member(name, limit)
        self._check_size(name, len(content), limit)
        return content

    def _check_size(self, name: str, n_bytes: int, limit: int) -> None:
        if n_bytes > limit:
            raise SalaError(f"{self.where(name)} is larger than {limit >> 20} MiB, too large for one image; remove it")

    def where(self, name: str) -> str:
        """How messages name a file of this tree."""
        return printable(f"{self.path}/{name}" if self._zip is None else f"{name} in {self.path}")

    @cached_property
    def _members(self) -> dict[str, zipfile.ZipInfo]:
        infos = self._zip.infolist() if self._zip is not None else []
        return {_slashed(info.filename): info for info in infos if not _slashed(info.filename).endswith("/")}

    @cached_property
    def _listing(self) -> tuple[set[str], set[str]]:  # files, folders
        files, folders = set(), set()
        for folder, names in walk(self.path):
            here = folder.relative_to(self.path)
            folders.add(here.as_posix())
            files |= {(here / name).as_posix() for name in names if (folder / name).is_file()}  # no pipe, no dead link
        return files, folders - {"."}

    def _read_file(self, name: str, limit: int) -> bytes:
        try:
            with (self.path / name).open("rb") as file:
                return file.read(limit + 1)
        except OSError as error:
            raise unreadable(self.where(name), error) from None

    def _read_member(self, name: str, limit: int) -> bytes:
        assert self._zip is not None
        info = self._members[name]
        if info.flag_bits & 1:
            raise SalaError(f"{self.where(name)} is encrypted; unpack the archive and give the folder")
        self._check_size(name, info.file_size, limit)  # before a byte is unpacked
        try:
            with self._zip.open(info) as file:
                return file.read(limit + 1)
        except Exception as error:  # each way of compression has its own exceptions
            raise SalaError(f"{self.where(name)} cannot be read ({error}); get a fresh copy of the archive") from None


def walk(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each folder with its files. Links to folders are followed (class folders are often links), but none twice."""

    def refuse(error: OSError) -> None:
        raise unreadable(printable(str(error.filename)), error) from None

    seen = set()
    for folder, subfolders, files in os.walk(root, onerror=refuse, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:
            subfolders.clear()
            continue
        subfolders.sort()
        seen.add(real)
        yield Path(folder), sorted(files)


def unreadable(where: object, error: OSError | ValueError) -> SalaError:
    """The sentence for a file or folder that the system does not let us read."""
    repairs: dict[type[Exception], str] = {
        PermissionError: "allow this user to read it",
        FileNotFoundError: "put it there",
    }
    repair = repairs.get(type(error), "get a fresh copy of it")
    reason = getattr(error, "strerror", None) or error
    return SalaError(f"{where} cannot be read ({reason}); {repair}")


def open_regular(path: Path) -> BinaryIO:
    """A file, open to be read. Devices and pipes, which could be read for ever, are refused."""
    shown = printable(str(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise unreadable(shown, error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SalaError(f"{shown} is not a file (a folder, pipe or device); give a file")
    return os.fdopen(descriptor, "rb")


def open_inside(path: Path, folder: Path | None) -> BinaryIO:
    """A file, open to be read, that is in a folder, links followed. No folder is any."""
    if folder is None:
        return open_regular(path)
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(folder):
        raise SalaError(f"{printable(str(path))} leads out of its folder; put a copy of the file there")
    return open_regular(real)


def read_bounded(path: Path, limit: int = MAX_TEXT_BYTES) -> bytes:
    """The bytes of a file that is neither a device nor larger than it has reason to be."""
    with open_regular(path) as file:
        size = _check_size(path, file, limit)
        try:
            return file.read(size + 1)
        except OSError as error:
            raise unreadable(printable(str(path)), error) from None


def _check_size(path: Path, file: BinaryIO, limit: int) -> int:
    size = os.fstat(file.fileno()).st_size
    if size > limit:
        raise SalaError(f"{printable(str(path))} is larger than {limit >> 20} MiB, too large for its kind; get another")
    return size


def read_text(path: Path, limit: int = MAX_TEXT_BYTES) -> str:
    """The text of a file in UTF-8, of bounded size."""
    try:
        return read_bounded(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SalaError(f"{printable(str(path))} is not text in UTF-8; save it as such") from None


def read_csv(path: Path) -> list[list[str]]:
    """The non-empty rows of a CSV file, cells without blanks around them."""
    return [row for _, row in csv_rows(path)]


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The non-empty rows of a CSV file, one after the other, each with the number of the line on which it ends."""
    shown = printable(str(path))
    try:
        with open_regular(path) as file:
            _check_size(path, file, MAX_TEXT_BYTES)
            yield from parsed_rows(file, shown)
    except OSError as error:
        raise unreadable(shown, error) from None


def parsed_rows(file: BinaryIO, shown: str) -> Iterator[tuple[int, list[str]]]:
    """The same of an open file, which errors call `shown`."""
    try:
        for number, row in _rows(file):
            if any("\0" in cell for cell in row):
                raise SalaError(f"{shown} is not a CSV file: it holds NUL bytes; get a fresh copy of it")
            if row:
                yield number, [cell.strip() for cell in row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise SalaError(f"{shown} is not a CSV file in UTF-8 ({error}); save it as such") from None


def _rows(file: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    n_characters = 0  # of the row that is being read

    def lines(text: TextIO) -> Iterator[str]:
        nonlocal n_characters
        while line := text.readline(MAX_ROW + 1):
            n_characters += len(line)
            if n_characters > MAX_ROW:
                raise csv.Error(f"a row has more than {MAX_ROW:,} characters")
            yield line

    with io.TextIOWrapper(file, "utf-8-sig", newline="") as text:  # -sig: spreadsheets' mark
        reader = csv.reader(lines(text), strict=True)  # a quote without end would swallow the rows below it
        for row in reader:
            n_characters = 0
            yield reader.line_num, row


def _slashed(name: str) -> str:
    return name.replace("\\", "/")  # some Windows programs write archives with backslashes


def _open_zip(path: Path) -> zipfile.ZipFile:
    if not path.is_file():
        raise SalaError(f"{path} is neither a folder nor a zip archive; give one of them")
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise unreadable(path, error) from None
    except Exception:  # a damaged table of contents raises nearly anything
        raise SalaError(f"{path} {_what_is_wrong_with_zip(path)}") from None
    for name in archive.namelist():
        parts = PurePosixPath(_slashed(name)).parts
        if ".." in parts or (parts and (parts[0].startswith("/") or ":" in parts[0])):
            raise SalaError(
                f"{path} holds a member named {name!r}, which points outside the archive; do not use this file"
            )
    return archive


def _what_is_wrong_with_zip(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(512).lstrip().lower()
    if head.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "is a web page, not a zip archive: the download went wrong; open the link in a browser and save the file again"
    if head.startswith(b"pk"):
        return "is a zip archive that is cut short or damaged; download it again"
    return "is not a zip archive; give the official archive or the folder unpacked from it"

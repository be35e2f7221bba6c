"""The formats of a state file: format 2 is written, format 1 is converted on opening, for one release.

Format 1 has `labelled/` in keys and `none` for an outlier. The old file is kept as NAME.format-1.bak.
"""

from __future__ import annotations

import os
from pathlib import Path

from sala.atomic import replaced
from sala.errors import SalaError
from sala.text import printable
from sala.web.events import FORMAT, HEADER, KIND, Event, decoded, encoded, parsed

FIRST_LINES = (encoded(HEADER), encoded({**HEADER, "format": 1}))


def format_of(line: bytes) -> int:
    """Return the format that a state's first line names. ValueError where it is no such line."""
    header = decoded(line)
    number = header.get("format")
    if header.keys() != HEADER.keys() or header["kind"] != KIND or type(number) is not int or number < 1:
        raise ValueError("it is not the first line of a state")
    return number


def check_readable(number: int, name: str) -> None:
    if number > FORMAT:
        raise SalaError(
            f"{name} has format {number}, and this sala reads formats 1 to {FORMAT}; update sala or choose another --state"
        )


def parsed_as(number: int, line: bytes) -> tuple[Event, bytes]:
    """Return an event of a format, and its line in format 2. ValueError says what is wrong."""
    if number == FORMAT:
        return parsed(line), line
    event = decoded(line)
    if isinstance(event.get("items"), list):
        event["items"] = [_renamed(key) for key in event["items"]]
    if event.get("to") == "none":
        event["to"] = "outlier"
    try:
        line = encoded(event)
    except RecursionError:
        raise ValueError("it is not JSON") from None
    return parsed(line), line


def _renamed(key: object) -> object:
    is_old = isinstance(key, str) and key.startswith("labelled/")
    return f"labeled/{str(key).removeprefix('labelled/')}" if is_old else key


def replace_old(path: Path, old: bytes, new: bytes) -> None:
    """Put `new` in the place of a format-1 file; the old content is on disk beside it before."""
    place = Path(os.path.realpath(path))
    _keep(place.with_name(f"{place.name}.format-1.bak"), old)
    with replaced(place) as partial:
        write_new(partial, new)
    sync_folder(place.parent)


def _keep(backup: Path, old: bytes) -> None:
    try:
        write_new(backup, old)
    except FileExistsError:
        if backup.read_bytes() != old:  # else a conversion was cut short
            raise SalaError(f"{printable(str(backup))} is there already; move it away to convert the state") from None


def write_new(place: Path, content: bytes | bytearray) -> None:
    """Write a file that was not there before and that only its owner can read, whole or not at all."""
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
    except OSError:
        place.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Put the names of new files on disk too."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

"""Images sorted into class folders, as copies or links. Nothing is moved, overwritten, or written outside the folder."""

from __future__ import annotations

import filecmp
import hashlib
import os
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path, PurePath

from sala.atomic import partial_file, remove_stale
from sala.errors import SalaError
from sala.labeling.predictions import CONFIDENT, GIVEN, REJECTED, UNCERTAIN, Row
from sala.text import printable

MAX_NAME = 120  # bytes of a folder's name; file systems allow 255
# what some file system or shell does not take, and the sign of escaping itself
UNSAFE = set('/\\:*?"<>|%')
RESERVED = (UNCERTAIN, REJECTED)
DEVICES = {"CON", "PRN", "AUX", "NUL", *(f"{port}{i}" for port in ("COM", "LPT") for i in range(1, 10))}  # of Windows


@dataclass
class SortedFiles:
    """How many files went into each folder, and how many were there already."""

    placed: Counter[str] = field(default_factory=Counter)
    n_there: int = 0


def sort_copies(rows: Iterable[Row], target: Path, *, link: bool = False, classes: Sequence[str] = ()) -> SortedFiles:
    """Each image into `target/CLASS/`, `target/rejected/` or `target/uncertain/`."""
    done = SortedFiles()
    for _ in sorting(rows, target, done, link=link, classes=classes):
        pass
    return done


def sorting(
    rows: Iterable[Row], target: Path, done: SortedFiles, *, link: bool = False, classes: Sequence[str] = ()
) -> Iterator[Row]:
    """The same rows, each after its image was put into its folder.

    A file of that name with the same content is left as it is, one with another content too: the new one gets a number.
    """
    target.mkdir(parents=True, exist_ok=True)
    names = folder_names(classes)
    for row in rows:
        name = folder_of(row, names)
        if _place(row.path, _made(target, name), link):
            done.placed[name] += 1
        else:
            done.n_there += 1
        yield row


def folder_of(row: Row, names: Mapping[str, str]) -> str:
    """The name of the folder that an image is sorted into; `names` are those of the classes."""
    if row.verdict in (CONFIDENT, GIVEN):
        return names.get(row.label) or folder_name(row.label)
    return REJECTED if row.verdict == REJECTED else UNCERTAIN


def folder_names(classes: Sequence[str]) -> dict[str, str]:
    """A folder's name for each class, all different also where file systems take upper and lower case, or two ways to write
    an accent, for the same: then the second has a digest in its name."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for label in classes:
        name = folder_name(label)
        if _as_seen(name) in taken:
            name = _with_digest(name, label)
        taken.add(_as_seen(name))
        names[label] = name
    return names


def _as_seen(name: str) -> str:
    """What a file system that is not particular makes of a name."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def folder_name(label: str) -> str:
    """A class as a folder's name on any system: what is unsafe is written as %XX, and no two classes share a name."""
    name = "".join(c if c.isprintable() and c not in UNSAFE else _escaped(c) for c in label)
    if name.startswith((".", " ", "-", "~")) or name.split(".")[0].upper() in DEVICES or name.casefold() in RESERVED:
        name = _escaped(name[0]) + name[1:]
    if name.endswith((".", " ")):
        name = name[:-1] + _escaped(name[-1])
    return (_with_digest(name, name) if len(name.encode()) > MAX_NAME else name) or "%"


def _with_digest(name: str, of: str) -> str:
    digest = hashlib.sha256(of.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return name.encode()[: MAX_NAME - 13].decode(errors="ignore") + "%" + digest


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _made(target: Path, name: str) -> Path:
    """The folder, which must be one in `target` and no link to elsewhere."""
    folder = target / name
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise SalaError(f"{printable(str(folder))} is not a folder of its own; remove it or choose another --copy-to")
    folder.mkdir(exist_ok=True)
    remove_stale(folder)
    return folder


def _place(source: Path, folder: Path, link: bool) -> bool:
    """True if it was placed, under a name that was free; False if the same is there."""
    for n in count(1):
        place = folder / (source.name if n == 1 else numbered(source, n))
        if not os.path.lexists(place):
            if _put(source, place, link):
                return True
        elif place.is_file() and filecmp.cmp(source, place, shallow=False):
            return False
    raise AssertionError


def numbered(source: PurePath, n: int) -> str:
    """`name-2.jpg`, cut where a file system would find it too long."""
    stem = os.fsdecode(os.fsencode(source.stem)[: 240 - len(os.fsencode(source.suffix))])
    return f"{stem}-{n}{source.suffix}"


def _put(source: Path, place: Path, link: bool) -> bool:
    """False if another process took the name. A copy is complete before it has the name."""
    try:
        if link:
            place.symlink_to(source.resolve())
        else:
            _copy(source, place)
    except FileExistsError:
        return False
    return True


def _copy(source: Path, place: Path) -> None:
    with partial_file(place, hashlib.sha256(os.fsencode(place)).hexdigest()[:16]) as partial:
        shutil.copyfile(source, partial)
        shutil.copystat(source, partial)
        try:
            os.link(partial, place)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            if os.path.lexists(place):
                raise FileExistsError(place) from None
            os.rename(partial, place)

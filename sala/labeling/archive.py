"""Images sorted into class folders, as a zip archive that is never whole in memory."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import PurePosixPath

from sala.errors import SalaError
from sala.labeling.folders import OUTLIER_NAME
from sala.labeling.predictions import CONFIDENT, CONFIRMED, GIVEN, REJECTED, Row
from sala.labeling.sort import folder_names, folder_of, numbered


def zip_blocks(rows: Iterable[Row], read: Callable[[Row], bytes], classes: Sequence[str] = ()) -> Iterator[bytes]:
    """Copies of the images in class folders, `given/CLASS/` apart from `predicted/CLASS/`; then `uncertain/` and `rejected/`.
    One that cannot be read any more is skipped."""
    sink = _Sink()
    taken: dict[str, bytes] = {}
    names = folder_names(classes)
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:  # images are compressed already
        for row in rows:
            try:
                content = read(row)
            except SalaError:
                continue
            name = member_name(_folder(row, names), row.path.name, content, taken)
            if name is not None:
                archive.writestr(zipfile.ZipInfo(name), content)
                yield sink.take()
    yield sink.take()


def _folder(row: Row, names: Mapping[str, str]) -> str:
    """What the user said has folders of its own, outliers too."""
    if row.verdict == GIVEN or row.source in (GIVEN, CONFIRMED):
        return f"given/{OUTLIER_NAME if row.verdict == REJECTED else folder_of(row, names)}"
    return f"predicted/{folder_of(row, names)}" if row.verdict == CONFIDENT else folder_of(row, names)


def member_name(folder: str, path: str, content: bytes, taken: dict[str, bytes]) -> str | None:
    """A name that any system can unpack into the folder it runs in, and that no other member has, in any case of letters.
    None where the same content is there under that name."""
    digest, own = hashlib.sha256(content).digest(), PurePosixPath(path)
    for n in count(1):
        name = f"{folder}/{_plain(own.name if n == 1 else numbered(own, n))}"
        if taken.setdefault(name.casefold(), digest) is digest:
            return name
        if taken[name.casefold()] == digest:
            return None
    raise AssertionError


def _plain(name: str) -> str:
    text = name.encode("utf-8", "replace").decode()
    text = re.sub(r'[<>:"/\\|?*\x00-\x1f\x7f]', "_", text)
    return text if text.strip(". ") or not text else "_" + text.replace(".", "_")


class _Sink(io.RawIOBase):
    """A file that cannot seek: the archive is written as it is read."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        block = bytes(data)  # type: ignore[call-overload]
        self._parts.append(block)
        return len(block)

    def take(self) -> bytes:
        block, self._parts = b"".join(self._parts), []
        return block

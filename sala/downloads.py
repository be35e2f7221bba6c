"""A session's labels in the forms that other programs read: CSV, Label Studio's JSON, a zip with a folder for each class.

Each is a stream of byte blocks, so that no form is ever whole in memory.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from sala.collection import Collection
from sala.errors import SalaError
from sala.labelling.copies import folder_name, numbered
from sala.labelling.exports import HEADER, csv_line
from sala.labelling.folders import NO_CLASS
from sala.labelling.rows import DOUBTFUL, NONE_OF_THESE, SURE, Row
from sala.session import NONE, UNKNOWN, Snapshot

GIVEN = "given"  # the user's word, or a labelled image's


def to_csv(collection: Collection, shown: Snapshot) -> Iterator[bytes]:
    """A row for each image of the pool, as `sala label` writes them, with paths in the pool and verdicts of `words`."""
    yield (",".join(HEADER) + "\n").encode()
    said = words(shown)
    for rows in _blocks(_pool(collection), 1000):
        text = "".join(csv_line(_row(collection, shown, i, str(said[i]))) for i in rows)
        yield text.encode("utf-8", "backslashreplace")


def _row(collection: Collection, shown: Snapshot, i: int, verdict: str) -> Row:
    return Row(
        path=Path(collection.items[i].path),
        label=_name(shown, shown.label[i]),
        probability=float(shown.probability[i]),
        runner_up=_name(shown, shown.runner_up[i]),
        none_of_these=float(shown.none_score[i]),
        used_for_refinement=bool(shown.used[i]),
        verdict=verdict,
    )


def words(shown: Snapshot) -> NDArray[np.str_]:
    """For each image: given, sure, doubtful or none-of-these; or unknown, where no class has an example yet."""
    verdict = shown.verdict()
    kinds = [verdict == NONE, shown.given != UNKNOWN, shown.label == UNKNOWN, shown.is_doubtful]
    return np.select(kinds, [NONE_OF_THESE, GIVEN, "unknown", DOUBTFUL], SURE)


def _blocks(rows: list[int], n: int) -> Iterator[list[int]]:
    return (rows[i : i + n] for i in range(0, len(rows), n))


def to_label_studio(collection: Collection, shown: Snapshot) -> Iterator[bytes]:
    """Tasks with pre-annotations; what the user has said is an annotation. Images as local files, relative to pool/."""
    verdict, confidence = shown.verdict(), shown.confidence
    separator = b"["
    for i in _pool(collection):
        path = quote(collection.items[i].path.encode("utf-8", "surrogateescape"))
        task: dict[str, object] = {"data": {"image": f"/data/local-files/?d={path}"}}
        is_given = shown.given[i] != UNKNOWN
        if verdict[i] != UNKNOWN:
            choice = NO_CLASS if verdict[i] == NONE else _name(shown, verdict[i])
            score = 1.0 if is_given else float(shown.none_score[i] if verdict[i] == NONE else confidence[i])
            value = {"choices": [choice]}
            result = [{"from_name": "label", "to_name": "image", "type": "choices", "value": value}]
            predicted = {"model_version": "sala", "score": round(score, 4), "result": result}
            task |= {"annotations": [{"result": result}]} if is_given else {"predictions": [predicted]}
        yield separator + json.dumps(task).encode()
        separator = b",\n"
    yield b"[]\n" if separator == b"[" else b"]\n"


def to_zip(collection: Collection, shown: Snapshot) -> Iterator[bytes]:
    """Copies of the pool's images in the folders of `sala label --copy-to`: one for each class, for what is doubtful or not
    known, and for what is of no class. One that cannot be read any more is left out."""
    sink = _Sink()
    said = words(shown)
    taken: dict[str, bytes] = {}
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:  # images are compressed already
        for i in _pool(collection):
            try:
                content = collection.read(i)
            except SalaError:
                continue
            name = member_name(_folder(shown, i, str(said[i])), collection.items[i].path, content, taken)
            if name is not None:
                archive.writestr(zipfile.ZipInfo(name), content)
                yield sink.take()
    yield sink.take()


def _folder(shown: Snapshot, i: int, word: str) -> str:
    if word in (SURE, GIVEN):
        return folder_name(_name(shown, shown.label[i]))
    return NONE_OF_THESE if word == NONE_OF_THESE else DOUBTFUL


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


def _pool(collection: Collection) -> list[int]:
    return [i for i, item in enumerate(collection.items) if item.root == "pool"]


def _name(shown: Snapshot, label: int) -> str:
    return shown.names[label] if label >= 0 else ""


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

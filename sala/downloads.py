"""A session's labels in the forms that other programs read: CSV, Label Studio's JSON, a zip with a folder for each class.

Each is a stream of byte blocks, so that no form is ever whole in memory.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import quote

from sala.collection import Collection
from sala.errors import SalaError
from sala.labelling.folders import NO_CLASS
from sala.session import NONE, UNKNOWN, Snapshot

COLUMNS = ("path", "label", "probability", "runner_up", "none_of_these", "used_for_refinement", "verdict")


def to_csv(collection: Collection, shown: Snapshot) -> Iterator[bytes]:
    """A row for each image of the pool; the verdict says whether the label is the user's, sure, doubtful, or none."""
    yield (",".join(COLUMNS) + "\r\n").encode()
    for rows in _blocks(_pool(collection), 1000):
        text = io.StringIO()
        csv.writer(text).writerows(_cells(collection, shown, i) for i in rows)
        yield text.getvalue().encode("utf-8", "surrogateescape")  # a name need not be text: its own bytes


def _cells(collection: Collection, shown: Snapshot, i: int) -> list[str]:
    path = collection.items[i].path
    label = shown.given[i] if shown.given[i] >= 0 else shown.label[i]
    return [
        f"./{path}" if is_formula(path) else path, _text_cell(_name(shown, label)), f"{shown.probability[i]:.4f}",
        _text_cell(_name(shown, shown.runner_up[i])), f"{shown.none_score[i]:.4f}", str(bool(shown.used[i])).lower(),
        verdict_word(shown, i),
    ]  # fmt: skip


def verdict_word(shown: Snapshot, i: int) -> str:
    if shown.given[i] == NONE or (shown.given[i] == UNKNOWN and shown.is_junk[i]):
        return "none-of-these"
    if shown.given[i] != UNKNOWN:
        return "given"
    if shown.label[i] == UNKNOWN:
        return "unknown"
    return "sure" if shown.probability[i] * (1 - shown.none_score[i]) >= shown.sure else "doubtful"


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would compute it."""
    return text.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))


def _text_cell(text: str) -> str:
    return f"'{text}" if is_formula(text) else text


def _blocks(rows: list[int], n: int) -> Iterator[list[int]]:
    return (rows[i : i + n] for i in range(0, len(rows), n))


def to_label_studio(collection: Collection, shown: Snapshot) -> Iterator[bytes]:
    """Tasks with pre-annotations; what the user has said is an annotation. Images as local files, relative to pool/."""
    verdict = shown.verdict()
    separator = b"["
    for i in _pool(collection):
        path = quote(collection.items[i].path.encode("utf-8", "surrogateescape"))
        task: dict[str, object] = {"data": {"image": f"/data/local-files/?d={path}"}}
        is_given = shown.given[i] != UNKNOWN
        if verdict[i] != UNKNOWN:
            choice = NO_CLASS if verdict[i] == NONE else _name(shown, verdict[i])
            known = shown.probability[i] * (1 - shown.none_score[i])
            score = 1.0 if is_given else float(shown.none_score[i] if verdict[i] == NONE else known)
            value = {"choices": [choice]}
            result = [{"from_name": "label", "to_name": "image", "type": "choices", "value": value}]
            predicted = {"model_version": "sala", "score": round(score, 4), "result": result}
            task |= {"annotations": [{"result": result}]} if is_given else {"predictions": [predicted]}
        yield separator + json.dumps(task).encode()
        separator = b",\n"
    yield b"[]\n" if separator == b"[" else b"]\n"


def to_zip(collection: Collection, shown: Snapshot) -> Iterator[bytes]:
    """Copies of the pool's images, sorted into folders of their classes. One that cannot be read any more is left out."""
    sink = _Sink()
    verdict = shown.verdict()
    taken: set[str] = set()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:  # images are compressed already
        for i in _pool(collection):
            if verdict[i] == UNKNOWN:
                continue
            folder = NO_CLASS if verdict[i] == NONE else _name(shown, verdict[i])
            name = member_name(folder, collection.items[i].path, taken)
            try:
                content = collection.read(i)
            except SalaError:
                continue
            archive.writestr(zipfile.ZipInfo(name), content)
            yield sink.take()
    yield sink.take()


def member_name(folder: str, path: str, taken: set[str]) -> str:
    """A name that any system can unpack into the folder it runs in, and that no other member has, in any case of letters."""
    pure = PurePosixPath(path)
    stem = f"{_plain(folder)}/{_plain(pure.with_suffix('').as_posix().replace('/', '-'))}"
    suffix, number = _plain(pure.suffix), 2
    name = stem + suffix
    while name.casefold() in taken:
        name, number = f"{stem}-{number}{suffix}", number + 1
    taken.add(name.casefold())
    return name


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

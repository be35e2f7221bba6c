"""Rows as CSV, as Label Studio's pre-annotations, and as COCO-style JSON; written one at a time, whatever their number."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from PIL import Image

from sala.data.images import IMAGE_FORMATS
from sala.errors import SalaError, writing
from sala.labelling.folders import NO_CLASS, as_text
from sala.labelling.rows import NONE_OF_THESE, Row
from sala.names import FORMATS
from sala.partial import partial_file, remove_stale

HEADER = ("path", "label", "probability", "runner_up", "none_of_these", "used_for_refinement", "verdict")


def write_rows(rows: Iterable[Row], file: TextIO, form: str, classes: Sequence[str]) -> int:
    """Write in one of FORMATS; returns how many rows there were."""
    if form not in FORMATS:
        raise SalaError(f"a format is one of {', '.join(FORMATS)}; got {form!r}")
    counted = _Counted(rows)
    WRITERS[form](counted, file, classes)
    return counted.n


class _Counted:
    def __init__(self, rows: Iterable[Row]):
        self.rows, self.n = rows, 0

    def __iter__(self) -> Iterator[Row]:
        for row in self.rows:
            self.n += 1
            yield row


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """A UTF-8 file that replaces `path` when it is complete; until then, and after an error, that is as it was. A link stays
    one, and a pipe or a device such as /dev/null is written to as it is."""
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(path.parent)
    with partial_file(path) as partial:
        with writing(path), partial.open("w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)


def write_csv(rows: Iterable[Row], file: TextIO, classes: Sequence[str]) -> None:
    file.write(",".join(HEADER) + "\n")
    file.writelines(map(csv_line, rows))


def csv_line(row: Row) -> str:
    cells = (
        path_cell(row.path), text_cell(row.label), f"{row.probability:.4f}", text_cell(row.runner_up),
        f"{row.none_of_these:.4f}", str(row.used_for_refinement).lower(), row.verdict,
    )  # fmt: skip
    return ",".join(cells) + "\n"


def write_set_aside(path: Path, set_aside: Mapping[Path, str]) -> None:
    with written_whole(path) as file:
        file.write("path,reason\n")
        for place, reason in set_aside.items():
            file.write(f"{path_cell(place)},{text_cell(reason)}\n")


def path_cell(path: Path) -> str:
    """A path that a spreadsheet would take for a formula gets a `./` in front, which changes nothing."""
    text = as_text(path)
    return quoted(f"./{text}" if is_formula(text) else text)


def text_cell(text: str) -> str:
    """A text that a spreadsheet would take for a formula gets an apostrophe in front, by which it is shown as text."""
    return quoted(f"'{text}" if is_formula(text) else text)


def is_formula(text: str) -> bool:
    return text.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"))


def quoted(text: str) -> str:
    """By RFC 4180; also around a lone carriage return, which Python's own writer leaves bare before version 3.13."""
    needs_it = any(c in text for c in ',"\r\n') or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if needs_it else text


def write_label_studio(rows: Iterable[Row], file: TextIO, classes: Sequence[str]) -> None:
    """Tasks with a prediction each, for the configuration that `label_studio_config` gives."""
    _write_array((json.dumps(_task(row)) for row in rows), file)


def _task(row: Row) -> dict[str, object]:
    is_none = row.verdict == NONE_OF_THESE
    result = {
        "id": hashlib.sha256(os.fsencode(row.path)).hexdigest()[:10],
        "from_name": "label",
        "to_name": "image",
        "type": "choices",
        "value": {"choices": [NO_CLASS if is_none else row.label]},
    }
    score = row.none_of_these if is_none else row.confidence
    data = {
        "image": local_file(row.path),
        "path": as_text(row.path),
        "verdict": row.verdict,
        "probability": round(row.probability, 4),
        "runner_up": row.runner_up,
        "none_of_these": round(row.none_of_these, 4),
    }
    return {"data": data, "predictions": [{"model_version": "sala", "score": round(score, 4), "result": [result]}]}


def local_file(path: Path) -> str:
    """Its address in Label Studio, which serves no path with `..` in it."""
    place = os.path.abspath(path) if ".." in path.parts else path
    return "/data/local-files/?d=" + quote(os.fsencode(place).lstrip(b"/"))


def label_studio_config(classes: Sequence[str]) -> str:
    """The labelling interface that the predictions fit, to paste into Label Studio."""
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in (*classes, NO_CLASS))
    return (
        '<View>\n  <Image name="image" value="$image"/>\n'
        f'  <Choices name="label" toName="image" choice="single">\n{choices}\n  </Choices>\n</View>\n'
    )


def write_coco(rows: Iterable[Row], file: TextIO, classes: Sequence[str]) -> None:
    """Images, categories and annotations: one for each image of a class, over the whole image, with the label's score.

    What is of none of the classes has no annotation. Annotations wait in a file on disk until all images are written.
    """
    categories = [{"id": c + 1, "name": name} for c, name in enumerate(classes)]
    ids = {name: c + 1 for c, name in enumerate(classes)}
    file.write('{"info": {"description": "labels by sala"},\n')
    file.write(f'"categories": {json.dumps(categories)},\n"images": ')
    with tempfile.TemporaryFile("w+", encoding="utf-8") as waiting:

        def images() -> Iterator[str]:
            n_annotations = 0
            for i, row in enumerate(rows, 1):
                width, height = image_size(row.path)
                if row.verdict != NONE_OF_THESE:
                    n_annotations += 1
                    annotation = {
                        "id": n_annotations, "image_id": i, "category_id": ids[row.label], "score": round(row.confidence, 4),
                        "bbox": [0, 0, width, height], "area": width * height, "iscrowd": 0, "verdict": row.verdict,
                    }  # fmt: skip
                    waiting.write((",\n" if n_annotations > 1 else "") + json.dumps(annotation))
                yield json.dumps(
                    {"id": i, "file_name": as_text(row.path), "width": width, "height": height,
                     "none_of_these": round(row.none_of_these, 4)}
                )  # fmt: skip

        _write_array(images(), file)
        file.write(',\n"annotations": [\n')
        waiting.seek(0)
        shutil.copyfileobj(waiting, file)
        file.write("\n]}\n")


def image_size(path: Path) -> tuple[int, int]:
    """Width and height as the image is shown; only its head is read. 0, 0 where it is gone."""
    try:
        with Image.open(path, formats=IMAGE_FORMATS) as image:
            turned = image.getexif().get(0x0112) in (5, 6, 7, 8)
            return (image.height, image.width) if turned else (image.width, image.height)
    except Exception:  # Pillow raises nearly anything; ready-made features need no image at all
        return 0, 0


def _write_array(items: Iterable[str], file: TextIO) -> None:
    file.write("[\n")
    for i, item in enumerate(items):
        file.write((",\n" if i else "") + item)
    file.write("\n]")


WRITERS: dict[str, Callable[[Iterable[Row], TextIO, Sequence[str]], None]] = dict(
    zip(FORMATS, (write_csv, write_label_studio, write_coco), strict=True)
)

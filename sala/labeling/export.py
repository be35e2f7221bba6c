"""Exporters: rows as CSV, as Label Studio's tasks, and as COCO-style JSON.

Each is a stream of text, so that no format is ever whole in memory, whether it goes to a file, to stdout or to a browser.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TextIO
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from PIL import Image

from sala.atomic import replaced
from sala.data.images import IMAGE_FORMATS
from sala.errors import SalaError
from sala.labeling.cells import path_cell, text_cell
from sala.labeling.folders import OUTLIER_NAME, as_text
from sala.labeling.formats import FORMATS
from sala.labeling.predictions import CONFIRMED, GIVEN, REJECTED, UNKNOWN, Row

HEADER = (
    "path",
    "label",
    "probability",
    "runner_up",
    "outlier_probability",
    "used_for_refinement",
    "verdict",
    "source",
)


def export(rows: Iterable[Row], form: str, classes: Sequence[str]) -> Iterator[str]:
    """The text of an export, a row at a time. `form` is one of FORMATS."""
    if form not in FORMATS:
        raise SalaError(f"a format is one of {', '.join(FORMATS)}; got {form!r}")
    return EXPORTERS[form](rows, classes)


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
    with replaced(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        yield file


def to_csv(rows: Iterable[Row], classes: Sequence[str]) -> Iterator[str]:
    yield csv_line(HEADER)
    for row in rows:
        yield csv_line(
            [path_cell(row.path), text_cell(row.label), f"{row.probability:.4f}", text_cell(row.runner_up),
             f"{row.outlier_probability:.4f}", str(row.used_for_refinement).lower(), row.verdict, row.source]
        )  # fmt: skip


def csv_line(cells: Sequence[str]) -> str:
    """One line, ended by a line feed. The writer is told of both ends of lines, so that it quotes either."""
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue()[:-2] + "\n"


def write_skipped(path: Path, skipped: Mapping[Path, str]) -> None:
    """A CSV file of the files that could not be used, with the reasons."""
    with written_whole(path) as file:
        file.write(csv_line(("path", "reason")))
        file.writelines(csv_line((path_cell(place), text_cell(reason))) for place, reason in skipped.items())


def to_label_studio(rows: Iterable[Row], classes: Sequence[str]) -> Iterator[str]:
    """Tasks for the interface of `label_studio_config`: a prediction each, or an annotation where the user gave the label."""
    return _array(json.dumps(_task(row)) for row in rows)


def _task(row: Row) -> dict[str, object]:
    data = {
        "image": local_file(row.path),
        "path": as_text(row.path),
        "verdict": row.verdict,
        "source": row.source,
        "probability": round(row.probability, 4),
        "runner_up": row.runner_up,
        "outlier_probability": round(row.outlier_probability, 4),
    }
    if row.verdict == UNKNOWN:
        return {"data": data}
    is_outlier = row.verdict == REJECTED
    result = {
        "id": hashlib.sha256(os.fsencode(row.path)).hexdigest()[:10],
        "from_name": "label",
        "to_name": "image",
        "type": "choices",
        "value": {"choices": [OUTLIER_NAME if is_outlier else row.label]},
    }
    if row.verdict == GIVEN or row.source in (GIVEN, CONFIRMED):
        return {"data": data, "annotations": [{"result": [result]}]}
    score = row.outlier_probability if is_outlier else row.confidence
    return {"data": data, "predictions": [{"model_version": "sala", "score": round(score, 4), "result": [result]}]}


def local_file(path: Path) -> str:
    """Its address in Label Studio, which serves no path with `..` in it."""
    place = os.path.abspath(path) if ".." in path.parts else path
    return "/data/local-files/?d=" + quote(os.fsencode(PurePath(place).as_posix()).lstrip(b"/"))


def label_studio_config(classes: Sequence[str]) -> str:
    """The labeling interface that the predictions fit, to paste into Label Studio."""
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in (*classes, OUTLIER_NAME))
    return (
        '<View>\n  <Image name="image" value="$image"/>\n'
        f'  <Choices name="label" toName="image" choice="single">\n{choices}\n  </Choices>\n</View>\n'
    )


def to_coco(rows: Iterable[Row], classes: Sequence[str]) -> Iterator[str]:
    """Images, categories and annotations: one for each image of a class, over the whole image, with the label's score.

    Outliers have no annotation. Annotations wait in a file on disk until all images are written.
    """
    categories = [{"id": c + 1, "name": name} for c, name in enumerate(classes)]
    ids = {name: c + 1 for c, name in enumerate(classes)}
    yield '{"info": {"description": "labels by sala"},\n'
    yield f'"categories": {json.dumps(categories)},\n"images": '
    with tempfile.TemporaryFile("w+", encoding="utf-8") as waiting:

        def images() -> Iterator[str]:
            n_annotations = 0
            for i, row in enumerate(rows, 1):
                width, height = image_size(row)
                if row.verdict not in (REJECTED, UNKNOWN):
                    n_annotations += 1
                    annotation = {
                        "id": n_annotations, "image_id": i, "category_id": ids[row.label], "score": round(row.confidence, 4),
                        "bbox": [0, 0, width, height], "area": width * height, "iscrowd": 0, "verdict": row.verdict,
                        "source": row.source,
                    }  # fmt: skip
                    waiting.write((",\n" if n_annotations > 1 else "") + json.dumps(annotation))
                yield json.dumps(
                    {"id": i, "file_name": as_text(row.path), "width": width, "height": height,
                     "outlier_probability": round(row.outlier_probability, 4), "source": row.source}
                )  # fmt: skip

        yield from _array(images())
        yield ',\n"annotations": [\n'
        waiting.seek(0)
        while block := waiting.read(1 << 16):
            yield block
        yield "\n]}\n"


def image_size(row: Row) -> tuple[int, int]:
    """Width and height as the image is shown; only its head is read. 0, 0 where it is gone."""
    try:
        with row.open() as file, Image.open(file, formats=IMAGE_FORMATS) as image:
            turned = image.getexif().get(0x0112) in (5, 6, 7, 8)
            return (image.height, image.width) if turned else (image.width, image.height)
    except Exception:  # Pillow raises nearly anything; ready-made features need no image at all
        return 0, 0


def _array(items: Iterable[str]) -> Iterator[str]:
    yield "[\n"
    for i, item in enumerate(items):
        yield (",\n" if i else "") + item
    yield "\n]"


EXPORTERS: dict[str, Callable[[Iterable[Row], Sequence[str]], Iterator[str]]] = dict(
    zip(FORMATS, (to_csv, to_label_studio, to_coco), strict=True)
)

"""Labels of a file that a program exported: sala's tables, Label Studio's tasks, COCO's annotations.

    rows, n_predicted = exported_labels(content)       # [("photos/a.jpg", "owl"), ...], and how many rows are predictions

The file is untrusted: what is not understood is refused in one sentence. Where it says who gave a label (`source`), only
those count that a person gave or confirmed.
"""

from __future__ import annotations

import io
import json
from typing import Any
from urllib.parse import unquote

from sala.data.files import parsed_rows
from sala.errors import SalaError
from sala.labeling.folders import OUTLIER_NAME
from sala.labeling.labels_file import MAX_LABELS, MAX_NAME, SOURCES, label_rows

Rows = list[tuple[str, str]]  # path, label
SHOWN = "the file"
LOCAL_FILES = "/data/local-files/?d="


def exported_labels(content: bytes) -> tuple[Rows, int]:
    """Paths with their labels, and how many others are predictions."""
    if content.lstrip()[:1] not in (b"{", b"["):
        return label_rows(parsed_rows(io.BytesIO(content), SHOWN), SHOWN)
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        raise SalaError("the file is cut short or no JSON; export it again") from None
    try:
        rows, n_predicted = _coco_rows(read) if isinstance(read, dict) else _task_rows(read)
    except (KeyError, TypeError, AttributeError, IndexError):
        raise SalaError(
            "the file is JSON, but not of Label Studio's tasks nor of COCO's annotations; give one of these or a table"
        ) from None
    return _checked(rows, n_predicted), n_predicted


def _checked(rows: Rows, n_predicted: int) -> Rows:
    if any(not isinstance(cell, str) or not cell for row in rows for cell in row):
        raise SalaError("the file has a label without a name or path; export it again")
    if long := next((label for _, label in rows if len(label) > MAX_NAME), None):
        raise SalaError(f"the file has a label of {len(long)} characters, and {MAX_NAME} are the limit; shorten it")
    if len(rows) > MAX_LABELS:
        raise SalaError(f"the file has {len(rows):,} labels, and {MAX_LABELS:,} are the limit; split it")
    if not rows:
        raise SalaError(f"the file has no label that you gave, and {n_predicted:,} predicted ones; label images first")
    return list(dict.fromkeys(rows))


def _task_rows(tasks: Any) -> tuple[Rows, int]:
    """Label Studio: the newest annotation of each task counts, a prediction does not."""
    rows, n_predicted = [], 0
    for task in tasks:
        choices = [
            result["value"]["choices"][0]
            for annotation in task.get("annotations", ())
            if not annotation.get("was_cancelled")
            for result in annotation["result"]
            if "choices" in result["value"]
        ]
        if choices:
            rows.append((_task_path(task["data"]), choices[-1]))
        n_predicted += not choices and bool(task.get("predictions"))
    return rows, n_predicted


def _task_path(data: Any) -> str:
    path: str = data.get("path") or data["image"]
    return unquote(path.removeprefix(LOCAL_FILES)) if path.startswith(LOCAL_FILES) else path


def _coco_rows(coco: Any) -> tuple[Rows, int]:
    """COCO: an annotation is a label unless it says that it was predicted; an image that a user gave none is an outlier."""
    names = {category["id"]: category["name"] for category in coco["categories"]}
    paths = {image["id"]: image["file_name"] for image in coco["images"]}
    annotations = coco["annotations"]
    given = [one for one in annotations if one.get("source", SOURCES[0]) in SOURCES]
    rows = [(paths[one["image_id"]], names[one["category_id"]]) for one in given]
    annotated = {one["image_id"] for one in annotations}
    outliers = [i for i in coco["images"] if i.get("source") in SOURCES and i["id"] not in annotated]
    return rows + [(image["file_name"], OUTLIER_NAME) for image in outliers], len(annotations) - len(given)

"""Labels as a file: CSV rows `path,label`, as `sala label` and the page write them and as spreadsheets do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sala.data.files import csv_rows
from sala.errors import SalaError
from sala.labeling.cells import from_cell
from sala.labeling.folders import OUTLIER_NAME
from sala.text import printable

MAX_LINES, MAX_LABELS = 1_000_000, 200_000  # of a file; rows with a label, each once
SOURCES = ("given", "confirmed")  # of rows that are labels
REJECTED = "rejected"
MAX_NAME = 255  # characters of a label, as file systems allow for a folder


def read_labels(path: Path) -> list[tuple[Path, str]]:
    """Paths with their labels, in the order of the rows."""
    return labels_and_predictions(path)[0]


def labels_and_predictions(path: Path) -> tuple[list[tuple[Path, str]], int]:
    """Paths with their labels, in the order of the rows; and how many other rows are predictions.

    The first line names the columns `path` and `label`; others are ignored, and so are rows without a label. In a file that
    sala wrote, which has a column `source`, only rows that the user gave or confirmed are labels: what was predicted is none.
    A relative path is looked for from the folder of the file, then from the working directory.
    """
    found, n_predicted = label_rows(csv_rows(path), printable(str(path)))
    return [(_place(Path(name), path.parent), label) for name, label in found], n_predicted


def label_rows(rows: Iterator[tuple[int, list[str]]], shown: str) -> tuple[list[tuple[str, str]], int]:
    """The same with paths as the rows have them, of a file that errors call `shown`."""
    _, header = next(rows, (1, []))
    if not {"path", "label"} <= set(header):
        raise SalaError(f"{shown} has no columns path and label in its first line; add the line `path,label`")
    columns = [header.index(name) if name in header else None for name in ("path", "label", "source", "verdict")]
    found: dict[tuple[str, str], None] = {}  # each row once, in their order
    n_predicted = 0
    for number, row in rows:
        if number > MAX_LINES:
            raise SalaError(
                f"{shown} has more than {MAX_LINES:,} lines, which is the limit; leave out those without a label"
            )
        name, label, source, verdict = ("" if at is None or at >= len(row) else row[at] for at in columns)
        if label and "source" in header and source.strip().casefold() not in SOURCES:
            n_predicted += 1
            continue
        if (
            label and "source" in header and verdict == REJECTED
        ):  # the user's word, though the label is the likeliest class
            label = OUTLIER_NAME
        if label:
            _check_row(f"{shown}, row {number},", name, label)
            found[name, from_cell(label)] = None
        if len(found) > MAX_LABELS:
            raise SalaError(f"{shown} has more than {MAX_LABELS:,} labels, which is the limit; leave some rows out")
    if not found and n_predicted:
        raise SalaError(
            f"{shown} has {n_predicted:,} predicted labels, and none that you gave; write given into the column source "
            "of rows that are right"
        )
    if not found:
        raise SalaError(f"{shown} has no row with a label; add rows such as `photos/cat1.jpg,cat`")
    return list(found), n_predicted


def _check_row(where: str, name: str, label: str) -> None:
    if not name:
        raise SalaError(f"{where} has a label and no path; add the path or remove the row")
    if len(label) > MAX_NAME:
        raise SalaError(f"{where} has a label of {len(label)} characters, and {MAX_NAME} are the limit; shorten it")


def _place(path: Path, folder: Path) -> Path:
    beside = folder / path
    return beside if path.is_absolute() or os.path.exists(beside) or not os.path.exists(path) else path

"""Labels as a file: CSV rows `path,label`, as `sala label` and the page write them and as spreadsheets do."""

from __future__ import annotations

from pathlib import Path

from sala.data.files import read_csv
from sala.errors import SalaError
from sala.labeling.cells import from_cell
from sala.text import printable


def read_labels(path: Path) -> list[tuple[Path, str]]:
    """Paths with their labels, in the order of the rows.

    The first line names the columns `path` and `label`; others are ignored, and so are rows without a label. A relative
    path is looked for from the folder of the file, then from the working directory.
    """
    shown = printable(str(path))
    header, *rows = read_csv(path) or [[]]
    if not {"path", "label"} <= set(header):
        raise SalaError(f"{shown} has no columns path and label in its first line; add the line `path,label`")
    at_path, at_label = header.index("path"), header.index("label")
    found = []
    for number, row in enumerate(rows, 2):
        name, label = (row[at] if at < len(row) else "" for at in (at_path, at_label))
        if label and not name:
            raise SalaError(f"{shown}, row {number}, has a label and no path; add the path or remove the row")
        if label:
            found.append((_place(Path(name), path.parent), from_cell(label)))
    if not found:
        raise SalaError(f"{shown} has no row with a label; add rows such as `photos/cat1.jpg,cat`")
    return found


def _place(path: Path, folder: Path) -> Path:
    beside = folder / path
    return beside if path.is_absolute() or beside.exists() or not path.exists() else path

"""The report: one page with small pictures inside, to look through the labels of a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from sala.atomic import write_atomically
from sala.classifier.fit import HeldOut
from sala.data import images
from sala.errors import SalaError
from sala.labeling.folders import as_text
from sala.labeling.label import LabelingResult
from sala.labeling.predictions import CONFIDENT, GIVEN, REJECTED, UNCERTAIN, Row
from sala.templates import plots, render
from sala.templates.pictures import Picture, data_uri
from sala.text import counted, printable

MAX_OF_CLASS, MAX_IN_ALL, MAX_SUGGESTIONS, MAX_SKIPPED = 60, 2_000, 24, 200  # pictures or lines
THUMBNAIL = 120  # pixels
COLORS = {CONFIDENT: plots.COLORS[2], UNCERTAIN: plots.COLORS[4], GIVEN: plots.COLORS[0], REJECTED: plots.OUTLIER}
BLANK = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
Shares = list[tuple[float, str]]  # (share of a bar, color)


@dataclass(frozen=True)
class ClassSection:
    """What the page says of one class."""

    name: str
    n_labeled: int
    n_images: int  # of the pool, given this label
    n_of: Counter[str]  # by verdict
    mean_confidence: str
    bar: Shares
    pictures: list[Picture]  # the least confident first


def write_report(path: Path, result: LabelingResult) -> None:
    """Write the report of a labeled pool to a file, which is there when it is whole."""
    write_atomically(path, report(result).encode("utf-8", "backslashreplace"))


def report(result: LabelingResult) -> str:
    """Return the report of a labeled pool as one HTML page.

    Parameters
    ----------
    result : LabelingResult
        The labels of a pool and the model that gave them. Thumbnails are read from the files of the pool; one that is gone
        is shown blank.

    Returns
    -------
    str
        HTML that loads nothing from elsewhere. Names of files and classes are escaped.
    """
    rows = list(result.rows())
    classes = result.model.classes
    n_of = Counter(row.verdict for row in rows)
    by_class: dict[str, list[Row]] = {name: [] for name in classes}
    for row in rows:
        if row.verdict != REJECTED:
            by_class[row.label].append(row)
    longest = max(n_of[REJECTED], *map(len, by_class.values()))
    n_shown = max(6, min(MAX_OF_CLASS, MAX_IN_ALL // len(classes)))
    n_labeled = result.model.note["labeled"]
    sections = [_section(name, n_labeled[name], mine, longest, n_shown) for name, mine in by_class.items()]
    return render(
        "labeling",
        title=f"{counted(len(rows), 'image')}, {counted(len(classes), 'class')}",
        sections=sections,
        n_images=len(rows),
        n_labeled=sum(n_labeled.values()),
        n_known_outliers=result.n_outliers,
        n_of=n_of,
        colors=COLORS,
        bar=_bar(n_of, len(rows)),
        outlier_bar=_bar(Counter({REJECTED: n_of[REJECTED]}), longest),
        suggestions=[_picture(rows[i], _label_lines(rows[i])) for i in result.suggestions[:MAX_SUGGESTIONS]],
        outliers=[_picture(row, _outlier_lines(row)) for row in _shown_outliers(rows)],
        skipped=list(result.skipped.values())[:MAX_SKIPPED],
        n_skipped=len(result.skipped),
        **_reliability(result, rows),
    )


def _section(name: str, n_labeled: int, rows: list[Row], longest: int, n_shown: int) -> ClassSection:
    rows.sort(key=lambda row: row.confidence)
    n_of = Counter(row.verdict for row in rows)
    return ClassSection(
        name=printable(name),
        n_labeled=n_labeled,
        n_images=len(rows),
        n_of=n_of,
        mean_confidence=f"{np.mean([row.confidence for row in rows]):.0%}" if rows else "-",
        bar=_bar(n_of, longest),
        pictures=[_picture(row, _confidence_lines(row)) for row in rows[:n_shown]],
    )


def _bar(n_of: Counter[str], n: int) -> Shares:
    return [(n_of[kind] / n, color) for kind, color in COLORS.items() if n_of[kind]]


def _shown_outliers(rows: Sequence[Row]) -> list[Row]:
    """The rejected images, the least probable outlier first; where there are none, the likeliest outliers."""
    by_probability = sorted(rows, key=lambda row: row.outlier_probability)
    rejected = [row for row in by_probability if row.verdict == REJECTED]
    return rejected[:MAX_OF_CLASS] or by_probability[: -MAX_SUGGESTIONS - 1 : -1]


def _picture(row: Row, lines: Sequence[str]) -> Picture:
    path, label = printable(as_text(row.path)), printable(row.label)
    title = (
        f"{path}\n{label} {row.probability:.1%} among the classes, then {printable(row.runner_up) or '-'}\n"
        f"outlier probability {row.outlier_probability:.1%}"
    )
    return Picture(thumbnail(row), COLORS[row.verdict], lines, printable(as_text(row.path.name)), title)


def _confidence_lines(row: Row) -> list[str]:
    """The confidence of a label, and where it is uncertain, what else the image may be."""
    lines = [percent(row.confidence)]
    if row.verdict == UNCERTAIN:
        lines += [f"or {printable(row.runner_up)}"] if row.runner_up and row.probability < 0.9 else []
        lines += [f"outlier {percent(row.outlier_probability)}"] if row.outlier_probability > 0.1 else []
    return lines


def _label_lines(row: Row) -> list[str]:
    confidence, *others = _confidence_lines(row)
    return [f"{printable(row.label)} {confidence}", *others]


def _outlier_lines(row: Row) -> list[str]:
    return [f"outlier {percent(row.outlier_probability)}", f"or {printable(row.label)}"]


def percent(share: float) -> str:
    """Return a share as text, rounded down: what is below a threshold is shown below it, and nothing is certain."""
    return f"{int(100 * share)}%" if share < 0.99 else "> 99%"


def thumbnail(row: Row) -> str:
    """Return a small JPEG as a data URI; a blank image where the file is gone or unreadable."""
    try:
        with row.open() as file:
            image = images.thumbnail(file, "", side=THUMBNAIL)
    except (SalaError, OSError):
        return BLANK
    return data_uri(image, "JPEG", quality=70, optimize=True)


def _reliability(result: LabelingResult, rows: Sequence[Row]) -> dict[str, Any]:
    """What the page says of the probabilities."""
    held_out, thresholds = result.held_out, result.thresholds
    confidences = {
        kind: (color, np.array([row.confidence for row in rows if row.verdict == kind], np.float32))
        for kind, color in COLORS.items()
        if kind != GIVEN
    }
    bins = reliability_bins(held_out)
    return {
        "n_held_out": len(held_out.labels),
        "n_right": int(_is_right(held_out).sum()),
        "rejection_obstacle": result.rejection_obstacle,
        "precision": f"{thresholds.precision:.0%}",
        "confident_from": f"{thresholds.confident:.0%}",
        "rejected_from": f"{thresholds.outlier:.0%}",
        "encoder": printable(result.model.note["encoder"]["name"]),
        "inverse_temperature": f"{result.model.inverse_temperature:.1f}",
        "plot": plots.reliability(bins, confidences) if rows or bins else None,
    }


def reliability_bins(held_out: HeldOut, n_bins: int = 5) -> list[tuple[float, float, float, float, int]]:
    """Return (mean probability, share that is right, its 95 % Wilson interval, n) of bins of about equal size, 8 or more."""
    p = held_out.probabilities.max(1, initial=0)
    is_right = _is_right(held_out)
    order = np.argsort(p, kind="stable")
    parts = np.array_split(order, max(1, min(n_bins, len(p) // 8))) if len(p) else []
    return [(float(p[i].mean()), float(is_right[i].mean()), *_interval(is_right[i]), len(i)) for i in parts]


def _is_right(held_out: HeldOut) -> np.ndarray[Any, np.dtype[np.bool_]]:
    if not len(held_out.labels):
        return np.zeros(0, bool)
    is_right: np.ndarray[Any, np.dtype[np.bool_]] = held_out.probabilities.argmax(1) == held_out.labels
    return is_right


def _interval(is_right: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[float, float]:
    interval = binomtest(int(is_right.sum()), len(is_right)).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)

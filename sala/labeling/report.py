"""The report: one page with pictures inside, to look through the labels of a pool and what to check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sala.atomic import write_atomically
from sala.labeling.album import BLANK, Album
from sala.labeling.check import Check, check, given_name, predicted_name
from sala.labeling.folders import as_text
from sala.labeling.hints import find_hints
from sala.labeling.predictions import CONFIDENT, GIVEN, REJECTED, UNCERTAIN, Row
from sala.labeling.reliability import about, is_right, percent, reliability_bins
from sala.labeling.result import LabelingResult
from sala.labeling.selection import MAX_OF_CONFUSION, Selection, select
from sala.templates import plots, render
from sala.templates.pictures import Picture
from sala.templates.scripts import open_script
from sala.text import counted, printable

MAX_SKIPPED = 200  # lines
COLORS = {CONFIDENT: plots.COLORS[2], UNCERTAIN: plots.COLORS[4], GIVEN: plots.COLORS[0], REJECTED: plots.OUTLIER}
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


def write_report(path: Path, result: LabelingResult, found: Check, command: str = "") -> dict[int, str]:
    """Write the report of a labeled pool to a file, which is there when it is whole. Returns hints by image."""
    html, hints = _report(result, found, command)
    write_atomically(path, html.encode("utf-8", "backslashreplace"))
    return hints


def report(result: LabelingResult, found: Check | None = None, command: str = "") -> str:
    """Return the report of a labeled pool as one HTML page.

    Parameters
    ----------
    result : LabelingResult
        The labels of a pool and the model that gave them. Pictures are read from the files of the pool; one that is gone
        is shown blank.
    found : Check, optional
        Suspect labels and near-duplicates; found here if they are not given.
    command : str, optional
        What opens the labeling page on the same folders.

    Returns
    -------
    str
        HTML that loads nothing from elsewhere. Names of files and classes are escaped.
    """
    return _report(result, check(result) if found is None else found, command)[0]


def _report(result: LabelingResult, found: Check, command: str) -> tuple[str, dict[int, str]]:
    chosen = select(result, found)
    album = Album(chosen.shown())
    hints = find_hints(album.measured)
    page = _Page(album, hints)
    rows, classes = chosen.pool, result.model.classes
    n_of, n_labeled = Counter(row.verdict for row in rows), result.model.note["labeled"]
    longest = max(n_of[REJECTED], *map(len, chosen.by_class.values()))
    html = render(
        "labeling",
        title=f"{counted(len(rows), 'image')}, {counted(len(classes), 'class')}",
        command=printable(command),
        script=open_script("photos"),
        blank=BLANK,
        sections=[
            page.section(name, n_labeled[name], mine, longest, chosen.n_of_class)
            for name, mine in chosen.by_class.items()
        ],
        n_images=len(rows),
        n_labeled=sum(n_labeled.values()),
        n_known_outliers=result.n_outliers,
        n_of=n_of,
        expected={kind: about(share) for kind, share in _expected(rows, result.thresholds.precision).items()},
        colors=COLORS,
        bar=_bar(n_of, len(rows)),
        outlier_bar=_bar(Counter({REJECTED: n_of[REJECTED]}), longest),
        suggestions=[page.picture(row, _label_lines(row)) for row in chosen.suggestions],
        outliers=[page.picture(row, _outlier_lines(row)) for row in chosen.rejected],
        skipped=list(result.skipped.values())[:MAX_SKIPPED],
        n_skipped=len(result.skipped),
        **page.checks(result, found, chosen),
        **_reliability(result, found, rows),
    )
    return html, hints


class _Page:
    """Pictures of rows, with what is said of each."""

    def __init__(self, album: Album, hints: Mapping[int, str]):
        self.album, self.hints = album, hints

    def picture(self, row: Row, lines: Sequence[str]) -> Picture:
        lines = [*lines, self.hints[row.index]] if row.index in self.hints else lines
        said = [
            f"{printable(row.label)} {row.probability:.1%} among the classes, then {printable(row.runner_up) or '-'}",
            f"outlier probability {row.outlier_probability:.1%}",
        ]
        title = "\n".join([printable(as_text(row.path)), *(lines if row.verdict == GIVEN else said)])
        return Picture(self.album.uri(row), COLORS[row.verdict], lines, printable(as_text(row.path.name)), title)

    def section(self, name: str, n_labeled: int, rows: list[Row], longest: int, n_shown: int) -> ClassSection:
        n_of = Counter(row.verdict for row in rows)
        return ClassSection(
            name=printable(name),
            n_labeled=n_labeled,
            n_images=len(rows),
            n_of=n_of,
            mean_confidence=f"{np.mean([row.confidence for row in rows]):.0%}" if rows else "-",
            bar=_bar(n_of, longest),
            pictures=[self.picture(row, _confidence_lines(row)) for row in rows[:n_shown]],
        )

    def checks(self, result: LabelingResult, found: Check, chosen: Selection) -> dict[str, Any]:
        """What the page says of suspect labels, near-duplicates, hints and confusions."""
        classes = result.model.classes
        hinted = {row.index: row for row in chosen.shown() if row.index in self.hints}
        return {
            "suspects": [
                self.picture(row, _suspect_lines(classes[s.label], predicted_name(s, result), s.label_probability))
                for s, row in chosen.suspects
            ],
            "n_suspects": len(found.suspects),
            "unchecked": [printable(classes[c]) for c in found.unchecked],
            "groups": [
                {
                    "differ": len({name for row in group if (name := given_name(row.index, result))}) > 1,
                    "pictures": [self.picture(row, _given_lines(row, given_name(row.index, result))) for row in group],
                }
                for group in chosen.groups
            ],
            "n_groups": len(found.near_duplicates),
            "n_in_groups": sum(map(len, found.near_duplicates)),
            "hinted": [self.picture(row, []) for row in hinted.values()],
            "confusions": [
                {
                    "pair": [printable(name) for name in confusion.classes],
                    "n": len(confusion.rows),
                    "expected": max(1, round(confusion.expected)),
                    "pictures": [self.picture(row, _label_lines(row)) for row in confusion.rows[:MAX_OF_CONFUSION]],
                }
                for confusion in chosen.confusions
            ],
        }


def _bar(n_of: Counter[str], n: int) -> Shares:
    return [(n_of[kind] / n, color) for kind, color in COLORS.items() if n_of[kind]]


def _expected(rows: Sequence[Row], precision: float) -> dict[str, float]:
    """The expected share of images that are what is said of them, by verdict. Images are rejected so that at least the share
    `precision` of them are outliers."""
    shares: dict[str, list[float]] = {}
    for row in rows:
        shares.setdefault(row.verdict, []).append(
            max(precision, row.outlier_probability) if row.verdict == REJECTED else row.confidence
        )
    return {kind: float(np.mean(values)) for kind, values in shares.items()}


def _confidence_lines(row: Row) -> list[str]:
    """What an image most probably is, with its probability, and where it is uncertain, what else it may be."""
    if row.is_likely_outlier:
        return _outlier_lines(row)
    lines = [percent(row.confidence)]
    if row.verdict == UNCERTAIN:
        lines += [f"or {printable(row.runner_up)}"] if row.runner_up and row.probability < 0.9 else []
        lines += [f"outlier {percent(row.outlier_probability)}"] if row.outlier_probability > 0.1 else []
    return lines


def _label_lines(row: Row) -> list[str]:
    if row.is_likely_outlier:
        return _outlier_lines(row)
    confidence, *others = _confidence_lines(row)
    return [f"{printable(row.label)} {confidence}", *others]


def _outlier_lines(row: Row) -> list[str]:
    doubt = "" if row.verdict == REJECTED else "?"  # as the page has it
    return [f"outlier{doubt} {percent(row.outlier_probability)}", f"or {printable(row.label)}"]


def _given_lines(row: Row, given: str) -> list[str]:
    return [f"labeled {printable(given)}"] if given else _label_lines(row)[:1]


def _suspect_lines(label: str, predicted: str, probability: float) -> list[str]:
    share = percent(probability) if probability >= 0.01 else "< 1%"
    return [f"labeled {printable(label)}", f"looks like {printable(predicted)}", f"your label {share}"]


def _reliability(result: LabelingResult, found: Check, rows: Sequence[Row]) -> dict[str, Any]:
    """What the page says of the probabilities."""
    held_out, thresholds = found.held_out, result.thresholds
    confidences = {
        kind: (color, np.array([row.confidence for row in rows if row.verdict == kind], np.float32))
        for kind, color in COLORS.items()
        if kind != GIVEN
    }
    bins = reliability_bins(held_out)
    return {
        "n_held_out": len(held_out.labels),
        "n_right": int(is_right(held_out).sum()),
        "rejection_obstacle": result.rejection_obstacle,
        "precision": f"{thresholds.precision:.0%}",
        "confident_from": f"{thresholds.confident:.0%}",
        "rejected_from": f"{thresholds.outlier:.0%}",
        "encoder": printable(result.model.note["encoder"]["name"]),
        "inverse_temperature": f"{result.model.inverse_temperature:.1f}",
        "plot": plots.reliability(bins, confidences) if rows or bins else None,
    }

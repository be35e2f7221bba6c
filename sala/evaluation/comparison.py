"""Comparisons: a row for each method, with all its seeds, on the same episodes; as CSV, LaTeX and plain data."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from sala.evaluation.formats import ONE_SEED_NOTE, Rows, accuracy_text, difference_text, has_one_seed, latex
from sala.evaluation.report import protocol_note
from sala.evaluation.results import Interval, Result
from sala.evaluation.seeds import MIN_SEEDS, SeedInterval, SeedResults, best_of

SOME_SEEDS_NOTE = "Differences are of the seeds that both rows have, and not always those of the two means."


@dataclass(frozen=True)
class Row:
    """A method or head in one test setting: one result, or those of trainings that differ in the seed alone.

    Parameters
    ----------
    name : str
        What the reader calls it: a run, several runs, or a run and a head.
    method : str
        The name of its method or head.
    setting : str
        The name of the test setting; empty where there is none.
    found : SeedResults
        The results by seed.
    runs : mapping of int to str
        By seed, where each result comes from.
    head : str, optional
        The name of the head, where it is one.
    """

    name: str
    method: str
    setting: str
    found: SeedResults
    runs: Mapping[int, str]
    head: str = ""

    @property
    def result(self) -> Result:
        """With each episode's mean over the seeds."""
        return self.found.mean_result

    @property
    def method_name(self) -> str:
        """Of a method in a file without the folder: file.py:Class."""
        return PurePath(self.method).name

    def common_seeds(self, base: Row) -> list[int]:
        """The seeds that both have: those of which differences are, where there are any."""
        return sorted(self.runs.keys() & base.runs.keys())

    def is_of_some_seeds(self, base: Row) -> bool:
        """Whether the difference is of some seeds alone, so that it is not that of the two means."""
        common = self.common_seeds(base)
        return bool(common) and not len(common) == len(self.runs) == len(base.runs)

    def minus(self, base: Row) -> Interval:
        """The paired difference over episodes: of common seeds, or of the means over seeds where there are none."""
        found = self.found.minus(base.found)
        return self.result.minus(base.result) if found is None else found

    def minus_over_seeds(self, base: Row) -> SeedInterval | None:
        """The paired difference over the seeds that both have, where they are several."""
        found = self.found.minus_over_seeds(base.found)
        return found if found is not None and found.n > 1 else None


def by_setting(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each test setting, in their order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.setting, []).append(row)
    return found


def to_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One object a row, with the accuracy of each episode of each run; differences are to the setting's first row."""
    return [_plain(row, some[0]) for some in by_setting(rows).values() for row in some]


def _plain(row: Row, base: Row) -> dict[str, Any]:
    over_seeds, difference = row.found.over_seeds, row.minus_over_seeds(base)
    has_seeds = over_seeds is not None and over_seeds.n > 1
    return {
        "setting": row.setting,
        "run": row.name,
        "method": row.method,
        **_interval(row.result.interval),
        "difference": _interval(row.minus(base)),
        "difference_seeds": row.common_seeds(base),
        "over_seeds": {**asdict(over_seeds), "sd": row.found.seed_sd} if has_seeds and over_seeds else None,
        "difference_over_seeds": None if difference is None else asdict(difference),
        "runs": [
            {"run": row.runs[seed], "seed": seed, **result.to_json()} for seed, result in row.found.by_seed.items()
        ],
    }


def _interval(interval: Interval) -> dict[str, float | None]:
    """One episode has no interval, and JSON no nan."""
    return {"mean": interval.mean, "ci95": None if math.isnan(interval.ci95) else interval.ci95}


def to_csv(rows: Sequence[Row]) -> str:
    """A line for each row; numbers are percent, and cells without a number are empty."""
    lines = [_cells(row, some[0]) for some in by_setting(rows).values() for row in some]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _cells(row: Row, base: Row) -> dict[str, Any]:
    plain, result = _plain(row, base), row.result
    seeds, difference = plain["over_seeds"] or {}, plain["difference_over_seeds"] or {}
    return {
        "setting": row.setting,
        "run": row.name,
        "method": row.method_name,
        "accuracy": plain["mean"],
        "ci95": plain["ci95"],
        "seeds": len(row.runs),
        "seed_sd": seeds.get("sd"),
        "seed_ci95": seeds.get("ci95"),
        "difference": plain["difference"]["mean"],
        "difference_ci95": plain["difference"]["ci95"],
        "difference_seed_ci95": difference.get("ci95"),
        "difference_seeds": " ".join(map(str, plain["difference_seeds"])),
        "split": result.split,
        "episodes": len(result.accuracies),
        **asdict(result.shape),
    }


def to_latex(rows: Sequence[Row]) -> str:
    """A booktabs table: a line for each method, and for each test setting its accuracy and difference to the first."""
    settings = by_setting(rows)
    header, names = ["method"], labels(rows)
    lines: dict[str, tuple[list[str], set[int]]] = {name: ([label], set()) for name, label in names.items()}
    for setting, some in settings.items():
        best = best_of({row.name: row.found for row in some})
        header += [setting or "accuracy", *([f"against {names[some[0].name]}"] if len(some) > 1 else [])]
        for row in some:
            texts, bold = lines[row.name]
            bold |= {len(texts)} if row.name == best else set()
            texts.append(accuracy_text(row.found))
            if len(some) > 1:
                texts.append("" if row is some[0] else difference_text(row.found, some[0].found))
    return _notes(settings, list(lines.values())) + latex(header, list(lines.values()))


def labels(rows: Sequence[Row]) -> dict[str, str]:
    """By name of the row: its method, or the name where two have one method."""
    methods = {row.name: row.method.rpartition(":")[2] for row in rows}
    counts = list(methods.values())
    return {name: method if counts.count(method) == 1 else name for name, method in methods.items()}


def _notes(settings: Mapping[str, Sequence[Row]], lines: Rows) -> str:
    """What the numbers are, as comments."""
    notes = [
        "% Needs \\usepackage{booktabs}. Accuracy in percent, +- the half-width of the 95 % interval over episodes; in",
        "% brackets the number of trainings and the half-width of the 95 % t interval over them. Bold: better than every",
        f"% other row over at least {MIN_SEEDS} common seeds.",
        *(
            [f"% {SOME_SEEDS_NOTE}"]
            if any(row.is_of_some_seeds(some[0]) for some in settings.values() for row in some)
            else []
        ),
        *(f"% {setting or 'accuracy'}: {protocol_note(some[0].result)}" for setting, some in settings.items()),
        *([f"% $\\dagger$ {ONE_SEED_NOTE[2:]}"] if has_one_seed(lines) else []),
    ]
    return "\n".join(notes) + "\n"

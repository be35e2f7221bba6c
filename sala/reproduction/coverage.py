"""What of a dataset is recorded, what is missing, and what a run costs by the records' own clocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from sala.evaluation.seeds import MIN_SEEDS
from sala.reproduction.plan import Cell, Run, cells_of
from sala.reproduction.records import Record, read_record

TABLES = ("table1", "table2", "ablation", "tadam")
SCALES = ("scale", "scale-distractors")  # a training with distances as printed costs the same


@dataclass(frozen=True)
class Coverage:
    """The cells of a dataset, each with the records of its first seeds, and the core-hours that a variant's runs took."""

    dataset: str
    records: dict[Cell, tuple[Record, ...]]
    hours: dict[str, list[float]]

    @property
    def missing(self) -> list[Cell]:
        return [cell for cell, found in self.records.items() if not found]

    def rows(self) -> list[list[str]]:
        """A header, and for each number of shots and distractors which rows have how many seeds."""
        rows = [["test", f"{MIN_SEEDS} seeds or more", "fewer", "missing"]]
        for shots, n_distractor in dict.fromkeys((cell.shots, cell.n_distractor) for cell in self.records):
            some = {c: r for c, r in self.records.items() if (c.shots, c.n_distractor) == (shots, n_distractor)}
            distractors = f"{n_distractor} distractor classes" if n_distractor else "no distractors"
            counts = {cell.variant: len(found) for cell, found in some.items()}
            rows.append(
                [
                    f"{shots} shot{'s' * (shots > 1)}, {distractors}",
                    _names([variant for variant, n in counts.items() if n >= MIN_SEEDS], len(counts)),
                    _names([variant for variant, n in counts.items() if 0 < n < MIN_SEEDS], len(counts)),
                    _names([variant for variant, n in counts.items() if not n], len(counts)),
                ]
            )
        return rows

    def sentence(self) -> str:
        """How much there is, and what it cost."""
        n_done = len(self.records) - len(self.missing)
        text = f"{n_done} of {len(self.records)} rows are recorded with at least one seed."
        if not self.hours:
            command = f"sala reproduce all --dataset {self.dataset} --dry-run"
            return f"{text} What a run costs is not recorded yet; `{command}` estimates it."
        values = [value for some in self.hours.values() for value in some]
        low, high = f"{min(values):.1f}", f"{max(values):.1f}"
        text += f" A run took {low if low == high else f'{low} to {high}'} core-hours (one thread of a shared machine)"
        if not self.missing:
            return f"{text}."
        trainings = {cell.trained.name: cell.variant for cell in self.missing}
        left = sum(float(np.mean(self.hours.get(variant, values))) for variant in trainings.values())
        return f"{text}; one seed of each row that is missing would take about {left:.0f}."


def _names(variants: Sequence[str], n_all: int) -> str:
    return f"all {n_all}" if len(variants) == n_all else ", ".join(f"`{variant}`" for variant in variants) or "-"


def coverage(dataset: str, budget: str, out: Path) -> Coverage:
    """What there is of the tables on a dataset, each row once."""
    found = {cell: _records(cell, budget, out) for cell in _cells(TABLES, dataset)}
    hours: dict[str, list[float]] = {}
    for cell in _cells([*TABLES, *SCALES], dataset):
        known = [core_hours(record) for record in _records(cell, budget, out)]
        if any(known):
            hours.setdefault(cell.variant.removesuffix("-printed"), []).extend(value for value in known if value > 0)
    return Coverage(dataset, found, hours)


def _cells(names: Sequence[str], dataset: str) -> list[Cell]:
    return list({cell.name: cell for name in names for cell in cells_of(name, [dataset])}.values())


def _records(cell: Cell, budget: str, out: Path) -> tuple[Record, ...]:
    found = [read_record(out, Run(cell, budget, seed)) for seed in range(MIN_SEEDS)]
    return tuple(record for record in found if record is not None)


def core_hours(record: Record) -> float:
    """The time that a training of one thread took; its clock starts anew where the training was continued."""
    seconds = [float(line.get("seconds", 0.0)) for line in record.metrics]
    ends = [before for before, after in pairwise(seconds) if after < before] + seconds[-1:]
    return sum(ends) / 3600

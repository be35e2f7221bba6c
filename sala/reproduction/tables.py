"""The cells of a table with their records, and how they compare: over test episodes, and over training seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sala.evaluation.results import Interval, Result
from sala.reproduction.plan import Cell, Run, cells_of
from sala.reproduction.published import TABLES, VARIANTS, is_measured_in
from sala.reproduction.records import Record, read_record
from sala.reproduction.seeds import SeedInterval

MAX_SEEDS = 20  # of one cell that are looked for


@dataclass(frozen=True)
class Entry:
    """A cell in one test setting with all its seeds, or without any so far."""

    cell: Cell
    setting: str
    records: tuple[Record, ...]

    @property
    def seeds(self) -> list[int]:
        return [record.run.seed for record in self.records]

    def results(self) -> dict[int, Result]:
        return {record.run.seed: record.results[self.setting] for record in self.records}

    @property
    def published(self) -> float | None:
        """The published number, in the setting that it belongs to."""
        return self.cell.published if is_measured_in(self.cell.variant, self.setting) else None

    @property
    def interval(self) -> Interval | None:
        """Over the test episodes; where there are several seeds, of each episode's mean over them."""
        return Interval.of(_mean_over([r.accuracies for r in self.results().values()])) if self.records else None

    @property
    def over_seeds(self) -> SeedInterval | None:
        """The accuracy over seeds."""
        return SeedInterval.of([result.accuracy for result in self.results().values()]) if self.records else None

    @property
    def seed_sd(self) -> float | None:
        """Standard deviation over seeds, in percent."""
        means = [result.accuracy for result in self.results().values()]
        return float(np.std(means, ddof=1)) if len(means) > 1 else None

    def minus(self, other: Entry) -> Interval | None:
        """The paired difference over episodes, of the seeds that both have."""
        pairs = self._pairs(other)
        return Interval.of(_mean_over([np.subtract(a.accuracies, b.accuracies) for a, b in pairs])) if pairs else None

    def minus_over_seeds(self, other: Entry) -> SeedInterval | None:
        """The paired difference over the seeds that both have: what a claim rests on."""
        pairs = self._pairs(other)
        return SeedInterval.of([a.minus(b).mean for a, b in pairs]) if pairs else None

    def _pairs(self, other: Entry) -> list[tuple[Result, Result]]:
        ours, theirs = self.results(), other.results()
        pairs = [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]
        for a, b in pairs:
            a.minus(b)  # refuses other episodes
        return pairs


def _mean_over(lists: Sequence[Any]) -> list[float]:
    return [float(x) for x in np.mean(np.array(lists, dtype=np.float64), axis=0)]


@dataclass(frozen=True)
class Column:
    """A dataset with its shots and test setting: one column of a table."""

    dataset: str
    shots: int
    setting: str
    entries: dict[str, Entry]  # by variant
    bases: Mapping[str, Entry] = field(default_factory=dict)  # Soft k-Means, where the table does not show it

    @property
    def title(self) -> str:
        setting = f" ({self.setting})" if self.setting != "standard" else ""
        return f"{self.dataset} {self.shots}-shot{setting}"

    @property
    def has_published(self) -> bool:
        return any(entry.published is not None for entry in self.entries.values())

    def base(self, variant: str) -> Entry | None:
        """Soft k-Means with the same treatment of distances; None for itself."""
        key = VARIANTS[variant].base
        return None if key == variant else self.entries.get(key) or self.bases.get(key)

    def best(self) -> str | None:
        """The variant that is better than every other over seeds.

        None if there is none, if a row has too few seeds to tell, and while a row that was published is not measured.
        """
        if any(not entry.records and entry.cell.published is not None for entry in self.entries.values()):
            return None
        measured = {variant: entry for variant, entry in self.entries.items() if entry.records}
        if len(measured) < 2:
            return None
        first = max(measured, key=lambda variant: (measured[variant].interval or Interval(0, 0)).mean)
        others = [entry for variant, entry in measured.items() if variant != first]
        differences = [measured[first].minus_over_seeds(entry) for entry in others]
        return first if all(d is not None and d.is_better for d in differences) else None


def columns_of(
    table: str, datasets: Sequence[str], budget: str, out: Path, n_episodes: int | None = None
) -> list[Column]:
    """What there is of a table: a column for each dataset, shots and setting that has any result.

    A table that compares scales has one where anything was run with distances as printed.
    """
    found: dict[tuple[str, int, str], dict[str, Entry]] = {}
    bases: dict[tuple[str, int, str], dict[str, Entry]] = {}
    for cell in cells_of(table, datasets):
        records = _records(cell, budget, out, n_episodes)
        for setting in cell.protocol.test:
            key = (cell.dataset, cell.shots, setting)
            found.setdefault(key, {})[cell.variant] = Entry(cell, setting, records)
    for (dataset, shots, setting), entries in found.items():
        for variant in {VARIANTS[key].base for key in entries} - entries.keys():
            cell = Cell(dataset, shots, TABLES[table].n_distractor, variant)
            entry = Entry(cell, setting, _records(cell, budget, out, n_episodes))
            bases.setdefault((dataset, shots, setting), {})[variant] = entry
    columns = [Column(*key, entries, bases.get(key, {})) for key, entries in found.items()]
    needed = [key for key in TABLES[table].variants if VARIANTS[key].is_printed_scale] or TABLES[table].variants
    return [column for column in columns if any(column.entries[key].records for key in needed)]


def _records(cell: Cell, budget: str, out: Path, n_episodes: int | None) -> tuple[Record, ...]:
    runs = [Run(cell, budget, seed, n_episodes) for seed in range(MAX_SEEDS)]
    return tuple(record for run in runs if (record := read_record(out, run)) is not None)

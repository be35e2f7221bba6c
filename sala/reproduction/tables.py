"""The cells of a table with their records, and how they compare: over test episodes, and over training seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from sala.evaluation.results import Interval, Result
from sala.evaluation.seeds import SeedInterval, SeedResults, best_of
from sala.reproduction.plan import Cell, Run, cells_of
from sala.reproduction.published import TABLES, VARIANTS, is_measured_in, variant_named
from sala.reproduction.records import Record, read_record

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

    @cached_property
    def found(self) -> SeedResults:
        """The results of all seeds, with their intervals and differences."""
        return SeedResults(self.results())

    @property
    def interval(self) -> Interval | None:
        return self.found.interval

    @property
    def over_seeds(self) -> SeedInterval | None:
        return self.found.over_seeds

    @property
    def seed_sd(self) -> float | None:
        return self.found.seed_sd

    def minus(self, other: Entry) -> Interval | None:
        return self.found.minus(other.found)

    def minus_over_seeds(self, other: Entry) -> SeedInterval | None:
        return self.found.minus_over_seeds(other.found)


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
        key = variant_named(variant).base
        return None if key == variant else self.entries.get(key) or self.bases.get(key)

    def best(self) -> str | None:
        """The variant that is better than every other over seeds.

        None if there is none, if a row has too few seeds to tell, and while a row that was published is not measured.
        """
        if any(not entry.records and entry.cell.published is not None for entry in self.entries.values()):
            return None
        return best_of({variant: entry.found for variant, entry in self.entries.items() if entry.records})


def columns_of(
    table: str,
    datasets: Sequence[str],
    budget: str,
    out: Path,
    n_episodes: int | None = None,
    own: Sequence[str] = (),
) -> list[Column]:
    """What there is of a table: a column for each dataset, shots and setting that has any result.

    A table that compares scales has one where anything was run with distances as printed. `own` are methods of a user.
    """
    rows = [*TABLES[table].variants, *own]
    found: dict[tuple[str, int, str], dict[str, Entry]] = {}
    bases: dict[tuple[str, int, str], dict[str, Entry]] = {}
    for cell in cells_of(table, datasets, variants=rows):
        records = _records(cell, budget, out, n_episodes)
        for setting in cell.protocol.test:
            key = (cell.dataset, cell.shots, setting)
            found.setdefault(key, {})[cell.variant] = Entry(cell, setting, records)
    for (dataset, shots, setting), entries in found.items():
        for variant in {variant_named(key).base for key in entries} - entries.keys():
            cell = Cell(dataset, shots, TABLES[table].n_distractor, variant)
            entry = Entry(cell, setting, _records(cell, budget, out, n_episodes))
            bases.setdefault((dataset, shots, setting), {})[variant] = entry
    columns = [Column(*key, entries, bases.get(key, {})) for key, entries in found.items()]
    needed = [key for key in TABLES[table].variants if VARIANTS[key].is_printed_scale] or rows
    return [
        column for column in columns if any(key in column.entries and column.entries[key].records for key in needed)
    ]


def _records(cell: Cell, budget: str, out: Path, n_episodes: int | None) -> tuple[Record, ...]:
    runs = [Run(cell, budget, seed, n_episodes) for seed in range(MAX_SEEDS)]
    return tuple(record for run in runs if (record := read_record(out, run)) is not None)

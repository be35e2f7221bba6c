"""Speed of learning: validation accuracy of SALA and Soft k-Means over training, and their difference at equal seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sala.evaluation.seeds import MIN_SEEDS, SeedInterval
from sala.reproduction import tables
from sala.reproduction.published import BASE

OURS = "sala"
PART = 4  # the first and the last quarter of a training are compared
WHERE = {"": "without distractors", "-distractors": "with 5 distractor classes"}  # by ending of the table's name
Array = NDArray[Any]


@dataclass(frozen=True)
class Panel:
    """One dataset with or without distractors: the curves of both methods by seed, in percent."""

    dataset: str
    title: str
    where: str
    episodes: list[int]
    curves: Mapping[str, Mapping[int, list[float]]]  # by method, by seed

    @property
    def seeds(self) -> list[int]:
        """Those that both methods have."""
        ours, theirs = self.curves.values()
        return sorted(ours.keys() & theirs.keys())

    @property
    def differences(self) -> Array:
        """SALA minus Soft k-Means at equal seed: [seeds, episodes]."""
        ours, theirs = self.curves.values()
        return np.array([np.subtract(ours[seed], theirs[seed]) for seed in self.seeds])

    @property
    def gain(self) -> list[SeedInterval]:
        """The mean difference at each validation."""
        return [SeedInterval.of(column.tolist()) for column in self.differences.T]

    @property
    def parts(self) -> dict[str, SeedInterval]:
        """The gain in the first and in the last quarter of the training, and by how much it shrinks."""
        n = max(1, len(self.episodes) // PART)
        first, last = self.differences[:, :n].mean(1), self.differences[:, -n:].mean(1)
        return {
            "first": SeedInterval.of(first),
            "last": SeedInterval.of(last),
            "shrinks": SeedInterval.of(first - last),
        }

    @property
    def sentence(self) -> str:
        """Whether the gain is speed of learning; said only where three seeds say so."""
        first, last, shrinks = self.parts.values()
        if shrinks.n < MIN_SEEDS:
            verdict = "too few seeds to say"
        elif shrinks.is_claim and shrinks.mean > 0 and first.is_claim:
            rest = "a gain remains" if last.is_claim and last.mean > 0 else "no gain is left at the end"
            verdict = f"SALA learns faster; {rest}"
        elif shrinks.is_claim:
            verdict = "the difference moves toward " + ("Soft k-Means" if shrinks.mean > 0 else "SALA")
        else:
            verdict = "no change over the training that exceeds the spread of seeds"
        n = len(self.seeds)
        seeds = "1 seed" if n == 1 else f"{n} seeds"
        return (
            f"{self.title}, {self.where} ({seeds}): {first.points} points in the first quarter, {last.points} in the last; "
            f"{verdict}."
        )

    def to_json(self) -> dict[str, Any]:
        gain = [{"mean": one.mean, "t95": one.ci95} for one in self.gain]
        parts = {name: {"mean": one.mean, "t95": one.ci95} for name, one in self.parts.items()}
        curves = {method: {str(seed): line for seed, line in lines.items()} for method, lines in self.curves.items()}
        return {
            "panel": f"{self.title}, {self.where}",
            "episodes": self.episodes,
            "validation_accuracy": curves,
            "paired_seeds": self.seeds,
            "difference": gain,
            "difference_in_quarters": parts,
        }


def panels_of(out: Path, datasets: Sequence[str], budget: str, n_episodes: int | None = None) -> list[Panel]:
    """A panel for each dataset, without and with distractors, where both methods have a seed in common.

    On photographs, distances as printed are taken where the protocol's own scale has not been run.
    """
    panels: dict[tuple[str, str], Panel] = {}
    for dataset in datasets:
        for ending, where in WHERE.items():
            for table, suffix in ((f"learning{ending}", ""), (f"scale{ending}", "-printed")):
                columns = [c for c in tables.columns_of(table, [dataset], budget, out, n_episodes) if c.shots == 1]
                panel = _panel(columns[0], suffix, where) if columns else None
                if panel is not None:
                    panels.setdefault((dataset, where), panel)
    return list(panels.values())


def _panel(column: tables.Column, suffix: str, where: str) -> Panel | None:
    found = {name: column.entries.get(f"{key}{suffix}") for name, key in (("SALA", OURS), ("Soft k-Means", BASE))}
    records = {name: entry.records if entry is not None else () for name, entry in found.items()}
    curves = {
        name: {record.run.seed: [float(line["val_accuracy"]) for line in record.metrics] for record in of_method}
        for name, of_method in records.items()
    }
    episodes = [[int(line["episode"]) for line in r.metrics] for of_method in records.values() for r in of_method]
    printed = ", distances as printed" if suffix else ""
    title = f"{column.dataset} {column.shots}-shot{printed}"
    panel = Panel(column.dataset, title, where, episodes[0] if episodes else [], curves)
    is_even = all(one == episodes[0] for one in episodes)  # records of one budget validate at the same episodes
    return panel if panel.seeds and is_even else None

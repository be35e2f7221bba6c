"""Tables from records: JSON, Markdown, LaTeX and rows for a page, and the sentences that say what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sala.evaluation.results import Interval, Result
from sala.reproduction.plan import Cell, Run, cells_of
from sala.reproduction.published import BASE, TABLES, VARIANTS
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
    def interval(self) -> Interval | None:
        """Over the test episodes; where there are several seeds, of each episode's mean over them."""
        return Interval.of(_mean_over([r.accuracies for r in self.results().values()])) if self.records else None

    @property
    def seed_sd(self) -> float | None:
        """Standard deviation over seeds, in percent."""
        means = [result.accuracy for result in self.results().values()]
        return float(np.std(means, ddof=1)) if len(means) > 1 else None

    def minus(self, other: Entry) -> Interval | None:
        """The paired difference, over the seeds that both have."""
        ours, theirs = self.results(), other.results()
        common = sorted(ours.keys() & theirs.keys())
        if not common:
            return None
        pairs = [(ours[seed], theirs[seed]) for seed in common]
        for a, b in pairs:
            a.minus(b)  # refuses other episodes
        return Interval.of(_mean_over([np.subtract(a.accuracies, b.accuracies) for a, b in pairs]))


def _mean_over(lists: Sequence[Any]) -> list[float]:
    return [float(x) for x in np.mean(np.array(lists, dtype=np.float64), axis=0)]


@dataclass(frozen=True)
class Column:
    """A dataset with its shots and test setting: one column of a table."""

    dataset: str
    shots: int
    setting: str
    entries: dict[str, Entry]  # by variant

    @property
    def title(self) -> str:
        setting = f" ({self.setting})" if self.setting != "standard" else ""
        return f"{self.dataset} {self.shots}-shot{setting}"

    @property
    def has_published(self) -> bool:
        return any(entry.cell.published is not None for entry in self.entries.values())

    def best(self) -> str | None:
        """The variant that is significantly better than every other: each paired interval excludes zero.

        None if there is none, and while a row that was published is not measured.
        """
        if any(not entry.records and entry.cell.published is not None for entry in self.entries.values()):
            return None
        measured = {variant: entry for variant, entry in self.entries.items() if entry.records}
        if len(measured) < 2:
            return None
        first = max(measured, key=lambda variant: (measured[variant].interval or Interval(0, 0)).mean)
        differences = [measured[first].minus(entry) for variant, entry in measured.items() if variant != first]
        return first if all(d is not None and d.mean > d.ci95 for d in differences) else None


def columns_of(
    table: str, datasets: Sequence[str], budget: str, out: Path, n_episodes: int | None = None
) -> list[Column]:
    """What there is of a table: a column for each dataset, shots and setting that has any result."""
    found: dict[tuple[str, int, str], dict[str, Entry]] = {}
    for cell in cells_of(table, datasets):
        runs = [Run(cell, budget, seed, n_episodes) for seed in range(MAX_SEEDS)]
        records = tuple(record for run in runs if (record := read_record(out, run)) is not None)
        for setting in cell.protocol.test:
            found.setdefault((cell.dataset, cell.shots, setting), {})[cell.variant] = Entry(cell, setting, records)
    columns = [Column(*key, entries) for key, entries in found.items()]
    return [column for column in columns if any(entry.records for entry in column.entries.values())]


def to_json(table: str, columns: Sequence[Column], bases: dict[tuple[str, int, str], Entry]) -> list[dict[str, Any]]:
    """One object a cell, with accuracies and half-widths in percent, and the difference to Soft k-Means."""
    cells = []
    for column in columns:
        base = bases.get((column.dataset, column.shots, column.setting))
        for variant, entry in column.entries.items():
            if not entry.records:
                continue
            interval, first = entry.interval, entry.records[0]
            assert interval is not None
            difference = entry.minus(base) if base is not None and variant != BASE else None
            cells.append(
                {
                    "table": table,
                    "dataset": column.dataset,
                    "shots": column.shots,
                    "distractors": entry.cell.n_distractor,
                    "setting": column.setting,
                    "variant": variant,
                    "method": VARIANTS[variant].method,
                    "options": VARIANTS[variant].options,
                    "published": entry.cell.published,
                    "accuracy": interval.mean,
                    "ci95": interval.ci95,
                    "gap": None if entry.cell.published is None else interval.mean - entry.cell.published,
                    "seeds": [
                        {"seed": seed, "accuracy": r.accuracy, "ci95": r.interval.ci95}
                        for seed, r in entry.results().items()
                    ],
                    "sd_over_seeds": entry.seed_sd,
                    "difference_to_soft_kmeans": None if difference is None else asdict(difference),
                    "test_episodes": len(first.results[column.setting].accuracies),
                    "shape": asdict(first.results[column.setting].shape),
                    "episodes_trained": first.n_trained,
                    "best_episodes": [record.best_episode for record in entry.records],
                    "pseudo_labels": first.results[column.setting].pseudo_labels,
                    "diagnostics": first.results[column.setting].diagnostics,
                    "command": first.command,
                    "manifest": first.manifest,
                }
            )
    return cells


def bases_of(
    table: str, datasets: Sequence[str], budget: str, out: Path, n_episodes: int | None = None
) -> dict[tuple[str, int, str], Entry]:
    """Soft k-Means under the protocol of a table, also where the table does not show it."""
    name = "table2" if TABLES[table].n_distractor else "table1"
    columns = columns_of(name, datasets, budget, out, n_episodes)
    return {(c.dataset, c.shots, c.setting): c.entries[BASE] for c in columns if BASE in c.entries}


Row = list[str]


def rows_of(
    columns: Sequence[Column], bases: dict[tuple[str, int, str], Entry]
) -> tuple[Row, list[tuple[Row, set[int]]]]:
    """The header, and for each variant its texts and the numbers of those that are significantly best.

    A column has three texts: accuracy, paired difference to Soft k-Means, published; the last only where anything was.
    """
    header: Row = ["method"]
    for column in columns:
        header += [column.title, "against Soft k-Means", *(["published (gap)"] if column.has_published else [])]
    variants = list(dict.fromkeys(variant for column in columns for variant in column.entries))
    best = [column.best() for column in columns]
    rows = []
    for variant in variants:
        texts, bold = [VARIANTS[variant].label], set()
        for column, winner in zip(columns, best, strict=True):
            entry = column.entries.get(variant)
            if winner == variant:
                bold.add(len(texts))
            base = bases.get((column.dataset, column.shots, column.setting))
            texts += [_accuracy(entry), _difference(entry, base)]
            texts += [_published(entry)] if column.has_published else []
        if any(text not in ("", "-") for text in texts[1:]):
            rows.append((texts, bold))
    return header, rows


def _accuracy(entry: Entry | None) -> str:
    if entry is None or entry.interval is None:
        return "-"
    seeds = f" ({len(entry.seeds)} seeds, sd {entry.seed_sd:.2f})" if entry.seed_sd is not None else ""
    return f"{entry.interval.mean:.2f} ± {entry.interval.ci95:.2f}{seeds}"


def _difference(entry: Entry | None, base: Entry | None) -> str:
    if entry is None or base is None or entry.cell.variant == BASE:
        return ""
    difference = entry.minus(base)
    if difference is None:
        return ""
    return f"{difference.mean:+.2f} ± {difference.ci95:.2f}"


def _published(entry: Entry | None) -> str:
    """The paper's number, and by how much ours differs from it."""
    if entry is None or entry.cell.published is None:
        return "-"
    gap = f" ({entry.interval.mean - entry.cell.published:+.2f})" if entry.interval is not None else ""
    return f"{entry.cell.published:.2f}{gap}"


def markdown(header: Row, rows: list[tuple[Row, set[int]]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += [
        "| " + " | ".join(f"**{t}**" if i in bold else t for i, t in enumerate(texts)) + " |" for texts, bold in rows
    ]
    return "\n".join(lines) + "\n"


_TEX = {"±": r"$\pm$", "%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#"}


def latex(header: Row, rows: list[tuple[Row, set[int]]]) -> str:
    """A booktabs table."""

    def escaped(text: str) -> str:
        return "".join(_TEX.get(c, c) for c in text)

    lines = [r"\begin{tabular}{l" + "r" * (len(header) - 1) + "}", r"\toprule"]
    lines += [" & ".join(map(escaped, header)) + r" \\", r"\midrule"]
    for texts, bold in rows:
        lines.append(
            " & ".join(rf"\textbf{{{escaped(t)}}}" if i in bold else escaped(t) for i, t in enumerate(texts)) + r" \\"
        )
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def verdicts(table: str, columns: Sequence[Column], bases: dict[tuple[str, int, str], Entry]) -> list[str]:
    """One sentence a column: whether SALA is better than Soft k-Means, and where the paper's number lies."""
    sentences = []
    where = "with distractors" if TABLES[table].n_distractor else "without distractors"
    for column in columns:
        entry, base = column.entries.get("sala"), bases.get((column.dataset, column.shots, column.setting))
        difference = entry.minus(base) if entry is not None and base is not None else None
        if entry is None or entry.interval is None or difference is None:
            continue
        if difference.mean > difference.ci95:
            word = "is significantly better than"
        elif difference.mean < -difference.ci95:
            word = "is significantly worse than"
        else:
            word = "is not significantly better than"
        points = f"{difference.mean:+.2f} ± {difference.ci95:.2f} points over episodes"
        text = f"On {column.title}, {where}, SALA {word} Soft k-Means ({points}"
        n = len(set(entry.seeds) & set(base.seeds)) if base else 0
        text += f", {n} seeds)" if n > 1 else ")"
        if entry.cell.published is not None:
            gap = entry.interval.mean - entry.cell.published
            measured = f"{entry.interval.mean:.2f} ± {entry.interval.ci95:.2f}"
            place = "includes" if abs(gap) <= entry.interval.ci95 else "is above" if gap > 0 else "is below"
            text += f"; its interval {measured} {place} the published {entry.cell.published:.2f}"
        sentences.append(text + ".")
    return sentences

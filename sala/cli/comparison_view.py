"""Measured rows on the terminal and in files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from sala.cli import console
from sala.errors import writing
from sala.evaluation.comparison import Row, by_setting, labels, to_csv, to_json, to_latex
from sala.evaluation.report import accuracy_note, inlier_note, protocol_note, pseudo_label_note


def deliver(
    rows: Sequence[Row],
    shown: Callable[[Sequence[Row]], None],
    json_of: Callable[[Sequence[Row]], Any] | None,
    *,
    csv: Path | None,
    latex: Path | None,
) -> None:
    """Write the files that are asked for; show the rest, unless something else goes to standard output."""
    for path, text in ((csv, to_csv), (latex, to_latex)):
        if path is not None:
            _write(path, text(rows))
    if json_of is not None:
        print(json.dumps(json_of(rows)))
    elif Path("-") not in (csv, latex):
        shown(rows)


def _write(path: Path, text: str) -> None:
    """`-` is standard output."""
    if path == Path("-"):
        sys.stdout.write(text)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path):
        path.write_text(text, encoding="utf-8")


def each_as_json(rows: Sequence[Row]) -> Any:
    """Of one run, its results by test setting, the fields of the first one also alone; of its heads, by setting and name."""
    settings = by_setting(rows)
    if any(len(row.runs) > 1 for row in rows) or len({run for row in rows for run in row.runs.values()}) > 1:
        return to_json(rows)
    plain = {name: {row.head: row.result.to_json() for row in some} for name, some in settings.items()}
    if any(row.head for row in rows):
        return {"heads": plain}
    own = {name: some[""] for name, some in plain.items()}
    return next(iter(own.values())) | {"settings": own}


def show_each(rows: Sequence[Row]) -> None:
    """Of each test setting and row the accuracy, and how good the pseudo-labels were."""
    names = labels(rows)
    for setting, some in by_setting(rows).items():
        note = f"{setting}: {protocol_note(some[0].result)}" if setting else protocol_note(some[0].result)
        if is_listed := len(some) > 1 or bool(some[0].head):
            console.out.print(note, markup=False)
        for row in some:
            console.out.print(
                f"[bold]{accuracy_note(row.found)}[/]  {escape(note if not is_listed else names[row.name])}"
            )
            result = next(iter(row.found.by_seed.values()))
            which = f" ({row.runs[min(row.runs)]})" if len(row.runs) > 1 else ""
            for sentence in filter(None, (pseudo_label_note(result), inlier_note(result))):
                console.out.print(f"  {sentence}{which}", markup=False)


def show_compared(rows: Sequence[Row]) -> None:
    """A table for each test setting, with paired differences to its first row."""
    for some in by_setting(rows).values():
        table = _table(some)
        # where there is no terminal, lines have any length; in one, names stay whole and other columns fold
        needed = Measurement.get(console.out, console.out.options.update(width=10_000), table)
        table.width = (
            max(console.out.width, needed.minimum + len(table.columns)) if console.out.is_terminal else needed.maximum
        )
        console.out.print(table)


def _table(rows: Sequence[Row]) -> Table:
    base, has_seeds = rows[0], any(len(row.runs) > 1 for row in rows)
    note = protocol_note(base.result)
    title = f"{base.setting}: {note}" if base.setting else note
    table = Table(title=escape(title), title_justify="left", box=None, pad_edge=False)
    for name in ("run", "method"):
        table.add_column(name, no_wrap=True)
    seeds = ["seeds: sd, ± 95 %"] if has_seeds else []
    over = ["difference over seeds"] if has_seeds else []
    for name in ("accuracy (95 %)", *seeds, "difference to the first (95 %)", *over):
        table.add_column(name)
    for row in rows:
        over_seeds = [_over_seeds(row)] if has_seeds else []
        difference = [_difference_over_seeds(row, base)] if has_seeds else []
        texts = (str(row.result.interval), *over_seeds, _difference(row, base), *difference)
        table.add_row(escape(row.name), escape(row.method_name), *texts)
    return table


def _over_seeds(row: Row) -> str:
    over_seeds, sd = row.found.over_seeds, row.found.seed_sd
    if over_seeds is None or over_seeds.ci95 is None or sd is None:
        return "one"
    return f"{over_seeds.n}: {sd:.2f}, ± {over_seeds.ci95:.2f}"


def _difference(row: Row, base: Row) -> str:
    if row is base:
        return "-"
    difference = row.minus(base)
    is_clear = abs(difference.mean) > difference.ci95
    text = f"{difference.mean:+.2f} ± {difference.ci95:.2f}" + ("" if is_clear else "  (unclear)")
    return text + (f", {_seeds(row.common_seeds(base))}" if row.is_of_some_seeds(base) else "")


def _seeds(seeds: Sequence[int]) -> str:
    return ("seed " if len(seeds) == 1 else "seeds ") + ", ".join(map(str, seeds))


def _difference_over_seeds(row: Row, base: Row) -> str:
    difference = None if row is base else row.minus_over_seeds(base)
    return "-" if difference is None else f"{difference.points} ({difference.verdict})"

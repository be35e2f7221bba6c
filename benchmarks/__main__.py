"""`python -m benchmarks`: what things cost on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from benchmarks.measuring import Section
from benchmarks.scaling import MEASUREMENTS, to_json
from sala.atomic import write_json
from sala.cli import console
from sala.errors import SalaError
from sala.templates import plots

AXES = {"n_way": "ways", "n_shot": "shots", "n_unlabeled": "unlabeled images a class"}


def bench(
    sections: Annotated[
        list[str] | None, typer.Argument(help=f"Any of {', '.join(MEASUREMENTS)}; all by default.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time for each comparison; more is steadier.", min=0.01)] = 6.0,
    out: Annotated[Path | None, typer.Option(help="Also write everything to this JSON file.")] = None,
) -> None:
    """Measure training steps, evaluation, storage and growth. Every figure is a ratio within this run, or says its unit.

    Example: `python -m benchmarks steps --seconds 20 --out bench.json`
    """
    chosen = sections or list(MEASUREMENTS)
    if unknown := [name for name in chosen if name not in MEASUREMENTS]:
        raise SalaError(f"there is no section {unknown[0]!r}; the sections are {', '.join(MEASUREMENTS)}")
    done: list[Section] = []
    for name in chosen:
        console.err.print(f"measuring {name}")
        for section in MEASUREMENTS[name](seconds):
            done.append(section)
            console.out.print(section_table(section))
    if out is not None:
        write_json(out, to_json(done, " ".join(["python -m benchmarks", *chosen, f"--seconds {seconds:g}"])))
        console.err.print(f"written: {out}", markup=False)
        if panels := growth_panels(done):
            plot = out.with_name(f"{out.stem}-growth.svg")
            plot.write_text(plots.growth(panels).svg, encoding="utf-8")
            console.err.print(f"written: {plot}", markup=False)


def growth_panels(sections: list[Section]) -> dict[str, dict[str, Any]]:
    """The rows that were fitted to a series, for the plot."""
    panels = {
        title: {AXES[row.name.removeprefix("exponent in ")]: (row.value, row.series) for row in rows if row.series}
        for title, rows in sections
    }
    return {title: lines for title, lines in panels.items() if lines}


def section_table(section: Section) -> Table:
    title, rows = section
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in ("", "value", "target", "", "note"):
        table.add_column(column, justify="right" if column in ("value", "target") else "left", overflow="fold")
    for row in rows:
        verdict = {None: "", True: "met", False: "MISSED"}[row.is_met]
        table.add_row(
            row.name, f"{row.value:,.3g}" if row.value < 1000 else f"{row.value:,.0f}", row.target, verdict, row.note
        )
    return table


if __name__ == "__main__":
    typer.run(bench)

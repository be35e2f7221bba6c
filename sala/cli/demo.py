"""`sala demo`: two methods on the built-in data."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from sala.cli import console
from sala.cli import options as opt
from sala.errors import SalaError


def demo(
    out: Annotated[Path, typer.Option(help="Where runs and report go; an earlier demo there is replaced.")] = Path(
        "sala-demo"
    ),
    episodes: Annotated[int, typer.Option(help="Training episodes of each method.")] = 2_000,
    seed: opt.Seed = 0,
) -> None:
    """Train ProtoNet and SALA on the built-in letters, test both, write a report. About three minutes on two cores."""
    from sala.cli.training_view import watching
    from sala.reproduction.demo import demo_configs, demo_rows, run_demo

    demo_configs(episodes, seed)  # numbers that cannot be are refused before an earlier demo is removed
    _make_room_for_demo(out)
    console.err.print("1. letters of many scripts (built in)   2. train two methods   3. test them   4. write a report")
    outcome = run_demo(out, episodes, seed, watching)
    header, rows = demo_rows(outcome.results)
    table = Table(box=None, pad_edge=False)
    for i, column in enumerate(header):
        table.add_column(column, justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    console.out.print(table)
    console.out.print(f"report with plots and pictures: {escape(str(outcome.report))}")


def _make_room_for_demo(folder: Path) -> None:
    """Remove an earlier demo, and nothing else."""
    ours = {"protonet", "sala", "report.html"}
    if folder.exists() and not folder.is_dir():
        raise SalaError(f"{folder} is a file, and a demo is a folder; choose another --out")
    if folder.is_dir() and (others := {p.name for p in folder.iterdir()} - ours):
        raise SalaError(f"{folder} holds other things than a demo ({min(others)}); choose another --out")
    for method in sorted(ours - {"report.html"}):
        if (run := folder / method).exists() and not (run / "config.json").is_file():
            raise SalaError(f"{run} is not a run of an earlier demo; choose another --out")
    for method in ours - {"report.html"}:
        shutil.rmtree(folder / method, ignore_errors=True)

"""`sala reproduce`: the paper's tables and figures from one command."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from sala import console
from sala.cli_data import Root
from sala.data import ImageStore, load_dataset
from sala.errors import SalaError, at_least
from sala.paper import ARMS, DATASETS, NAMES, TABLES
from sala.publish import map_task, publish, runs_for_maps
from sala.records import read_record
from sala.reproduce import Run, cells_of, check_names
from sala.sweep import Job, check_jobs, expected_seconds, plan, sweep


def reproduce(
    tables: Annotated[list[str], typer.Argument(help=f"Any of {', '.join(NAMES)}.")],
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this one; repeatable.", show_default="omniglot, tiny-tiered; of the paper's with --budget paper"
        ),
    ] = None,
    shots: Annotated[list[int] | None, typer.Option(help="Only 1 or 5 shots; repeatable.", show_default="both")] = None,
    arm: Annotated[
        list[str] | None, typer.Option(help="Only this row (e.g. sala, soft-kmeans); repeatable.", show_default="all")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="cpu (hours to a day on a laptop) or paper (500,000 episodes a run).")
    ] = "cpu",
    episodes: Annotated[
        int | None, typer.Option(help="Shorter trainings, to try it out; kept apart from the budget's.", min=1)
    ] = None,
    seeds: Annotated[int, typer.Option(help="Trainings of each cell, with seeds 0, 1, ...")] = 1,
    jobs: Annotated[int, typer.Option(help="Runs at a time, one thread each; 0: one a core.")] = 0,
    out: Annotated[Path, typer.Option(help="Where records, tables and figures go.")] = Path("results"),
    runs: Annotated[Path, typer.Option(help="Where run folders go.")] = Path("runs/reproduce"),
    root: Root = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would run and how long it may take, from a few steps of each.")
    ] = False,
    no_run: Annotated[
        bool, typer.Option("--no-run", help="Train nothing: write tables and figures of what is there.")
    ] = False,
) -> None:
    """Regenerate the tables and figures of the SALA paper under one protocol. Finished runs are skipped, begun ones continued.

    Examples: `sala reproduce table1 --dataset omniglot --dry-run`,
    `sala reproduce all --seeds 3 --arm sala --arm soft-kmeans`,
    `sala reproduce table1 table2 --dataset miniimagenet --root FILES --budget paper`
    """
    if budget not in DATASETS:
        raise SalaError(f"a budget is one of {', '.join(DATASETS)}; got {budget!r}")
    check_names(tables, dataset or [], arm or [])
    at_least(1, seeds, "the number of seeds")
    n_jobs = check_jobs(jobs)
    datasets = dataset or list(DATASETS[budget])
    if root is not None and len(datasets) > 1:
        raise SalaError("--root is the place of one dataset; name it with --dataset, or put all under $SALA_DATA")
    wanted = wanted_runs(tables, datasets, shots or [], arm or [], budget, seeds, episodes)
    if not wanted:
        raise SalaError("nothing of that is in these tables; `sala reproduce --help` has the names")
    todo = [] if no_run else plan(wanted, out, runs)
    place = str(root.resolve()) if root else None
    stores = {name: _store(name, place) for name in dict.fromkeys(job.run.cell.dataset for job in todo)}
    if dry_run:
        console.out.print(dry_table(todo, stores, n_jobs, len(wanted)))
        return
    if todo:
        out.mkdir(parents=True, exist_ok=True)
        with live(len(wanted) - len(todo)) as watch:
            sweep(todo, out, n_jobs, root=place, watch=watch)
    if "tsne" in tables or "all" in tables:
        _maps(runs_for_maps(datasets, budget, episodes), out, runs)
    written = publish(out, datasets, budget, episodes)
    for sentence in written.sentences:
        console.out.print(escape(sentence))
    console.out.print("written: " + escape(", ".join(str(path) for path in written.files)))
    if failed := [job for job in todo if job.state == "failed"]:
        raise SalaError(
            f"{len(failed)} of {len(todo)} runs failed; the first, {failed[0].run.name}, said: {failed[0].message}"
        )


def wanted_runs(
    tables: Sequence[str],
    datasets: Sequence[str],
    shots: Sequence[int],
    arms: Sequence[str],
    budget: str,
    seeds: int,
    episodes: int | None = None,
) -> list[Run]:
    """Each run once, first seeds first."""
    names = list(TABLES) if "all" in tables else list(tables)
    cells = {cell.name: cell for name in names for cell in cells_of(name, datasets, shots, arms)}
    return [Run(cell, budget, seed, episodes) for seed in range(seeds) for cell in cells.values()]


def _store(dataset: str, root: str | None) -> ImageStore:
    with console.counting(f"preparing {dataset}") as progress:
        return load_dataset(dataset, root, progress=progress)


def dry_table(todo: Sequence[Job], stores: dict[str, ImageStore], n_jobs: int, n_wanted: int) -> Table:
    table = Table(
        title=f"{n_wanted - len(todo)} of {n_wanted} runs are recorded", title_justify="left", box=None, pad_edge=False
    )
    for column in ("run", "method", "episodes", "expected"):
        table.add_column(column, justify="right" if column in ("episodes", "expected") else "left", overflow="fold")
    costs: dict[str, float] = {}
    total, seen = 0.0, set()
    for job in todo:
        cell = job.run.cell.trained
        if cell.name not in costs:
            costs[cell.name] = expected_seconds(job.run, stores[cell.dataset])
        left = 1 - min(1.0, job.episode / job.run.config.budget.n_episodes)
        seconds = 0.0 if job.folder in seen else left * costs[cell.name]
        seen.add(job.folder)
        total += seconds
        episodes = f"{job.episode:,} of {job.run.config.budget.n_episodes:,}"
        table.add_row(job.run.name, ARMS[cell.arm].label, episodes, duration(seconds))
    time_left = duration(total / n_jobs)
    table.caption = f"about {time_left} with {n_jobs} at a time, one thread each, on a machine that does nothing else"
    return table


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{max(1, minutes)} min"


@contextmanager
def live(n_before: int) -> Iterator[Callable[[list[Job]], None]]:
    """A table of all runs that is kept up to date; where there is no terminal, a line when a run ends."""
    told: set[str] = set()
    if not console.err.is_terminal:

        def say(jobs: list[Job]) -> None:
            for job in jobs:
                if job.state in ("finished", "failed") and job.run.name not in told:
                    told.add(job.run.name)
                    console.err.print(f"{job.state}: {job.run.name}  {_outcome(job)}", markup=False)

        yield say
        return
    shown = 0.0
    with Live(console=console.err, refresh_per_second=2, vertical_overflow="visible") as view:

        def show(jobs: list[Job]) -> None:
            nonlocal shown
            if time.monotonic() - shown > 2 or all(job.state in ("finished", "failed") for job in jobs):
                shown = time.monotonic()
                view.update(live_table(jobs, n_before))

        yield show


def live_table(jobs: Sequence[Job], n_before: int) -> Table:
    n_done = sum(job.state == "finished" for job in jobs)
    table = Table(
        title=f"{n_before + n_done} of {n_before + len(jobs)} runs finished",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for column in ("run", "state", "episodes", "best validation", "result"):
        table.add_column(column, overflow="fold")
    waiting = 0
    for job in jobs:
        if job.state == "waiting":
            waiting += 1
            continue
        best = job.validation
        episodes = f"{job.episode:,} of {job.run.config.budget.n_episodes:,}"
        table.add_row(
            job.run.name, job.state, episodes, "-" if best is None else f"{best:.2f} %", escape(_outcome(job))
        )
    if waiting:
        table.add_row(f"and {waiting} more", "waiting", "", "", "")
    return table


def _outcome(job: Job) -> str:
    if job.state == "failed":
        return job.message[-200:]
    return ", ".join(f"{setting} {text}" for setting, text in job.accuracy.items())


def _maps(wanted: Sequence[Run], out: Path, runs: Path) -> None:
    for run in wanted:
        folder = runs / run.trained.name
        if read_record(out, run) is not None and (folder / "best.safetensors").is_file():
            map_task(run, folder, out)

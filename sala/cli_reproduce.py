"""`sala reproduce`: the paper's tables and figures from one command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sala import console
from sala.cli_data import Root
from sala.errors import SalaError, at_least
from sala.paper import DATASETS, NAMES

if TYPE_CHECKING:
    from sala.data import ImageStore
    from sala.reproduce import Run


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
    from sala.publish import publish, runs_for_maps
    from sala.reproduce import check_names, wanted_runs
    from sala.sweep import check_jobs, plan, sweep
    from sala.sweep_view import dry_table, live

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


def _store(dataset: str, root: str | None) -> ImageStore:
    from sala.data import load_dataset

    with console.counting(f"preparing {dataset}") as progress:
        return load_dataset(dataset, root, progress=progress)


def _maps(wanted: Sequence[Run], out: Path, runs: Path) -> None:
    from sala.publish import map_task
    from sala.records import read_record

    for run in wanted:
        folder = runs / run.trained.name
        if read_record(out, run) is not None and (folder / "best.safetensors").is_file():
            map_task(run, folder, out)

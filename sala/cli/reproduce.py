"""`sala reproduce`: the paper's tables and figures from one command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from rich.markup import escape

from sala.cli import console
from sala.cli import options as opt
from sala.errors import SalaError, at_least
from sala.reproduction.published import DATASETS, is_file

if TYPE_CHECKING:
    from sala.data import ImageStore
    from sala.reproduction.estimate import Cost
    from sala.reproduction.plan import Run
    from sala.reproduction.report import Wish
    from sala.reproduction.runner import Job


def reproduce(
    tables: opt.Tables,
    dataset: opt.Datasets = None,
    shots: opt.OnlyShots = None,
    variant: opt.Variants = None,
    budget: opt.PaperBudget = "cpu",
    episodes: opt.ShorterEpisodes = None,
    seeds: opt.Seeds = 1,
    jobs: opt.Jobs = 0,
    out: opt.ResultsOut = Path("results"),
    runs: opt.RunsOut = Path("runs/reproduce"),
    root: opt.Root = None,
    dry_run: opt.DryRun = False,
    no_run: opt.NoRun = False,
    maps: opt.Maps = None,
    arm: opt.OldVariants = None,
) -> None:
    """Regenerate the tables and figures of the SALA paper under one protocol. Finished runs are skipped, begun ones continued.

    Examples: `sala reproduce table1 --dataset omniglot --dry-run`,
    `sala reproduce all --seeds 3 --variant sala --variant soft-kmeans`,
    `sala reproduce table1 table2 --dataset miniimagenet --root FILES --budget paper`
    """
    from sala.reproduction.report import Wish
    from sala.reproduction.runner import check_jobs, plan

    variants, datasets = _variants([*(variant or []), *(arm or [])]), dataset or list(DATASETS.get(budget, ()))
    wanted = _wanted(tables, datasets, shots or [], variants, budget, seeds, episodes, root)
    n_jobs, todo = check_jobs(jobs), [] if no_run else plan(wanted, out, runs)
    place = str(root.resolve()) if root else None
    stores = _stores(todo, place, may_lack=dataset is None)
    absent = {job.run.cell.dataset for job in todo} - stores.keys()
    wanted = [run for run in wanted if run.cell.dataset not in absent]
    todo = [job for job in todo if job.run.cell.dataset not in absent]
    if dry_run:
        return _tell_plan(todo, stores, n_jobs, len(wanted))
    _sweep(todo, stores, out, n_jobs, place, len(wanted))
    if "tsne" in tables or "all" in tables:
        _draw_maps(datasets, budget, episodes, out, runs, root)
    for run in maps or []:
        _draw_map(run, run.name, f"sala reproduce tsne --no-run --map {shlex.quote(str(run))}", out, root)
    lacking = [] if maps else _unrecorded(wanted, out, variants, dataset or [])
    wish = Wish(tables, datasets, budget, episodes, [one for one in variants if is_file(one)])
    return _publish(todo, out, wish, lacking)


def _wanted(
    tables: Sequence[str],
    datasets: Sequence[str],
    shots: Sequence[int],
    variants: Sequence[str],
    budget: str,
    seeds: int,
    episodes: int | None,
    root: Path | None,
) -> list[Run]:
    """The runs of the tables, after a look at the words of the command."""
    from sala.reproduction.plan import check_names, wanted_runs

    if budget not in DATASETS:
        raise SalaError(f"a budget is one of {', '.join(DATASETS)}; got {budget!r}")
    check_names(tables, datasets, variants)
    at_least(1, seeds, "the number of seeds")
    if root is not None and len(datasets) > 1:
        raise SalaError("--root is the place of one dataset; name it with --dataset, or put all under $SALA_DATA")
    wanted = wanted_runs(tables, datasets, shots, variants, budget, seeds, episodes)
    if not wanted:
        raise SalaError("nothing of that is in these tables; `sala reproduce --help` has the names")
    return wanted


def _stores(todo: list[Job], root: str | None, *, may_lack: bool) -> dict[str, ImageStore]:
    """The data of the runs. A dataset that no one asked for by name may be lacking: it is named, and the others run."""
    from sala.data.datasets import NotPrepared

    stores: dict[str, ImageStore] = {}
    lacking: dict[str, NotPrepared] = {}
    for name in dict.fromkeys(job.run.cell.dataset for job in todo):
        try:
            stores[name] = _store(name, root)
        except NotPrepared as error:
            if not may_lack:
                raise
            lacking[name] = error
    if lacking and not stores:
        raise SalaError(
            f"no data of {', '.join(lacking)} is at hand; `sala data fetch NAME` gets one, or says where to"
        )
    for name, reason in lacking.items():
        console.warn(f"the runs on {name} are left out: {reason}; `sala data fetch {name}` gets it, or says where to")
    return stores


def _store(dataset: str, root: str | None) -> ImageStore:
    from sala.data import load_dataset

    with console.counting(f"preparing {dataset}") as progress:
        return load_dataset(dataset, root, progress=progress)


def _cost(todo: list[Job], stores: dict[str, ImageStore], n_steps: int) -> Cost:
    from sala.reproduction.estimate import expected_cost

    with console.counting("measuring a few steps", "kinds of runs") as progress:
        return expected_cost(todo, stores, n_steps=n_steps, progress=progress)


def _tell_plan(todo: list[Job], stores: dict[str, ImageStore], n_jobs: int, n_wanted: int) -> None:
    from sala.cli.sweep_view import dry_table

    console.out.print(dry_table(todo, _cost(todo, stores, n_steps=4), n_jobs, n_wanted))


def _sweep(
    todo: list[Job], stores: dict[str, ImageStore], out: Path, n_jobs: int, root: str | None, n_wanted: int
) -> None:
    """Say what is missing and what it will cost, then do it."""
    from sala.cli.sweep_view import live, missing, price
    from sala.reproduction.runner import sweep

    if todo:
        console.err.print(missing(todo, n_wanted), markup=False)
        console.err.print(price(_cost(todo, stores, n_steps=2), n_jobs), markup=False)
        out.mkdir(parents=True, exist_ok=True)
        with live(n_wanted - len(todo)) as watch:
            sweep(todo, out, n_jobs, root=root, watch=watch)


def _draw_maps(
    datasets: Sequence[str], budget: str, episodes: int | None, out: Path, runs: Path, root: Path | None
) -> None:
    """Draw and measure the recorded runs of SALA whose weights are at hand, each once."""
    from sala.reproduction.figures import runs_for_maps
    from sala.reproduction.metric import read_metric
    from sala.reproduction.records import read_record

    for run in runs_for_maps(datasets, budget, episodes):
        folder = runs / run.trained.name
        is_at_hand = read_record(out, run) is not None and (folder / "best.safetensors").is_file()
        if is_at_hand and run.name not in read_metric(out):
            shorter = "" if episodes is None else f" --episodes {episodes}"
            command = f"sala reproduce tsne --dataset {run.cell.dataset} --budget {budget}{shorter}"
            _draw_map(folder, run.name, command, out, root)


def _draw_map(run: Path, name: str, command: str, out: Path, root: Path | None) -> None:
    """One task as maps, and many tasks as numbers."""
    from sala.reproduction.figures import map_task
    from sala.reproduction.metric import keep_metric, measure_metric
    from sala.training.config import run_folder

    out.mkdir(parents=True, exist_ok=True)
    with console.counting(f"measuring the metric of {escape(name)}") as progress:
        keep_metric(out, measure_metric(run, name=name, command=command, root=root, progress=progress))
    map_task(name, run_folder(run), out, root)


def _unrecorded(wanted: Sequence[Run], out: Path, variants: Sequence[str], datasets: Sequence[str]) -> list[str]:
    """The variants and datasets that were asked for by name, and of which nothing is recorded."""
    from sala.reproduction.records import record_path

    recorded = [run.cell for run in wanted if record_path(out, run).is_file()]

    def is_recorded(variant: str, dataset: str) -> bool:
        return any(variant in ("", cell.variant) and dataset in ("", cell.dataset) for cell in recorded)

    asked = [(v, d) for v in variants or [""] for d in datasets or [""] if v or d]
    return [" on ".join(filter(None, (PurePath(v).name, d))) for v, d in asked if not is_recorded(v, d)]


def _publish(todo: list[Job], out: Path, wish: Wish, lacking: Sequence[str]) -> None:
    """Write tables and figures of what is recorded; then fail if a run has failed, or nothing is recorded."""
    from sala.reproduction.report import publish

    written = publish(out, wish)
    for sentence in written.sentences:
        console.out.print(escape(sentence))
    if written.files:
        console.out.print("written: " + escape(", ".join(str(path) for path in written.files)))
        for name in [*written.lacking, *lacking]:
            console.warn(f"{out} has no records of {name} with the budget {wish.budget}: nothing is written of it")
    if failed := [job for job in todo if job.state == "failed"]:
        raise SalaError(
            f"{len(failed)} of {len(todo)} runs failed; the first, {failed[0].run.name}, said: {failed[0].message}"
        )
    if not written.files:
        shorter = "" if wish.n_episodes is None else f" of {wish.n_episodes} episodes"
        raise SalaError(
            f"{out} has no records of {', '.join(wish.names)} with the budget {wish.budget}{shorter}; leave out --no-run to "
            "train them, or give the folder that has them with --out"
        )


def _variants(names: Sequence[str]) -> list[str]:
    """The names; a method from a file is found from anywhere, and trusted since it is named."""
    from sala.methods import plugins

    for name in filter(plugins.is_file, names):
        plugins.remember(name, "variant")
    return [plugins.absolute(name, "variant") if plugins.is_file(name) else name for name in names]

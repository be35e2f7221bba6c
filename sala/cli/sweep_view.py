"""A sweep as tables in the terminal: what would run and how long it may take, and what runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.live import Live
from rich.markup import escape
from rich.table import Table

from sala.cli import console
from sala.data import ImageStore
from sala.reproduction.estimate import expected_seconds
from sala.reproduction.published import VARIANTS
from sala.reproduction.runner import Job


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
        table.add_row(job.run.name, VARIANTS[cell.variant].label, episodes, duration(seconds))
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

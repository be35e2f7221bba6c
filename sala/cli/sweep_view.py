"""A sweep as tables in the terminal: what would run and how long it may take, and what runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.live import Live
from rich.markup import escape
from rich.table import Table

from sala.cli import console
from sala.cli.console import duration
from sala.reproduction.estimate import Cost
from sala.reproduction.published import variant_named
from sala.reproduction.runner import Job


def dry_table(todo: Sequence[Job], cost: Cost, n_jobs: int, n_wanted: int) -> Table:
    """What would run, and how long it may take."""
    table = Table(title=missing(todo, n_wanted), title_justify="left", box=None, pad_edge=False)
    for column in ("run", "method", "episodes", "expected"):
        table.add_column(column, justify="right" if column in ("episodes", "expected") else "left", overflow="fold")
    for job in todo:
        episodes = f"{job.episode:,} of {job.run.config.budget.n_episodes:,}"
        expected = duration(cost.seconds[job.run.name])
        table.add_row(job.run.name, variant_named(job.run.cell.variant).label, episodes, expected)
    table.caption = f"{price(cost, n_jobs)}, one thread each, on a machine that does nothing else"
    return table


def missing(todo: Sequence[Job], n_wanted: int) -> str:
    """How many runs are recorded, begun and missing."""
    n_begun = sum(job.episode > 0 for job in todo)
    rest = f", {n_begun} begun, {len(todo) - n_begun} missing" if todo else ""
    return f"{n_wanted - len(todo)} of {n_wanted} runs are recorded{rest}"


def price(cost: Cost, n_jobs: int) -> str:
    """The expected cost in words."""
    hours = cost.core_seconds / 3600
    return f"about {hours:,.1f} core-hours, {duration(cost.wall_seconds(n_jobs))} with {n_jobs} at a time"


@contextmanager
def live(n_before: int) -> Iterator[Callable[[list[Job]], None]]:
    """A table of all runs that is kept up to date; where there is no terminal, a line when a run ends and one a minute."""
    if not console.err.is_terminal:
        yield Telling(n_before)
        return
    shown = 0.0
    with Live(console=console.err, refresh_per_second=2, vertical_overflow="visible") as view:

        def show(jobs: list[Job]) -> None:
            nonlocal shown
            if time.monotonic() - shown > 2 or all(job.is_over for job in jobs):
                shown = time.monotonic()
                view.update(live_table(jobs, n_before))

        yield show


class Telling:
    """A sweep as lines of text: what has ended, and once a minute what runs."""

    def __init__(self, n_before: int):
        self.n_before, self.begun = n_before, console.clock()
        self.told: set[str] = set()

    def __call__(self, jobs: list[Job]) -> None:
        for job in jobs:
            if job.is_over and job.run.name not in self.told:
                self.told.add(job.run.name)
                console.err.print(f"{job.state}: {job.run.name}  {_outcome(job)}", markup=False)
        running = [job for job in jobs if job.state in ("training", "testing")]
        if running and console.pace.is_due(console.clock(), self.begun):
            n_done = self.n_before + sum(job.state == "finished" for job in jobs)
            states = "; ".join(_state(job) for job in running)
            console.err.print(f"{n_done} of {self.n_before + len(jobs)} runs finished; {states}", markup=False)


def _state(job: Job) -> str:
    done = "testing" if job.state == "testing" else f"{job.episode:,} of {job.run.config.budget.n_episodes:,} episodes"
    best = "" if job.validation is None else f", best validation {job.validation:.2f} %"
    return f"{job.run.name}: {done}{best}"


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

"""Progress on stderr, results on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from sala.encoders import EmbedProgress

MAX_SENTENCE = 1_500  # characters: beginning and end of a longer one are shown
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def progress_bar(*columns: str) -> Progress:
    texts = [TextColumn(column) for column in columns]
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *texts, TimeRemainingColumn(), console=err,
        transient=True, redirect_stdout=False, disable=not err.is_terminal,  # else an empty line is left behind
    )  # fmt: skip


@contextmanager
def counting(description: str, unit: str = "images") -> Iterator[Callable[[int, int], None]]:
    """A bar for work that reports (done, total)."""
    with progress_bar(unit) as bar:
        task: TaskID | None = None

        def report(done: int, total: int) -> None:
            nonlocal task
            task = bar.add_task(description, total=total) if task is None else task
            bar.update(task, completed=done)

        yield report


@contextmanager
def embedding(description: str) -> Iterator[Callable[[EmbedProgress], None]]:
    """A bar for images on their way to features, with images/s and how many need no work."""
    with progress_bar("{task.fields[rate]:.0f} images/s", "{task.fields[note]}") as bar:
        task = bar.add_task(description, total=None, rate=0.0, note="")

        def report(progress: EmbedProgress) -> None:
            notes = [(progress.n_cached, "from the cache"), (progress.n_skipped, "skipped")]
            note = ", ".join(f"{n:,} {what}" for n, what in notes if n)
            bar.update(task, completed=progress.done, total=progress.total, note=note)
            average = progress.done / max(time.monotonic() - begun, 1e-3)
            bar.update(task, rate=bar.tasks[task].speed or average)  # with what has just been done
            last["progress"] = progress

        begun = time.monotonic()
        last: dict[str, EmbedProgress] = {}
        yield report
    if "progress" in last and last["progress"].n_cached:
        told = last["progress"]
        err.print(f"{told.n_cached:,} of {told.total:,} images had been embedded before")


@contextmanager
def running(description: str) -> Iterator[Callable[[int], None]]:
    """A count with images/s for work whose end is not known; it is told of each batch."""
    columns = (TextColumn("{task.description}"), TextColumn("{task.completed:,.0f} images"),
               TextColumn("{task.fields[rate]:.0f} images/s"))  # fmt: skip
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(description, total=None, rate=0.0)

        def report(n_images: int) -> None:
            bar.update(task, advance=n_images, rate=bar.tasks[task].speed or 0.0)

        yield report


def warn(message: str) -> None:
    err.print(f"[bold yellow]warning:[/] {escape(message)}")


def fail(message: str) -> None:
    """One sentence on stderr, then a non-zero exit. A file's own words may be part of it, and of any length."""
    sentence = " ".join(message.splitlines())
    if len(sentence) > MAX_SENTENCE:
        sentence = f"{sentence[: MAX_SENTENCE // 2]} ... {sentence[-MAX_SENTENCE // 2 :]}"
    err.print(f"[bold red]error:[/] {escape(sentence)}")
    sys.exit(1)

"""Progress on stderr, results on stdout."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

if TYPE_CHECKING:
    from sala.encoders import EmbedProgress

FIRST_LINE, BETWEEN_LINES = 5.0, 60.0  # seconds: lines of progress where there is no terminal
SPEED_OVER = 600.0  # seconds: long enough that a validation in between does not look like the end of all speed
MAX_SENTENCE = 1_500  # characters: beginning and end of a longer one are shown
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


class Pace:
    """When a line of progress is due where there is no terminal: once a minute at most, whatever is going on."""

    def __init__(self) -> None:
        self.told = -math.inf

    def is_due(self, now: float, begun: float) -> bool:
        """True for work that has gone on for some seconds, if the last line is a minute old; then the minute begins anew."""
        if now - begun < FIRST_LINE or now - self.told < BETWEEN_LINES:
            return False
        self.told = now
        return True


clock: Callable[[], float] = time.monotonic
pace = Pace()  # of the process: two works in turn, or at a time, share the minute


class Lines(Progress):
    """Progress as lines of text, for logs and pipes; work that ends at once leaves none."""

    def __init__(self, *columns: ProgressColumn):
        super().__init__(*columns, console=err, disable=True, get_time=clock, speed_estimate_period=SPEED_OVER)
        self.begun = clock()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        task = next(task for task in self.tasks if task.id == task_id)
        if not task.finished and pace.is_due(clock(), self.begun):
            texts = [str(column(task)) for column in self.columns if not isinstance(column, str | BarColumn)]
            err.print("  ".join(text for text in texts if text), markup=False)


class Left(ProgressColumn):
    """The time that is left, in words; nothing where it is not known."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        seconds = task.time_remaining
        return Text("" if seconds is None or task.total is None else f"{duration(seconds)} left")


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min"


def progress_bar(*columns: str, is_counted: bool = True) -> Progress:
    """A bar in a terminal, lines elsewhere; `is_counted` says that the end is known."""
    texts = [TextColumn(column, markup=False) for column in columns]
    if not is_counted:
        shown: list[ProgressColumn] = [TextColumn("{task.description}"), *texts]
    else:
        shown = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *texts, Left()]
    if not err.is_terminal:
        return Lines(*shown)
    return Progress(*shown, console=err, transient=True, redirect_stdout=False, speed_estimate_period=SPEED_OVER)


@contextmanager
def counting(description: str, unit: str = "images") -> Iterator[Callable[[int, int], None]]:
    """Progress of work that reports (done, total)."""
    with progress_bar(unit) as bar:
        task: TaskID | None = None

        def report(done: int, total: int) -> None:
            nonlocal task
            task = bar.add_task(description, total=total or None) if task is None else task
            bar.update(task, completed=done, total=total or None)

        yield report


@contextmanager
def embedding(description: str) -> Iterator[Callable[[EmbedProgress], None]]:
    """Progress of images on their way to features, with images/s and how many need no work."""
    with progress_bar("{task.fields[rate]:.0f} images/s", "{task.fields[note]}") as bar:
        task = bar.add_task(description, total=None, rate=0.0, note="")

        def report(progress: EmbedProgress) -> None:
            notes = [(progress.n_cached, "from the cache"), (progress.n_skipped, "skipped")]
            note = ", ".join(f"{n:,} {what}" for n, what in notes if n)
            average = progress.done / max(clock() - begun, 1e-3)
            rate = bar.tasks[task].speed or average
            bar.update(task, completed=progress.done, total=progress.total, note=note, rate=rate)
            last["progress"] = progress

        begun = clock()
        last: dict[str, EmbedProgress] = {}
        yield report
    if "progress" in last and last["progress"].n_cached:
        told = last["progress"]
        err.print(f"{told.n_cached:,} of {told.total:,} images had been embedded before")


@contextmanager
def running(description: str) -> Iterator[Callable[[int], None]]:
    """A count with images/s for work whose end is not known; it is told of each batch."""
    columns = ("{task.completed:,.0f} images", "{task.fields[rate]:.0f} images/s")
    with progress_bar(*columns, is_counted=False) as bar:
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

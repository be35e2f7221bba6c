"""Progress on stderr, results on stdout."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from sala.encoders import EmbedProgress
from sala.ranks import Ranks
from sala.runconfig import RunConfig
from sala.runs import Watch
from sala.train import Record, TrainState

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def progress_bar(*columns: str) -> Progress:
    texts = [TextColumn(column) for column in columns]
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *texts, TimeRemainingColumn(), console=err,
        transient=True,
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
            notes = [(progress.n_cached, "from the cache"), (progress.n_set_aside, "set aside")]
            note = ", ".join(f"{n:,} {what}" for n, what in notes if n)
            rate = bar.tasks[task].speed or 0.0
            bar.update(task, completed=progress.done, total=progress.total, rate=rate, note=note)

        yield report


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


@contextmanager
def quiet() -> Iterator[Watch]:
    """For the processes of a training that print nothing; they can be stopped like the first."""
    with interruptible(tell=False) as should_stop:
        yield Watch(should_stop=should_stop, on_warning=lambda _: None)


@contextmanager
def watching(config: RunConfig, label: str = "") -> Iterator[Watch]:
    """The view of a training: a bar with loss, validation accuracy, episodes/s and time left; a line a validation."""
    with progress_bar("loss {task.fields[loss]:.3f}", "val {task.fields[val]}", "{task.fields[rate]:.1f} ep/s") as bar:
        label = escape(label or config.method)
        task = bar.add_task(f"training {label}", total=config.budget.n_episodes, loss=0.0, val="-", rate=0.0)
        smooth = _Smooth()
        data_task: TaskID | None = None

        def on_data(done: int, total: int) -> None:
            nonlocal data_task
            if should_stop():
                raise KeyboardInterrupt  # there is no training yet that could be stopped cleanly
            if data_task is None:
                data_task = bar.add_task(
                    f"preparing {config.protocol.dataset}", total=total, loss=0.0, val="-", rate=0.0
                )
            bar.update(data_task, completed=done, visible=done < total)

        def on_episode(state: TrainState, loss: float) -> None:
            speed = bar.tasks[task].speed or 0.0
            bar.update(task, completed=state.episode, loss=smooth(loss), rate=speed)

        def on_record(state: TrainState, record: Record) -> None:
            if record.validation is None:
                return
            mark = "  best so far" if record.is_best else ""
            bar.update(task, val=f"{record.validation.accuracy:.2f} %")
            err.print(
                f"{label}  episode {record.episode:,}  loss {record.loss:.4f}  val {record.validation.interval}{mark}"
            )

        with interruptible() as should_stop:
            yield Watch(on_data, on_episode, on_record, should_stop, warn)


def view(config: RunConfig, ranks: Ranks) -> AbstractContextManager[Watch]:
    """The first of several processes shows the training; the others are quiet."""
    return watching(config) if ranks.is_first else quiet()


class _Smooth:
    """A running mean, so that the shown loss can be read."""

    def __init__(self) -> None:
        self.value: float | None = None

    def __call__(self, value: float) -> float:
        self.value = value if self.value is None else 0.98 * self.value + 0.02 * value
        return self.value


@contextmanager
def interruptible(tell: bool = True) -> Iterator[Callable[[], bool]]:
    """Ctrl-C (or SIGTERM) asks for a clean stop; a second one stops at once."""
    asked = threading.Event()

    def ask(signum: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        if tell:
            err.print("stopping after this episode; once more to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before: dict[signal.Signals, Any] = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


def fail(message: str) -> None:
    """One sentence on stderr, then a non-zero exit."""
    err.print(f"[bold red]error:[/] {escape(' '.join(message.splitlines()))}")
    sys.exit(1)

"""The view of a training: what it shows while it runs, and how it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

from rich.markup import escape
from rich.progress import TaskID

from sala.cli.console import err, progress_bar, warn
from sala.data.memory import keep_freed_memory
from sala.nn.distributed import Ranks
from sala.training.config import RunConfig
from sala.training.loop import Record, TrainState
from sala.training.run import Watch


@contextmanager
def quiet() -> Iterator[Watch]:
    """For the processes of a training that print nothing; they can be stopped like the first."""
    keep_freed_memory()
    with interruptible(tell=False) as should_stop:
        yield Watch(should_stop=should_stop, on_warning=lambda _: None)


@contextmanager
def watching(config: RunConfig, label: str = "") -> Iterator[Watch]:
    """The view of a training: loss, validation accuracy, episodes/s and time left; a line a validation."""
    keep_freed_memory()
    with progress_bar("{task.fields[note]}") as bar:
        label = escape(label or config.method)
        task = bar.add_task(f"training {label}", total=config.budget.n_episodes, note="")
        smooth, val = _Smooth(), "-"
        data_task: TaskID | None = None

        def on_data(done: int, total: int) -> None:
            nonlocal data_task
            if should_stop():
                raise KeyboardInterrupt  # there is no training yet that could be stopped cleanly
            if data_task is None:
                data_task = bar.add_task(f"preparing {config.protocol.dataset}", total=total, note="images")
            bar.update(data_task, completed=done, visible=done < total)

        def on_episode(state: TrainState, loss: float) -> None:
            speed = next(one for one in bar.tasks if one.id == task).speed or 0.0
            note = f"loss {smooth(loss):.3f}  val {val}  {speed:.1f} ep/s"
            bar.update(task, completed=state.episode, note=note)

        def on_record(state: TrainState, record: Record) -> None:
            nonlocal val
            if record.validation is None:
                return
            mark = "  best so far" if record.is_best else ""
            val = f"{record.validation.accuracy:.2f} %"
            err.print(
                f"{label}  episode {record.episode:,}  loss {record.loss:.4f}  val {record.validation.interval}{mark}"
            )

        with interruptible() as should_stop:
            yield Watch(on_data, on_episode, on_record, should_stop, warn, lambda note: err.print(note, markup=False))


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
    is_asked = False  # no Event: its lock would wait for itself if the second signal came while the first is taken

    def ask(signum: int, frame: FrameType | None) -> None:
        nonlocal is_asked
        if is_asked:
            raise KeyboardInterrupt
        is_asked = True
        if tell:
            err.print("stopping after this episode; once more to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before: dict[signal.Signals, Any] = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: is_asked
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)

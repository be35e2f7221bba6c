"""How a training in Python is shown while it goes on: a bar in a terminal or notebook, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from sala.training.loop import Record, TrainState

    OnEpisode = Callable[[TrainState, float], None]
    OnRecord = Callable[[TrainState, Record], None]

SHORT = 5.0  # seconds: a training that ends sooner leaves no lines in a log


class Shown:
    """Those who are told of a training: the caller's own functions, and the progress on stderr if `is_shown`."""

    def __init__(
        self, n_episodes: int, *, is_shown: bool, on_episode: OnEpisode | None = None, on_record: OnRecord | None = None
    ):
        self.n_episodes, self.on_episode, self.on_record = n_episodes, on_episode, on_record
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=not is_shown)
        has_bar = is_shown and (self.console.is_terminal or self.console.is_jupyter)
        columns = (TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
        self.bar = Progress(*columns, TimeRemainingColumn(), console=self.console, transient=True, disable=not has_bar)
        self.task = self.bar.add_task("", total=n_episodes, note="")
        self.has_bar, self.has_lines, self.begun = has_bar, is_shown and not has_bar, time.monotonic()
        self.accuracy = ""

    def __enter__(self) -> Shown:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def episode(self, state: TrainState, loss: float) -> None:
        """After each step."""
        if self.has_bar:
            self.bar.update(self.task, completed=state.episode, note=f"loss {loss:.3f}{self.accuracy}")
        if self.on_episode:
            self.on_episode(state, loss)

    def record(self, state: TrainState, record: Record) -> None:
        """After each validation."""
        self.accuracy = "" if record.validation is None else f"  val {record.validation.interval}"
        if self.has_lines and time.monotonic() - self.begun > SHORT:
            done = f"episode {record.episode:,} of {self.n_episodes:,}"
            self.console.print(f"{done}  loss {record.loss:.4f}{self.accuracy}", markup=False)
        if self.on_record:
            self.on_record(state, record)

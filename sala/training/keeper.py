"""What happens beside a training: checkpoints and the log are written, and those who watch are told."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sala.methods import Method
from sala.training.checkpoint import check_finite, optimizer_tensors, position_of, save_checkpoint
from sala.training.folder import CHECKPOINTS
from sala.training.log import RunLog
from sala.training.loop import Record, TrainState

SAVE_EVERY = 30.0  # seconds; when to save has no influence on what is computed


@dataclass(frozen=True)
class Watch:
    """Who is told about a training while it goes on, and may stop it. All are optional.

    Parameters
    ----------
    on_data : callable, optional
        Told of images on their way into the store: how many, and of how many.
    on_episode : callable, optional
        Told of the state and the loss after each step.
    on_record : callable, optional
        Told of the state and the `Record` of each validation.
    should_stop : callable
        Asked after each step; at True the run is saved, to be continued by `resume_run`.
    on_warning, on_note : callable
        Told, in a sentence, what is odd and what goes as it should.

    Examples
    --------
    >>> import sala, tempfile
    >>> config = sala.RunConfig("protonet", sala.PROTOCOLS["glyphs"], sala.Budget(4, 2, 2), threads=1)
    >>> episodes = []
    >>> watch = sala.Watch(on_episode=lambda state, loss: episodes.append(state.episode))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     state = sala.start_run(f"{place}/run", config, watch)
    >>> episodes
    [1, 2, 3, 4]
    """

    on_data: Callable[[int, int], None] | None = None
    on_episode: Callable[[TrainState, float], None] | None = None
    on_record: Callable[[TrainState, Record], None] | None = None
    should_stop: Callable[[], bool] = lambda: False
    on_warning: Callable[[str], None] = warnings.warn
    on_note: Callable[[str], None] = lambda _: None  # what goes as it should


class Keeper:
    """Keeps a training on disk while it goes on, and tells those who watch it. Without a log it is one of the processes that
    write nothing."""

    def __init__(self, folder: Path, method: Method, log: RunLog | None, watch: Watch):
        self.folder, self.method, self.log, self.watch = folder, method, log, watch
        self.saved_at = time.monotonic()

    def on_episode(self, state: TrainState, loss: float) -> None:
        if time.monotonic() - self.saved_at > SAVE_EVERY:
            self.save(state)
        if self.watch.on_episode:
            self.watch.on_episode(state, loss)

    def on_record(self, state: TrainState, record: Record) -> None:
        if self.log is None:
            return
        if record.is_best:
            check_finite(self.method)
            save_checkpoint(self.folder / "best.safetensors", self.method.state_dict(), _note(self.method, state))
        self.log.write(record)
        self.save(state)
        if self.watch.on_record:
            self.watch.on_record(state, record)

    def save(self, state: TrainState) -> None:
        if self.log is None:
            return
        check_finite(self.method)
        tensors = {**self.method.state_dict(), **optimizer_tensors(self.method, state)}
        last, previous = (self.folder / name for name in CHECKPOINTS)
        save_checkpoint(last, tensors, _note(self.method, state), previous=previous)
        self.saved_at = time.monotonic()


def _note(method: Method, state: TrainState) -> dict[str, Any]:
    return {**position_of(state), "image_shape": method.backbone.image_shape}

"""One run of a sweep, as a function of a process of its own: train it, or go on with it, test it and keep its record.

The process stops, with its checkpoint saved, as soon as the other end of its line is closed: by the sweep, or by its death.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from sala.data.memory import keep_freed_memory
from sala.errors import SalaError
from sala.reproduction.plan import Run
from sala.reproduction.records import check_same, record_run
from sala.training.config import read_config
from sala.training.folder import has_checkpoint
from sala.training.log import episodes_done
from sala.training.run import Watch, resume_run, start_run


class Stopped(SalaError):
    """The run was asked to stop before its end; it can be continued."""


def work(run: Run, folder: Path, out: Path, root: str | None, log: Path, line: Connection) -> None:
    """The body of the process. What it says goes to `log`; its exit code tells whether the run is recorded."""
    signals: list[int] = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal: the sweep decides
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    _write_into(log)
    keep_freed_memory()
    torch.set_num_threads(1)
    try:
        train_and_record(run, folder, out, root, lambda: bool(signals) or line.poll())
    except SalaError as error:
        sys.exit(str(error))


def train_and_record(run: Run, folder: Path, out: Path, root: str | None, should_stop: Callable[[], bool]) -> None:
    """Train a run to its end, from its beginning or its last checkpoint, then measure and record it."""

    def check(*_: int) -> None:
        if should_stop():
            raise Stopped(f"{run.name} was stopped; the next sweep goes on with it")

    place, watch = Path(root) if root else None, Watch(should_stop=should_stop)
    if has_checkpoint(folder):
        check_same(folder / "config.json", read_config(folder), run)
    if episodes_done(folder) < run.config.budget.n_episodes:
        if has_checkpoint(folder):
            resume_run(folder, watch, root=place)
        else:
            start_run(folder, replace(run.config, root=root), watch)
    check()
    record_run(run, folder, out, root=place, progress=check)


def _write_into(log: Path) -> None:
    """Output, of libraries too, goes to a file: the sweep's table has the terminal."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)

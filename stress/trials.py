"""Trials by kind, shared out to lanes: forks that go through their part one by one and write down what came of it."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from stress.children import die_with_parent

NOT_TRIED = "not tried: the time was over"


@dataclass(frozen=True)
class Trial:
    """Something to try, given a folder of its own: returns what is wrong, or None. A batch of several has their names, and
    returns that for each. `again` is the command that tries one alone, with the words of its name."""

    kind: str
    name: str
    attempt: Callable[[Path], str | dict[str, str | None] | None]
    again: str = ""
    batch: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.batch or (self.name,)


@dataclass(frozen=True)
class Outcome:
    kind: str
    name: str
    problem: str | None = None
    again: str = ""
    was_tried: bool = True
    seconds: float = 0.0


def run_trials(trials: Sequence[Trial], folder: Path, deadline: float, n_lanes: int = 2) -> list[Outcome]:
    """Every n-th trial to each lane. What a lane did not come to before the deadline was not tried."""
    begun = {_start_lane(trials[i::n_lanes], folder / f"lane{i}", deadline): i for i in range(n_lanes)}
    outcomes: dict[str, Outcome] = {}
    for pid, i in begun.items():
        _wait(pid, deadline + 120)  # one trial may have begun just before
        outcomes |= {outcome.name: outcome for outcome in _read(folder / f"lane{i}" / "outcomes.jsonl")}
    wanted = [(trial, name) for trial in trials for name in trial.names]
    return [outcomes.get(name) or Outcome(t.kind, name, NOT_TRIED, t.again, was_tried=False) for t, name in wanted]


def _start_lane(trials: Sequence[Trial], folder: Path, deadline: float) -> int:
    folder.mkdir(parents=True)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            die_with_parent()
            _run_lane(trials, folder, deadline)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def _run_lane(trials: Sequence[Trial], folder: Path, deadline: float) -> None:
    with (folder / "outcomes.jsonl").open("w") as file:
        for trial in trials:
            if time.monotonic() > deadline:
                return
            file.writelines(json.dumps(asdict(outcome)) + "\n" for outcome in _tried(trial, folder))
            file.flush()


def _tried(trial: Trial, folder: Path) -> list[Outcome]:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as own:
        try:
            found = trial.attempt(Path(own))
        except Exception as error:  # a fault of the suite is no success
            found = f"the trial itself failed: {type(error).__name__}: {error} {_place(error)}"
    problems = found if isinstance(found, dict) else dict.fromkeys(trial.names, found)
    seconds = (time.monotonic() - begun) / len(problems)
    return [
        Outcome(trial.kind, name, p, trial.again.format(*name.split()), seconds=seconds) for name, p in problems.items()
    ]


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


def _read(path: Path) -> list[Outcome]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [Outcome(**json.loads(line)) for line in lines]


def _wait(pid: int, deadline: float) -> None:
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)  # its children die with it
            os.waitpid(pid, 0)
            return
        time.sleep(0.05)

"""The time that runs will take on this machine, from a few steps of each kind of run."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from sala.data import ImageStore
from sala.reproduction.plan import Run
from sala.reproduction.runner import Job
from sala.training.beginning import fresh_method, training_sampler
from sala.training.loop import TrainState, train

OVERHEAD = 1.1  # a tenth for validation and test


@dataclass(frozen=True)
class Cost:
    """What is left to do: the expected seconds of each job, on one thread. A training that two jobs share counts once."""

    seconds: Mapping[str, float]  # by name of the run

    @property
    def core_seconds(self) -> float:
        return sum(self.seconds.values())

    def wall_seconds(self, n_jobs: int) -> float:
        """With `n_jobs` at a time; never less than the longest run."""
        return max(self.core_seconds / n_jobs, max(self.seconds.values(), default=0.0))


def expected_cost(
    jobs: Sequence[Job],
    stores: Mapping[str, ImageStore],
    *,
    n_steps: int = 4,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Cost:
    """The cost of jobs; each kind of run is measured once, by `n_steps` of its training steps."""
    kinds = {_kind(job.run): job.run for job in jobs}
    whole: dict[Hashable, float] = {}
    for kind, run in kinds.items():
        progress(len(whole), len(kinds))
        whole[kind] = expected_seconds(run, stores[run.cell.dataset], n_steps)
    seconds, seen = {}, set()
    for job in jobs:
        left = 1 - min(1.0, job.episode / job.run.config.budget.n_episodes)
        seconds[job.run.name] = 0.0 if job.folder in seen else left * whole[_kind(job.run)]
        seen.add(job.folder)
    return Cost(seconds)


def _kind(run: Run) -> Hashable:
    """Runs of one kind take the same time: another seed or another scale of distances costs nothing."""
    config = run.config
    return (config.protocol.dataset, config.method, *config.options.items(), config.protocol.train, config.budget)


def expected_seconds(run: Run, store: ImageStore, n_steps: int = 4) -> float:
    """The seconds of a whole training on one thread, or on the GPU if there is one."""
    config, marks = run.config, [time.perf_counter()]
    threads = torch.get_num_threads()

    def mark(state: TrainState, loss: float) -> None:
        marks.append(time.perf_counter())

    torch.set_num_threads(1)
    try:
        method, sampler = fresh_method(config, store), training_sampler(config, store)
        train(method, sampler, config.train, on_episode=mark, should_stop=lambda: len(marks) > n_steps)
    finally:
        torch.set_num_threads(threads)
    seconds = [after - before for before, after in pairwise(marks)]
    return OVERHEAD * min(seconds[1:] or seconds) * config.budget.n_episodes  # the first step compiles

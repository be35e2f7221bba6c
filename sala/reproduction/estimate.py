"""The time that a run will take on this machine, from a few of its steps."""

from __future__ import annotations

import time
from itertools import pairwise

import torch

from sala.data import ImageStore
from sala.reproduction.plan import Run
from sala.training.loop import TrainState, train
from sala.training.run import training_sampler

OVERHEAD = 1.1  # a tenth for validation and test


def expected_seconds(run: Run, store: ImageStore, n_steps: int = 4) -> float:
    """The seconds of a whole training on one thread."""
    config, marks = run.config, [time.perf_counter()]
    threads = torch.get_num_threads()

    def mark(state: TrainState, loss: float) -> None:
        marks.append(time.perf_counter())

    torch.set_num_threads(1)
    try:
        method = config.build_method(store.image_shape)
        sampler = training_sampler(config, store)
        train(method, sampler, config.train, on_episode=mark, should_stop=lambda: len(marks) > n_steps)
    finally:
        torch.set_num_threads(threads)
    seconds = [after - before for before, after in pairwise(marks)]
    return OVERHEAD * min(seconds[1:] or seconds) * config.budget.n_episodes  # the first step compiles

"""What measurements are made of: rows with targets, medians in turns, noise as data, a training step to repeat."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from sala.data import ImageStore
from sala.data.build import build_store
from sala.data.store import ClassEntry, Source
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.episodes.task import Task
from sala.errors import SalaError
from sala.methods import Method, build_method
from sala.nn.backbones import build_backbone
from sala.training.loop import TrainState
from sala.training.schedule import TrainConfig
from sala.training.step import gradients, step


class Setting(NamedTuple):
    shape: EpisodeShape  # of a training episode
    channels: int


SIZES = {  # omniglot's, tiny-tiered's, miniImageNet's
    28: Setting(EpisodeShape(5, 1, 1, 5), 1),
    32: Setting(EpisodeShape(5, 1, 5, 15), 3),
    84: Setting(EpisodeShape(5, 1, 5, 15), 3),
}


@dataclass(frozen=True)
class Row:
    """One figure: a ratio, what it is of, and what it should be."""

    name: str
    value: float
    target: str = ""
    note: str = ""
    series: tuple[tuple[float, float], ...] = ()  # what the value was fitted to: (number, seconds)

    @property
    def is_met(self) -> bool | None:
        if not self.target:
            return None
        sign, limit = self.target.split()
        bound = float(limit.replace(",", ""))
        return self.value <= bound if sign == "<=" else self.value >= bound


Section = tuple[str, list[Row]]


def measure(actions: dict[str, Callable[[], Any]], seconds: float = 6.0, least: int = 5) -> dict[str, float]:
    """The median time of each action, taken in turns so that a busy moment falls on all of them. In seconds."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()  # compiled, allocated, in the cache
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < least:
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def new_method(name: str, store: ImageStore, **options: Any) -> Method:
    torch.manual_seed(0)
    return build_method(name, build_backbone("conv4", store.image_shape), options).train()


def stepper(method: Method, sampler: EpisodeSampler) -> Callable[[], None]:
    config = TrainConfig(n_episodes=10**6)
    state = TrainState.fresh(method, config)
    episode = sampler.episode(0, with_unlabeled=method.trains_on_unlabeled)
    method.prepare(episode.task)

    def one() -> None:
        for player, optimizer in state.optimizers.items():
            gradients(method, player, [(10**6 - 1, episode)], 1.0, config)
            step(optimizer, 1e-4)

    return one


class Elsewhere:
    """An action in another process, done on request: what it costs where nothing of this process helps it.

    `code` leaves the action in `step`.
    """

    def __init__(self, code: str):
        loop = (
            "import sys\nprint('ready', flush=True)\nfor _ in sys.stdin:\n    step()\n    print('done', flush=True)\n"
        )
        program = f"import torch\ntorch.set_num_threads({torch.get_num_threads()})\n{code}\n{loop}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=Path(__file__).parents[1],
        )
        self._expect("ready")

    def do(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self._expect("done")

    def _expect(self, word: str) -> None:
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != word:
            raise SalaError("the process that measures for comparison has ended; its message is above")

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def random_store(size: int, channels: int, *, n_classes: int = 24, n_images: int = 40, folder: Path) -> ImageStore:
    """Noise in the layout of a dataset."""
    shape = (size, size, channels)
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (7, *shape), dtype=np.uint8)
    classes = [ClassEntry(f"class {c}", "train", n_images) for c in range(n_classes)]
    images = ((c, picture[(c + i) % 7]) for c in range(n_classes) for i in range(n_images))
    return build_store(folder / f"noise{size}", "noise", Source(classes, images, shape))


def feature_task(shape: EpisodeShape, d: int, n_tasks: int) -> Task:
    """A batch of tasks of random embeddings; squared distances are about 1, the class radius of Soft k-Means+Cluster."""
    n = shape.n_way
    scale = (6 / d) ** 0.5  # the mean squared difference of two uniform numbers is 1/6
    sizes = (n * shape.n_shot, (n + shape.n_distractor) * shape.n_unlabeled, n * shape.n_query)
    support, unlabeled, query = (scale * torch.rand(n_tasks, size, d) for size in sizes)
    labels = torch.arange(n).repeat_interleave(shape.n_shot).expand(n_tasks, -1)
    return Task(support, labels, unlabeled, query, n)

"""What things cost, as ratios within one run: machines differ and are busy, a ratio of two interleaved measurements holds.

`sala bench` prints a table a section and keeps everything as JSON.
"""

from __future__ import annotations

import copy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sala.backbones import Conv4, ConvBlock, Identity, build_backbone
from sala.data import ImageStore, load_dataset
from sala.data.store import ClassEntry, Source, build_store
from sala.episode import Task
from sala.errors import SalaError
from sala.evaluate import Embeddings, evaluate
from sala.methods import METHODS, Method, build_method
from sala.protocol import PROTOCOLS, EpisodeShape
from sala.sampler import EpisodeSampler
from sala.train import TrainConfig, TrainState, gradients, step


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


def training_steps(seconds: float) -> Iterator[Section]:
    """A whole training step of SALA (episode at hand; loss, gradients, Adam) against its four convolutions alone, and against
    the same step in plain NCHW PyTorch."""
    for n_threads in (1, 2):
        rows = []
        for size in SIZES:
            with threads(n_threads):
                rows += _step_rows(size, seconds)
        yield f"training step of SALA, {n_threads} thread{'s' if n_threads > 1 else ''}", rows


def _step_rows(size: int, seconds: float) -> list[Row]:
    shape, channels = SIZES[size]
    with tempfile.TemporaryDirectory() as folder:
        store = random_store(size, channels, folder=Path(folder))
        sampler = EpisodeSampler(store, shape, split="train", seed=0, labeled_share=0.5)
        n_images = shape.n_way * (shape.n_shot + shape.n_query + shape.n_unlabeled)
        images = torch.rand(n_images, channels, size, size)
        with Elsewhere(f"from sala.bench import naive_step; step = naive_step({str(store.folder)!r}, {size})") as naive:
            t = measure(
                {
                    "step": stepper(new_method("sala", store), sampler),
                    "naive": naive.do,
                    "nchw": _bare_convolutions(Conv4(channels, size), images, torch.contiguous_format),
                    "nhwc": _bare_convolutions(Conv4(channels, size), images, torch.channels_last),
                    "sampling": lambda: sampler.episode(1),
                },
                seconds,
            )
    note = f"step {1e3 * t['step']:.1f} ms, {n_images} images"
    limit = "<= 1.20" if size == 28 else "<= 1.30"
    return [
        Row(f"{size} px: train_step / bare_convs", t["step"] / min(t["nchw"], t["nhwc"]), limit, note),
        Row(f"{size} px: naive_nchw_step / train_step", t["naive"] / t["step"], ">= 2.0"),
        Row(f"{size} px: sampling / train_step", t["sampling"] / t["step"], "<= 0.03"),
    ]


def new_method(name: str, store: ImageStore, **options: Any) -> Method:
    torch.manual_seed(0)
    return build_method(name, build_backbone("conv4", store.image_shape), options).train()


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
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
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


def naive_step(folder: str, size: int) -> Callable[[], None]:
    """SALA's step as it is usually written: plain network, Adam as it comes, memory as the system gives it."""
    store = ImageStore(folder)
    height, _, channels = store.image_shape
    method = build_method("sala", Plain(channels, height)).train()
    optimizer = torch.optim.Adam(method.parameters(), lr=1e-4)
    episode = EpisodeSampler(store, SIZES[size].shape, split="train", seed=0, labeled_share=0.5).episode(0)

    def one() -> None:
        optimizer.zero_grad()
        loss = method.loss(episode.task, episode.query_labels)
        loss.backward()  # type: ignore[no-untyped-call]
        loss.item()
        optimizer.step()

    return one


class Plain(Conv4):
    """Conv4 as it is usually written: NCHW memory, one operation after the other."""

    def forward(self, images: Tensor, film: Any = None) -> Tensor:
        x = images.contiguous()
        for module in self.blocks:
            block = cast(ConvBlock, module)
            x = F.max_pool2d(F.relu(block.norm(block.conv(x))), 2)
        return x.flatten(1)


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


def _bare_convolutions(network: Conv4, images: Tensor, memory: torch.memory_format) -> Callable[[], None]:
    """The four convolutions, forward and backward, each on an input of its own in the size it has in the network."""
    inputs: list[Tensor] = []
    convolutions: list[nn.Conv2d] = []
    x = images
    for i, block in enumerate(network.blocks):
        convolution = copy.deepcopy(cast(ConvBlock, block).conv)
        convolution.to(memory_format=memory)  # type: ignore[call-overload]
        inputs.append(x.contiguous(memory_format=memory).requires_grad_(i > 0))
        convolutions.append(convolution)
        x = F.max_pool2d(convolution(inputs[-1]).detach(), 2)
    pulls = [torch.randn_like(c(x).detach()) for c, x in zip(convolutions, inputs, strict=True)]

    def one() -> None:
        for convolution, x, pull in zip(convolutions, inputs, pulls, strict=True):
            convolution.zero_grad()
            x.grad = None
            convolution(x).backward(pull)

    return one


def method_steps(seconds: float) -> Iterator[Section]:
    """A training step of each method against Soft k-Means's, on the built-in letters."""
    store, protocol = load_dataset("glyphs"), PROTOCOLS["glyphs"]
    sampler = EpisodeSampler(store, protocol.train, split="train", seed=0, labeled_share=protocol.labeled_share)
    variants: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in METHODS} | {
        "tpn, transductive": ("tpn", {"transductive": True}),
        "tadam, variant B": ("tadam", {"variant": "B"}),
    }
    with threads(1):
        actions = {
            label: stepper(new_method(name, store, **options), sampler) for label, (name, options) in variants.items()
        }
        t = measure(actions, 2 * seconds)
    rows = []
    for label in variants:
        limit = "" if label == "soft-kmeans" else "<= 5.0" if label == "metagan" else "<= 3.0"
        rows.append(Row(f"{label} / soft-kmeans", t[label] / t["soft-kmeans"], limit, f"{1e3 * t[label]:.1f} ms"))
    yield "training step of each method, 28 px, 1 thread", rows


def evaluation(seconds: float) -> Iterator[Section]:
    """Episodes on cached embeddings against embedding each anew, and a whole test of 1,000 episodes against that; on Omniglot
    if it is at hand, else on the built-in letters, which have the same size."""
    dataset, store = _letters()
    sampler = EpisodeSampler(store, PROTOCOLS[dataset].test["ren"], split="test", seed=0)
    rows = []
    for name in METHODS:
        method = new_method(name, store).eval()
        embeddings = Embeddings(method, store)
        t = measure(
            {
                "whole": lambda m=method: evaluate(m, sampler, 1_000),  # type: ignore[misc]
                "cached": lambda m=method, e=embeddings: evaluate(m, sampler, 1_000, embeddings=e),  # type: ignore[misc]
                "anew": lambda m=method: _anew(m, sampler, 100),  # type: ignore[misc]
            },
            seconds,
            least=3,
        )
        whole, anew, cached = t["whole"], t["anew"] / 100, t["cached"] / 1_000
        note = f"{1 / cached:,.0f} episodes/s against {1 / anew:,.0f}"
        rows.append(Row(f"{name}: anew / cached", anew / cached, "" if name == "tpn" else ">= 100", note))
        rows.append(
            Row(
                f"{name}: 1,000 anew / whole test", 1_000 * anew / whole, ">= 3.0", f"{whole:.1f} s with its embeddings"
            )
        )
    yield f"evaluation on {dataset}, drawing of the episodes included", rows
    yield "episodes/s on ready embeddings", [*_head_speed(seconds)]


def _letters() -> tuple[str, ImageStore]:
    try:
        return "omniglot", load_dataset("omniglot")
    except SalaError:
        return "glyphs", load_dataset("glyphs")


def _anew(method: Method, sampler: EpisodeSampler, n_episodes: int) -> None:
    with torch.inference_mode():
        for i in range(n_episodes):
            method.classify(sampler.episode(i).task)


def _head_speed(seconds: float) -> Iterator[Row]:
    settings = {64: (EpisodeShape(5, 1, 14, 5), ">= 2000"), 1600: (EpisodeShape(5, 1, 15, 20), ">= 300")}
    for d, (shape, wanted) in settings.items():
        task = feature_task(shape, d, n_tasks=50)
        for name in METHODS:
            method = build_method(name, Identity(d)).eval()
            with torch.inference_mode():
                t = measure({"": lambda m=method, task=task: m.logits(task)}, seconds / 6)[""]  # type: ignore[misc]
            limit = wanted if name in ("soft-kmeans", "sala") else ""
            yield Row(f"{name}, d = {d}", 50 / t, limit, shape.describe())


def random_store(size: int, channels: int, *, n_classes: int = 24, n_images: int = 40, folder: Path) -> ImageStore:
    """Noise in the layout of a dataset."""
    shape = (size, size, channels)
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (7, *shape), dtype=np.uint8)
    classes = [ClassEntry(f"class {c}", "train", n_images) for c in range(n_classes)]
    images = ((c, picture[(c + i) % 7]) for c in range(n_classes) for i in range(n_images))
    return build_store(folder / f"noise{size}", "noise", Source(classes, images, shape))


def feature_task(shape: EpisodeShape, d: int, n_tasks: int) -> Task:
    """A batch of tasks of random embeddings."""
    n = shape.n_way
    sizes = (n * shape.n_shot, (n + shape.n_distractor) * shape.n_unlabeled, n * shape.n_query)
    support, unlabeled, query = (torch.rand(n_tasks, size, d) for size in sizes)
    labels = torch.arange(n).repeat_interleave(shape.n_shot).expand(n_tasks, -1)
    return Task(support, labels, unlabeled, query, n)

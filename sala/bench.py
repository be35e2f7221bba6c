"""What things cost, as ratios within one run: machines differ and are busy, a ratio of two interleaved measurements holds.

`sala bench` prints a table a section and keeps everything as JSON.
"""

from __future__ import annotations

import copy
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sala import kernels
from sala.backbones import Backbone, Conv4, ConvBlock, Identity, build_backbone
from sala.data import ImageStore, load_dataset
from sala.data.store import ClassEntry, Source, build_store
from sala.episode import Task
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
        t = measure(
            {
                "step": _stepper(_method("sala", store), sampler),
                "naive": _stepper(_method("sala", store, naive=True), sampler),
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


def _method(name: str, store: ImageStore, naive: bool = False, **options: Any) -> Method:
    torch.manual_seed(0)
    backbone: Backbone = build_backbone("conv4", store.image_shape)
    if naive:
        backbone = Plain(store.image_shape[2], store.image_shape[0])
        backbone.image_shape = store.image_shape
    return build_method(name, backbone, options).train()


class Plain(Conv4):
    """Conv4 as it is usually written: NCHW memory, one operation after the other."""

    def forward(self, images: Tensor, film: Any = None) -> Tensor:
        x = images.contiguous()
        for module in self.blocks:
            block = cast(ConvBlock, module)
            x = F.max_pool2d(F.relu(block.norm(block.conv(x))), 2)
        return x.flatten(1)


def _stepper(method: Method, sampler: EpisodeSampler) -> Callable[[], None]:
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
            label: _stepper(_method(name, store, **options), sampler) for label, (name, options) in variants.items()
        }
        t = measure(actions, 2 * seconds)
    rows = []
    for label in variants:
        limit = "" if label == "soft-kmeans" else "<= 5.0" if label == "metagan" else "<= 3.0"
        rows.append(Row(f"{label} / soft-kmeans", t[label] / t["soft-kmeans"], limit, f"{1e3 * t[label]:.1f} ms"))
    yield "training step of each method, 28 px, 1 thread", rows


def evaluation(seconds: float) -> Iterator[Section]:
    """Episodes on cached embeddings against embedding each anew, and a whole test of 1,000 episodes against that."""
    store, shape = load_dataset("glyphs"), PROTOCOLS["glyphs"].test["ren"]
    sampler = EpisodeSampler(store, shape, split="test", seed=0)
    rows = []
    for name in METHODS:
        method = _method(name, store).eval()
        embeddings = Embeddings(method, store)
        whole = _seconds(lambda m=method, e=embeddings: evaluate(m, sampler, 1_000, embeddings=e))  # type: ignore[misc]
        cached = _seconds(lambda m=method, e=embeddings: evaluate(m, sampler, 1_000, embeddings=e))  # type: ignore[misc]
        anew = 1_000 * measure({"": lambda m=method: _one_anew(m, sampler)}, seconds / 4)[""]  # type: ignore[misc]
        note = f"{1_000 / cached:,.0f} episodes/s against {1_000 / anew:,.0f}"
        rows.append(Row(f"{name}: anew / cached", anew / cached, "", note))
        rows.append(
            Row(f"{name}: 1,000 anew / whole test", anew / whole, ">= 3.0", f"{whole:.1f} s with its embeddings")
        )
    yield "evaluation, 28 px, drawing of the episodes included", rows
    yield "episodes/s on ready embeddings", [*_head_speed(seconds)]


def _seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _one_anew(method: Method, sampler: EpisodeSampler) -> None:
    with torch.inference_mode():
        method.classify(sampler.episode(0).task)


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


def storage(seconds: float) -> Iterator[Section]:
    """Building and opening the store, and the memory that a training needs beyond the page cache, at two sizes of store: what
    grows with the store is extrapolated to tieredImageNet's 448,695 images."""
    memory, sizes = [], (4_500, 45_000)
    for n_images in sizes:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            store = random_store(84, 3, n_classes=90, n_images=n_images // 90, folder=Path(folder))
            built = time.perf_counter() - start
            opening = measure({"": lambda store=store: ImageStore(store.folder)}, seconds / 6)[""]  # type: ignore[misc]
            memory.append(training_memory(store.folder) / 2**30)
    growth = (memory[1] - memory[0]) / (sizes[1] - sizes[0])
    yield (
        "image store and memory, 84 px",
        [
            Row("build: MB/s", sizes[1] * 84 * 84 * 3 / built / 1e6, "", f"{sizes[1]:,} images in {built:.1f} s"),
            Row("open: ms", 1e3 * opening, "", f"{sizes[1]:,} images"),
            *(
                Row(f"training SALA on {n:,} images: GiB", used, "<= 4.0", "anonymous memory at its peak")
                for n, used in zip(sizes, memory, strict=True)
            ),
            Row(
                "the same on 448,695 images: GiB",
                memory[1] + max(0.0, growth) * (448_695 - sizes[1]),
                "<= 4.0",
                "extrapolated",
            ),
        ],
    )


def training_memory(store: Path) -> int:
    """Anonymous memory at its peak, in bytes, of a process that trains SALA on the store. Mapped images do not count: they
    are the page cache's."""
    code = "import sys; from sala.bench import memory_probe; print(memory_probe(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(store)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def memory_probe(folder: str) -> int:
    torch.set_num_threads(1)
    store = ImageStore(folder)
    sampler = EpisodeSampler(store, SIZES[84].shape, split="train", seed=0, labeled_share=0.5)
    one, peak = _stepper(_method("sala", store), sampler), 0
    for i in range(20):
        sampler.episode(i)
        if i < 2:
            one()
        peak = max(peak, anonymous_memory())
    return peak


def anonymous_memory() -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(lines["RssAnon"].split()[0]) * 1024


def random_store(size: int, channels: int, *, n_classes: int = 24, n_images: int = 40, folder: Path) -> ImageStore:
    """Noise in the layout of a dataset."""
    shape = (size, size, channels)
    rng = np.random.default_rng(0)
    picture = rng.integers(0, 256, (7, *shape), dtype=np.uint8)
    classes = [ClassEntry(f"class {c}", "train", n_images) for c in range(n_classes)]
    images = ((c, picture[(c + i) % 7]) for c in range(n_classes) for i in range(n_images))
    return build_store(folder / f"noise{size}", "noise", Source(classes, images, shape))


def growth(seconds: float) -> Iterator[Section]:
    """How the cost of SALA's head grows with ways, shots and unlabelled images: exponents of a fit on a log-log scale."""
    rows = []
    for axis, values in GROWTH.items():  # on one thread: waiting for another has no exponent
        with threads(1):
            points = growth_points(axis, values, seconds / 8)
        exponent = float(np.polyfit(np.log(values), np.log(points), 1)[0])
        note = ", ".join(f"{n}: {1e3 * t:.2f} ms" for n, t in zip(values, points, strict=True))
        rows.append(Row(f"exponent in {axis}", exponent, "<= 2.0" if axis == "n_way" else "<= 1.1", note))
    yield "growth of an episode on ready embeddings (SALA, d = 64)", rows


GROWTH = {"n_way": [5, 10, 20, 40, 80], "n_shot": [1, 5, 25, 125], "n_unlabeled": [5, 20, 80, 320, 1280]}


def growth_points(axis: str, values: list[int], seconds: float) -> list[float]:
    method = build_method("sala", Identity(64)).eval()
    times = []
    for value in values:
        task = feature_task(replace(EpisodeShape(5, 1, 15, 20), **{axis: value}), 64, n_tasks=1)
        with torch.inference_mode():
            times.append(measure({"": lambda task=task: method.logits(task)}, seconds)[""])  # type: ignore[misc]
    return times


def feature_task(shape: EpisodeShape, d: int, n_tasks: int) -> Task:
    """A batch of tasks of random embeddings."""
    n = shape.n_way
    sizes = (n * shape.n_shot, (n + shape.n_distractor) * shape.n_unlabeled, n * shape.n_query)
    support, unlabeled, query = (torch.rand(n_tasks, size, d) for size in sizes)
    labels = torch.arange(n).repeat_interleave(shape.n_shot).expand(n_tasks, -1)
    return Task(support, labels, unlabeled, query, n)


SECTIONS: dict[str, Callable[[float], Iterator[Section]]] = {
    "steps": training_steps,
    "methods": method_steps,
    "evaluation": evaluation,
    "storage": storage,
    "growth": growth,
}


def to_json(sections: list[Section], command: str) -> dict[str, Any]:
    return {
        "command": command,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: version(name) for name in ("sala", "torch", "numpy")},
        "kernels": kernels.describe(),
        "sections": [
            {"title": title, "rows": [{**asdict(row), "is_met": row.is_met} for row in rows]}
            for title, rows in sections
        ],
    }

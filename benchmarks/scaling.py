"""What grows: the store, the memory of a training, an episode with its numbers, several processes on one machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measuring import (
    SIZES,
    Row,
    Section,
    feature_task,
    measure,
    new_method,
    random_store,
    stepper,
    threads,
)
from benchmarks.performance import evaluation, method_steps, training_steps
from sala.data import ImageStore
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.methods import build_method
from sala.nn import kernels
from sala.nn.backbones import Identity
from sala.nn.distributed import ALONE, Ranks, joined
from sala.training.loop import TrainState
from sala.training.schedule import TrainConfig
from sala.training.step import gradients, step

ROOT = Path(__file__).parents[1]


STORE_SIZES = (4_500, 45_000)  # images


def storage(seconds: float) -> Iterator[Section]:
    """Building and opening the store, and the memory that a training needs beyond the page cache, at two sizes of store: what
    grows with the store is extrapolated to tieredImageNet's 448,695 images."""
    memory, sizes = [], STORE_SIZES
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
    code = "import sys; from benchmarks.scaling import memory_probe; print(memory_probe(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(store)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return int(done.stdout)


def memory_probe(folder: str) -> int:
    torch.set_num_threads(1)
    store = ImageStore(folder)
    sampler = EpisodeSampler(store, SIZES[84].shape, split="train", seed=0, labeled_share=0.5)
    one, peak = stepper(new_method("sala", store), sampler), 0
    for i in range(20):
        sampler.episode(i)
        if i < 2:
            one()
        peak = max(peak, anonymous_memory())
    return peak


def anonymous_memory() -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return int(lines["RssAnon"].split()[0]) * 1024


GROWTH = {"n_way": [5, 10, 20, 40], "n_shot": [1, 4, 16, 64], "n_unlabeled": [5, 20, 80, 320]}
START = EpisodeShape(n_way=5, n_shot=1, n_query=5, n_unlabeled=5)


def growth(seconds: float) -> Iterator[Section]:
    """How cost grows with ways, shots and unlabeled images, from 5-way 1-shot with 5 queries and 5 unlabeled images a class:
    a training step at 28 px, and an episode of a test on ready embeddings. Exponents of a fit on a log-log scale."""
    with threads(1), tempfile.TemporaryDirectory() as folder:  # waiting for another thread has no exponent
        store = random_store(28, 1, n_classes=40, n_images=500, folder=Path(folder))
        titles = {
            "growth of a training step of SALA, 28 px": lambda shape: _step_time(store, shape, seconds / 8),
            "growth of a test episode of SALA on ready embeddings, d = 64": lambda shape: _head_time(
                shape, seconds / 8
            ),
        }
        for title, time_of in titles.items():
            yield title, [_growth_row(axis, values, time_of) for axis, values in GROWTH.items()]


def _growth_row(axis: str, values: list[int], time_of: Callable[[EpisodeShape], float]) -> Row:
    times = [time_of(replace(START, **{axis: value})) for value in values]
    exponent = float(np.polyfit(np.log(values), np.log(times), 1)[0])
    note = ", ".join(f"{n}: {1e3 * t:.3g} ms" for n, t in zip(values, times, strict=True))
    limit = "<= 2.0" if axis == "n_way" else "<= 1.1"
    return Row(f"exponent in {axis}", exponent, limit, note, tuple(zip(values, times, strict=True)))


def _step_time(store: ImageStore, shape: EpisodeShape, seconds: float) -> float:
    sampler = EpisodeSampler(store, shape, split="train", seed=0, labeled_share=0.2)
    return measure({"": stepper(new_method("sala", store), sampler)}, seconds, least=3)[""]


def _head_time(shape: EpisodeShape, seconds: float) -> float:
    method, task = build_method("sala", Identity(64)).eval(), feature_task(shape, 64, n_tasks=50)
    with torch.inference_mode():
        return measure({"": lambda: method.logits(task)}, seconds)[""] / 50


def processes(seconds: float) -> Iterator[Section]:
    """Independent trainings side by side, one thread each, against one training on all threads; and a step that two
    processes share against one process with the same two episodes."""
    rows = []
    for size in (28, 32):
        with tempfile.TemporaryDirectory() as folder:
            store = random_store(size, SIZES[size].channels, folder=Path(folder)).folder
            one = _rate(store, size, seconds, n_processes=1, n_threads=2)
            two = _rate(store, size, seconds, n_processes=2, n_threads=1)
        note = f"{two:.1f} against {one:.1f} steps/s"
        rows.append(Row(f"{size} px: 2 runs of 1 thread / 1 run of 2 threads", two / one, ">= 1.0", note))
    yield "several runs on one machine", rows
    yield "one run in two processes (torchrun, gloo)", [_shared_step(size, seconds) for size in (28, 32)]


def _shared_step(size: int, seconds: float) -> Row:
    """The cost model of the docs, t(step) = episodes a process * t(episode) + t(sum of gradients),
    against a measurement."""
    with tempfile.TemporaryDirectory() as folder:
        store = random_store(size, SIZES[size].channels, folder=Path(folder)).folder
        arguments = [str(store), str(size), str(max(1, round(seconds)))]
        program = Path(folder) / "probe.py"
        program.write_text(
            "import sys\nfrom benchmarks.scaling import shared_probe\nshared_probe(*sys.argv[1:])\n", encoding="utf-8"
        )
        alone = _probe([sys.executable, str(program), *arguments])
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        launcher += ["--max-restarts=1"]  # gloo's threads can abort a process that is done (pytorch/pytorch#179291)
        together = _probe([*launcher, str(program), *arguments])
    expected = together["episode"] + together["sum"]
    note = (
        f"step {1e3 * together['step']:.1f} ms, of it {1e3 * together['sum']:.1f} ms for the sum; "
        f"{2 * alone['step'] / together['step']:.2f} times as many episodes/s as alone"
    )
    return Row(f"{size} px: step / its model", together["step"] / expected, "", note)


def _probe(command: list[str]) -> dict[str, float]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }  # torchrun would say that it sets the first
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    times: dict[str, float] = json.loads(done.stdout.splitlines()[-1])  # of the last start
    return times


def shared_probe(folder: str, size: str, seconds: str) -> None:
    """Prints the times of a step with an episode for each process, of the episode alone, and of the sum."""
    torch.set_num_threads(1)
    with joined() as ranks:
        store = ImageStore(folder)
        method, config = new_method("sala", store), TrainConfig(n_episodes=10**6)
        state = TrainState.fresh(method, config)
        sampler = EpisodeSampler(store, SIZES[int(size)].shape, split="train", seed=0, labeled_share=0.5)
        batch = [(ranks.rank, sampler.episode(ranks.rank))]
        optimizer = state.optimizers["classifier"]

        def own(group: Ranks = ALONE) -> None:
            gradients(method, "classifier", batch, 1 / group.world, config, group)
            step(optimizer, 1e-4)

        actions: dict[str, Callable[[], None]] = {
            "step": lambda: own(ranks),
            "episode": own,
            "sum": lambda: ranks.sum(p.grad for p in method.parameters() if p.grad is not None),
        }
        n_rounds = int(seconds) * 10  # the same for all: each waits for the others
        times = {name: statistics.median([_timed(action) for _ in range(n_rounds)]) for name, action in actions.items()}
        if ranks.is_first:
            print(json.dumps(times))


def _timed(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _rate(store: Path, size: int, seconds: float, *, n_processes: int, n_threads: int) -> float:
    """Training steps a second of all processes together."""
    code = (
        "import sys; from benchmarks.scaling import rate_probe; print(rate_probe(sys.argv[1], *map(int, sys.argv[2:])))"
    )
    command = [sys.executable, "-c", code, str(store), str(size), str(n_threads), str(max(1, round(seconds)))]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(n_processes)]
    outputs = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise RuntimeError("a process that measures has failed; its message is above")
    return sum(map(float, outputs))


def rate_probe(folder: str, size: int, n_threads: int, seconds: int) -> float:
    torch.set_num_threads(n_threads)
    store = ImageStore(folder)
    one = stepper(
        new_method("sala", store), EpisodeSampler(store, SIZES[size].shape, split="train", seed=0, labeled_share=0.5)
    )
    for _ in range(5):
        one()
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        one()
        n += 1
    return n / (time.perf_counter() - start)


MEASUREMENTS: dict[str, Callable[[float], Iterator[Section]]] = {
    "steps": training_steps,
    "methods": method_steps,
    "evaluation": evaluation,
    "storage": storage,
    "growth": growth,
    "processes": processes,
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

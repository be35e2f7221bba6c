"""What things cost, as ratios within one run: machines differ and are busy, a ratio of two interleaved measurements holds.

`python -m benchmarks` prints a table per section and writes everything as JSON.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.measuring import (
    SIZES,
    Elsewhere,
    Row,
    Section,
    feature_task,
    measure,
    new_method,
    random_store,
    stepper,
    threads,
)
from sala.data import ImageStore, load_dataset
from sala.episodes.protocol import PROTOCOLS, EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.errors import SalaError
from sala.evaluation.embeddings import Embeddings
from sala.evaluation.evaluate import evaluate
from sala.methods import METHODS, Method, build_method
from sala.nn.backbones import Conv4, ConvBlock, Identity


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
        with Elsewhere(
            f"from benchmarks.performance import naive_step; step = naive_step({str(store.folder)!r}, {size})"
        ) as naive:
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


N_EPISODES, N_ANEW = 1_000, 100  # of a whole test; of those that embed each episode anew


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
                "whole": lambda m=method: evaluate(m, sampler, N_EPISODES),  # type: ignore[misc]
                "cached": lambda m=method, e=embeddings: evaluate(m, sampler, N_EPISODES, embeddings=e),  # type: ignore[misc]
                "anew": lambda m=method: _anew(m, sampler, N_ANEW),  # type: ignore[misc]
            },
            seconds,
            least=3,
        )
        whole, anew, cached = t["whole"], t["anew"] / N_ANEW, t["cached"] / N_EPISODES
        note = f"{1 / cached:,.0f} episodes/s against {1 / anew:,.0f}"
        rows.append(Row(f"{name}: anew / cached", anew / cached, "" if name == "tpn" else ">= 100", note))
        rows.append(
            Row(
                f"{name}: {N_EPISODES:,} anew / whole test",
                N_EPISODES * anew / whole,
                ">= 3.0",
                f"{whole:.1f} s with its embeddings",
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

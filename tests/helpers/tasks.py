"""Small tasks and trainings for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from sala.data import ImageStore
from sala.episodes.protocol import PROTOCOLS, Budget, EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.episodes.task import Task
from sala.evaluation.evaluate import evaluate
from sala.methods import METHODS, Method, build_method
from sala.nn.backbones import Identity, build_backbone
from sala.training.config import RunConfig
from sala.training.loop import TrainConfig, step, train

GLYPHS = PROTOCOLS["glyphs"]
SameByThreads = Callable[[Callable[[], list[torch.Tensor]]], bool]  # the fixture `same_by_threads`


def random_task(
    *, n_way: int = 3, shots: tuple[int, ...] | int = 2, n_unlabeled: int = 7, n_query: int = 4, d: int = 6,
    batch: tuple[int, ...] = (), seed: int = 0, dtype: torch.dtype = torch.float64,
) -> Task:  # fmt: skip
    """Embeddings around class centers; `shots` may differ from class to class."""
    generator = torch.Generator().manual_seed(seed)
    per_class = (shots,) * n_way if isinstance(shots, int) else shots
    labels = torch.cat([torch.full((n,), c) for c, n in enumerate(per_class)])
    centers = 0.8 * torch.randn(*batch, n_way, d, generator=generator, dtype=dtype)

    def around(index: torch.Tensor) -> torch.Tensor:
        noise = 0.5 * torch.randn(*batch, len(index), d, generator=generator, dtype=dtype)
        return centers[..., index, :] + noise

    support = around(labels)
    unlabeled = around(torch.arange(n_unlabeled) % n_way)
    query = around(torch.arange(n_query) % n_way)
    return Task(support, labels.expand(*batch, -1), unlabeled, query, n_way)


def on_features(
    name: str, d: int = 6, *, seed: int = 0, dtype: torch.dtype = torch.float64, **options: object
) -> Method:
    """A method on ready-made embeddings, with fixed random parameters."""
    torch.manual_seed(seed)
    return build_method(name, Identity(d), options).to(dtype).eval()


def images_task(
    n_way: int = 3, n_unlabeled: int = 4, seed: int = 0, batch: tuple[int, ...] = ()
) -> tuple[Task, torch.Tensor]:
    """A one-shot task of random images, two queries a class, and the queries' labels."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.arange(n_way)

    def images(n: int) -> torch.Tensor:
        return torch.randint(0, 256, (*batch, n, 1, 28, 28), generator=g, dtype=torch.uint8)

    task = Task(images(n_way), labels.expand(*batch, -1), images(n_unlabeled), images(2 * n_way), n_way)
    return task, labels.repeat(2).expand(*batch, -1)


def lists(task: Task) -> tuple[list, list, list, list]:  # type: ignore[type-arg]
    """Support, labels, unlabeled and query images for the slow twins."""
    return task.support.tolist(), task.labels.tolist(), task.unlabeled.tolist(), task.query.tolist()


def as_tensor(rows: list[list[float]]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def gradients_agree(method: Method, task: Task) -> None:
    """The gradients to all embeddings and parameters are those of finite differences."""
    method = with_gradients(method)
    parts = [part.clone().requires_grad_() for part in (task.support, task.unlabeled, task.query)]

    def probabilities(support: torch.Tensor, unlabeled: torch.Tensor, query: torch.Tensor, *_: object) -> torch.Tensor:
        return method.logits(Task(support, task.labels, unlabeled, query, task.n_way)).log_softmax(-1)

    assert torch.autograd.gradcheck(probabilities, (*parts, *method.parameters()))


def with_gradients(method: Method) -> Method:
    """The method in training mode, without its parts: norms keep their running statistics."""
    method.training = True
    return method


def descend(method: Method, optimizer: torch.optim.Adam, loss: torch.Tensor, learning_rate: float) -> None:
    """One step on a loss that was computed outside of the loop."""
    method.zero_grad()
    loss.backward()
    step(optimizer, learning_rate)


def slow_but(*quick: str) -> list[Any]:
    """Every method as a parameter of a test; all but the quick ones are slow."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]


def config(method: str = "sala", n_episodes: int = 12, **changes: object) -> RunConfig:
    """Of a short training on glyphs."""
    budget = Budget(n_episodes, validate_every=5, n_validation_episodes=4)
    return replace(RunConfig(method, GLYPHS, budget, seed=3, threads=1), **changes)  # type: ignore[arg-type]


def learns_glyphs(name: str, store: ImageStore, *, n_episodes: int = 80, **options: object) -> None:
    """A short training on letters lifts the accuracy on scripts that were never seen."""
    torch.manual_seed(0)
    method = build_method(name, build_backbone("conv4", store.image_shape), options)
    test = EpisodeSampler(store, EpisodeShape(n_query=5, n_unlabeled=0), split="val", seed=1)
    before = evaluate(method, test, 60)
    episodes = EpisodeSampler(store, GLYPHS.train, split="train", seed=0, labeled_share=GLYPHS.labeled_share)
    train(method, episodes, TrainConfig(n_episodes=n_episodes, validate_every=n_episodes))
    gain = evaluate(method, test, 60).minus(before)
    assert gain.mean > gain.ci95, f"{name}: {gain}"

"""Measurement: every image is embedded once, then the episodes run in batches on the embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sala.batches import answers_of, in_parts, task_of
from sala.data import ImageStore
from sala.episode import Episode, Task
from sala.errors import SalaError, at_least
from sala.methods import Method
from sala.methods.base import image_shape_of
from sala.methods.entry import trusted
from sala.protocol import EpisodeShape
from sala.ranks import ALONE, Ranks
from sala.sampler import EpisodeRows, EpisodeSampler, Rows, build_episode, images_of

EMBEDDING_BATCH = 128  # images; larger batches leave the processor's cache
EPISODE_BATCH = 50


@dataclass(frozen=True)
class Interval:
    """A mean over episodes with the half-width of its 95 % interval, both in percent."""

    mean: float
    ci95: float

    @classmethod
    def of(cls, shares: Iterable[float]) -> Interval:
        values = 100 * np.asarray(list(shares), dtype=np.float64)
        spread = values.std(ddof=1) if len(values) > 1 else math.nan
        return cls(float(values.mean()), float(1.96 * spread / math.sqrt(len(values))))

    def __str__(self) -> str:
        return f"{self.mean:.2f} %" if math.isnan(self.ci95) else f"{self.mean:.2f} ± {self.ci95:.2f} %"


@dataclass(frozen=True)
class Result:
    """Accuracies of a method on a fixed list of episodes."""

    accuracies: tuple[float, ...]  # share of right queries, one number an episode
    shape: EpisodeShape
    split: str
    episodes: str  # which episodes they were: EpisodeSampler.identity
    pseudo_labels: dict[str, float] = field(default_factory=dict)
    diagnostics: dict[str, float] = field(default_factory=dict)

    @property
    def interval(self) -> Interval:
        return Interval.of(self.accuracies)

    @property
    def accuracy(self) -> float:
        """Mean accuracy in percent."""
        return self.interval.mean

    def __str__(self) -> str:
        return f"{self.interval} over {len(self.accuracies):,} episodes ({self.shape.describe()}; {self.split} classes)"

    def minus(self, other: Result) -> Interval:
        """The paired difference: the same episodes, so most of the noise is in both and cancels."""
        if self.episodes != other.episodes or len(self.accuracies) != len(other.accuracies):
            raise SalaError(
                "a paired difference needs the same episodes of the same data; these two results have others"
            )
        return Interval.of(np.subtract(self.accuracies, other.accuracies))

    def to_json(self) -> dict[str, Any]:
        interval = self.interval
        half = None if math.isnan(interval.ci95) else interval.ci95  # one episode has no interval, and JSON no nan
        return {"accuracy": interval.mean, "ci95": half, "n_episodes": len(self.accuracies), **asdict(self)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Result:
        return cls(
            accuracies=tuple(content["accuracies"]),
            shape=EpisodeShape(**content["shape"]),
            split=content["split"],
            episodes=content["episodes"],
            pseudo_labels=content["pseudo_labels"],
            diagnostics=content["diagnostics"],
        )


def evaluate(
    method: Method,
    sampler: EpisodeSampler,
    n_episodes: int = 1_000,
    *,
    progress: Callable[[int, int], None] | None = None,
    embeddings: Embeddings | None = None,
) -> Result:
    """The accuracy of a method on episodes 0 .. n - 1 of a sampler. Puts the method in evaluation mode for the time.

    `embeddings`, handed to several calls, lets them share what is embedded already. Episodes go in batches where the method
    takes them: see `sala.batches`.
    """
    at_least(1, n_episodes, "the number of episodes")
    _check_fits(method, sampler.store)
    embeddings = embeddings or Embeddings(method, sampler.store)
    was_training = method.training
    method.eval()
    try:
        with torch.inference_mode(), trusted(method):  # a sampler's tasks are right by construction
            batches = embedded_episodes(embeddings, sampler, n_episodes, progress=progress)
            measured = [_measure(method, part) for part in in_parts(method, batches)]
    finally:
        method.train(was_training)
    columns = {key: np.concatenate([m[key] for m in measured]) for key in measured[0]}
    accuracies = tuple(map(float, columns.pop("accuracy")))
    diagnostics = {key[1:]: float(np.mean(columns.pop(key))) for key in list(columns) if key.startswith("@")}
    return Result(accuracies, sampler.shape, sampler.split, sampler.identity, _pool(columns), diagnostics)


def _check_fits(method: Method, store: ImageStore) -> None:
    shape = image_shape_of(method)
    if shape is not None and shape != store.image_shape:
        raise SalaError(
            f"{type(method).__name__} takes images [H, W, C] = {list(shape)}, and {store.name} has "
            f"{list(store.image_shape)}; build its backbone for store.image_shape, or load the dataset in that size"
        )


def embedded_episodes(
    embeddings: Embeddings,
    sampler: EpisodeSampler,
    n_episodes: int,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Episode]:
    """Batches of episodes whose points are embeddings; each image of the store passes the network once, unless its
    embedding depends on the task."""
    rows = sampler.batch(0, n_episodes)
    if embeddings.method.embeds_per_task:
        yield from _embedded_per_task(embeddings, rows, sampler.shape.n_way, progress)
        return
    points = rows.points
    is_used = np.zeros(len(sampler.store.images), bool)
    is_used[points] = True
    table = embeddings.of(np.flatnonzero(is_used), progress=progress)
    index = torch.from_numpy((np.cumsum(is_used) - 1)[points])
    for start in range(0, n_episodes, EPISODE_BATCH):
        batch = slice(start, start + EPISODE_BATCH)
        yield build_episode(rows[batch], table[index[batch].to(table.device)], sampler.shape.n_way)


def _embedded_per_task(
    embeddings: Embeddings, rows: EpisodeRows, n_way: int, progress: Callable[[int, int], None] | None
) -> Iterator[Episode]:
    """One episode at a time; the progress counts their images."""
    points = rows.points
    for i in range(len(points)):
        images = images_of(embeddings.store, points[i]).to(embeddings.method.device)
        episode = build_episode(rows[i : i + 1], images[None], n_way)
        yield replace(episode, task=_embedded(embeddings.method, episode.task))
        if progress:
            progress((i + 1) * points.shape[1], points.size)


def _embedded(method: Method, tasks: Task) -> Task:
    """A batch of one task, embedded; as a task without a batch dimension, as in training, unless the method takes batches."""
    if method.batched:
        return method.embed(tasks)
    task = method.embed(task_of(tasks, 0))
    return replace(tasks, **{name: getattr(task, name)[None] for name in ("support", "unlabeled", "query")})


class Embeddings:
    """Embeddings of a store's images by a trained method; each image passes the network once, when it is first asked for."""

    def __init__(self, method: Method, store: ImageStore, ranks: Ranks = ALONE):
        self.method, self.store, self.ranks = method, store, ranks
        self._known: Rows = np.empty(0, np.int64)  # sorted
        self._table: Tensor | None = None

    def of(self, rows: Rows, *, progress: Callable[[int, int], None] | None = None) -> Tensor:
        """[n, d], for sorted rows of the store without repetition."""
        missing = np.setdiff1d(rows, self._known, assume_unique=True)
        if len(missing):
            fresh = self._embed(missing, progress)
            known = np.concatenate([self._known, missing])
            order = known.argsort()
            table = fresh if self._table is None else torch.cat([self._table, fresh])
            self._known, self._table = known[order], table[torch.from_numpy(order).to(table.device)]
        assert self._table is not None
        return self._table[torch.from_numpy(np.searchsorted(self._known, rows)).to(self._table.device)]

    def _embed(self, rows: Rows, progress: Callable[[int, int], None] | None) -> Tensor:
        """Each process embeds its share of the batches; all have the whole table in the end."""
        device = self.method.device
        table = torch.zeros(len(rows), self.method.backbone.out_dim, device=device)
        starts = range(0, len(rows), EMBEDDING_BATCH)
        for _, start in self.ranks.share(starts):
            images = images_of(self.store, rows[start : start + EMBEDDING_BATCH])
            points = self.method.embed_images(images.to(device))
            if points.shape != (len(images), table.shape[1]):  # a method may embed in its own way
                table = table.new_zeros(len(rows), *points.shape[1:])
            table[start : start + EMBEDDING_BATCH] = points
            if progress:
                progress(min(start + EMBEDDING_BATCH, len(rows)), len(rows))
        self.ranks.sum([table])
        return table


def _measure(method: Method, episodes: Episode) -> dict[str, np.ndarray[Any, np.dtype[Any]]]:
    """One number an episode: the accuracy, and counts of what was selected; `@` marks a batch's diagnostics."""
    task = episodes.task
    logits, labels = answers_of(method, task)
    if bool(logits.isnan().any()):
        raise SalaError(
            f"{type(method).__name__} gave class scores that are not a number; look at its weights and options"
        )
    right = logits.argmax(-1) == episodes.query_labels
    measured = {"accuracy": right.double().mean(-1)}
    if labels is not None:
        truth, selected = episodes.unlabeled_labels, labels.selected
        correct = labels.probabilities.argmax(-1) == truth
        measured["unlabeled"] = torch.full_like(measured["accuracy"], truth.shape[-1])
        measured["selected"] = selected.sum(-1)
        measured["correct"] = (correct & selected).sum(-1)
        measured["distractors"] = ((truth < 0) & selected).sum(-1)
    numbers = {key: value.cpu().numpy().reshape(-1) for key, value in measured.items()}  # also of a single episode
    diagnostics = method.diagnostics(task)
    if method.n_extra:  # as if there were no "none of them"
        among = logits[..., : task.n_way].argmax(-1) == episodes.query_labels
        diagnostics["accuracy_among_classes"] = 100 * among.double().mean().item()
    return numbers | {f"@{key}": np.array([value]) for key, value in diagnostics.items()}


def _pool(counts: dict[str, np.ndarray[Any, np.dtype[Any]]]) -> dict[str, float]:
    """How good the pseudo-labels were, over all selected images of all episodes, in percent.

    `accuracy` counts a selected distractor as wrong: there is no right label for it.
    """
    if not counts or not counts["selected"].sum():
        return {}
    selected = counts["selected"].sum()
    return {
        "selected": float(100 * selected / counts["unlabeled"].sum()),
        "accuracy": float(100 * counts["correct"].sum() / selected),
        "distractors": float(100 * counts["distractors"].sum() / selected),
    }

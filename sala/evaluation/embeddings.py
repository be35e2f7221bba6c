"""Embedded episodes: every image passes the network once, then episodes are put together from the table of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sala.data import FeatureStore, ImageStore
from sala.episodes.sampler import EpisodeRows, EpisodeSampler, Rows, build_episode, images_of
from sala.episodes.task import Episode, Task
from sala.evaluation.batching import task_of
from sala.methods import Method
from sala.nn.distributed import ALONE, Ranks

EMBEDDING_BATCH = 128  # images; larger batches leave the processor's cache
EPISODE_BATCH = 50


class Embeddings:
    """Embeddings of a store's images by a trained method; each image passes the network once, when it is first asked for."""

    def __init__(self, method: Method, store: ImageStore | FeatureStore, ranks: Ranks = ALONE):
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
            embedded = self.method.embed_images(images.to(device))
            if embedded.shape != (len(images), table.shape[1]):  # a method may embed in its own way
                table = table.new_zeros(len(rows), *embedded.shape[1:])
            table[start : start + EMBEDDING_BATCH] = embedded
            if progress:
                progress(min(start + EMBEDDING_BATCH, len(rows)), len(rows))
        self.ranks.sum([table])
        return table


def embedded_episodes(
    embeddings: Embeddings,
    sampler: EpisodeSampler,
    n_episodes: int,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Episode]:
    """Batches of embedded episodes. Each image of the store passes the network once, unless its embedding depends on the
    task."""
    rows = sampler.batch(0, n_episodes)
    if embeddings.method.embeds_per_task:
        yield from _embedded_per_task(embeddings, rows, sampler.shape.n_way, progress)
        return
    images = rows.images
    is_used = np.zeros(len(sampler.store.images), bool)
    is_used[images] = True
    table = embeddings.of(np.flatnonzero(is_used), progress=progress)
    index = torch.from_numpy((np.cumsum(is_used) - 1)[images])
    for start in range(0, n_episodes, EPISODE_BATCH):
        batch = slice(start, start + EPISODE_BATCH)
        yield build_episode(rows[batch], table[index[batch].to(table.device)], sampler.shape.n_way)


def _embedded_per_task(
    embeddings: Embeddings, rows: EpisodeRows, n_way: int, progress: Callable[[int, int], None] | None
) -> Iterator[Episode]:
    """One episode at a time; the progress counts their images."""
    n_images = rows.images.size
    for i, which in enumerate(rows.images):
        images = images_of(embeddings.store, which).to(embeddings.method.device)
        episode = build_episode(rows[i : i + 1], images[None], n_way)
        yield replace(episode, task=_embedded(embeddings.method, episode.task))
        if progress:
            progress((i + 1) * len(which), n_images)


def _embedded(method: Method, tasks: Task) -> Task:
    """A batch of one task, embedded; as a task without a batch dimension, as in training, unless the method takes batches."""
    if method.batched:
        return method.embed(tasks)
    task = method.embed(task_of(tasks, 0))
    return replace(tasks, **{name: getattr(task, name)[None] for name in ("support", "unlabeled", "query")})

"""Episodes of a user's own object, for `evaluate`: embedded one by one, and hashed so that results can be paired."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from sala.episodes.protocol import EpisodeShape
from sala.episodes.source import Episodes, draw
from sala.episodes.task import Episode
from sala.errors import SalaError
from sala.methods import Method
from sala.methods.entry import check_arguments


class OwnEpisodes:
    """The first n episodes of an object with `episode(i)`. `shape` and `identity` are known when all have passed.

    `shape` is that of the first episode; where its classes differ in size, the mean, rounded down.
    """

    def __init__(self, method: Method, episodes: Episodes, n_episodes: int):
        self.method, self.episodes, self.n_episodes = method, episodes, n_episodes
        self.split = str(getattr(episodes, "split", "own"))
        self.shape = EpisodeShape()
        self._digest = hashlib.sha256()

    @property
    def identity(self) -> str:
        """A hash of what the episodes hold."""
        return self._digest.hexdigest()[:16]

    def embedded(self, progress: Callable[[int, int], None] | None = None) -> Iterator[Episode]:
        """The episodes one by one, with embeddings in place of images; the progress counts episodes."""
        for i in range(self.n_episodes):
            episode = draw(self.episodes, i)
            _check(self.method, episode, i)
            self.shape = self.shape if i else shape_of(episode)
            self._count_in(episode)
            there = episode.to(self.method.device)
            yield replace(there, task=self.method.embed(there.task))
            if progress:
                progress(i + 1, self.n_episodes)

    def _count_in(self, episode: Episode) -> None:
        task = episode.task
        parts = (task.support, task.labels, task.unlabeled, task.query, episode.query_labels, episode.unlabeled_labels)
        for part in parts:
            self._digest.update(repr((part.dtype, list(part.shape))).encode())
            self._digest.update(part.detach().cpu().contiguous().numpy().tobytes())


def _check(method: Method, episode: Episode, i: int) -> None:
    if episode.task.labels.ndim != 1:
        raise SalaError(f"episode({i}) is one task, without batch dimensions; return one task a call")
    check_arguments(method, "loss", episode.task.to(method.device), episode.query_labels)
    n_unlabeled = episode.task.unlabeled.shape[0]
    if episode.unlabeled_labels.shape != (n_unlabeled,):
        raise SalaError(
            f"unlabeled_labels of episode({i}) are one number per unlabeled image, -1 for a distractor: got "
            f"{list(episode.unlabeled_labels.shape)} for {n_unlabeled} images"
        )


def shape_of(episode: Episode) -> EpisodeShape:
    """The numbers of an episode; where its classes differ in size, the mean, rounded down."""
    task, n_way = episode.task, episode.task.n_way
    n_distractors = int((episode.unlabeled_labels < 0).sum())
    n_unlabeled = (task.unlabeled.shape[0] - n_distractors) // n_way
    return EpisodeShape(
        n_way,
        n_shot=task.support.shape[0] // n_way,
        n_query=max(1, task.query.shape[0] // n_way),
        n_unlabeled=n_unlabeled,
        n_distractor=-(-n_distractors // max(1, n_unlabeled)),
    )

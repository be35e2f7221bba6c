"""Where episodes come from: a sampler, or any object with `episode(i)`."""

from __future__ import annotations

import inspect
from typing import Any, Protocol

from torch import Tensor

from sala.episodes.task import Episode, Task
from sala.errors import SalaError


class Episodes(Protocol):
    """Anything with this one method; the same number should give the same episode.

    An `episode` that takes `with_unlabeled` as well, as `EpisodeSampler`'s does, need not read images that nobody looks at.
    """

    def episode(self, i: int) -> Episode: ...


def draw(episodes: Episodes, i: int, *, with_unlabeled: bool = True) -> Episode:
    """Episode i of a sampler or of a user's own object, without unlabeled images if so asked."""
    function: Any = getattr(episodes, "episode", None)
    if not callable(function):
        raise SalaError(
            f"episodes come from a sala.EpisodeSampler or an object with a method episode(i); got {type(episodes).__name__}"
        )
    if _takes(function, "with_unlabeled"):
        return _checked(function(i, with_unlabeled=with_unlabeled), i)
    episode = _checked(function(i), i)
    if with_unlabeled:
        return episode
    unlabeled_labels = episode.unlabeled_labels[..., :0]
    return Episode(episode.task.without_unlabeled(), episode.query_labels, unlabeled_labels)


def _takes(function: Any, name: str) -> bool:
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _checked(episode: Any, i: int) -> Episode:
    if not isinstance(episode, Episode) or not isinstance(episode.task, Task):
        raise SalaError(
            f"episode({i}) returns a sala.Episode(task, query_labels, unlabeled_labels) of a sala.Task; got "
            f"{type(episode).__name__}; sala.make_task makes the task"
        )
    parts = {**vars(episode.task), **vars(episode)}
    for name in ("support", "labels", "unlabeled", "query", "query_labels", "unlabeled_labels"):
        if not isinstance(parts[name], Tensor):
            raise SalaError(f"{name} of episode({i}) is a tensor; got {type(parts[name]).__name__}; convert it")
    return episode

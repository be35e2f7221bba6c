"""Results: accuracies on a fixed list of episodes, with 95 % intervals and paired differences."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from sala.episodes.protocol import EpisodeShape
from sala.errors import SalaError


@dataclass(frozen=True)
class Interval:
    """A mean over episodes with the half-width of its 95 % interval, both in percent.

    Parameters
    ----------
    mean : float
        Mean accuracy, or mean difference of two accuracies.
    ci95 : float
        Half-width of the normal interval, 1.96 standard errors; nan for a single episode.

    Examples
    --------
    >>> import sala
    >>> print(sala.Interval.of([0.6, 0.8, 0.7]))
    70.00 ± 11.32 %
    """

    mean: float
    ci95: float

    @classmethod
    def of(cls, shares: Iterable[float]) -> Interval:
        """The interval of shares in [0, 1], one per episode."""
        values = 100 * np.asarray(list(shares), dtype=np.float64)
        deviation = values.std(ddof=1) if len(values) > 1 else math.nan
        return cls(float(values.mean()), float(1.96 * deviation / math.sqrt(len(values))))

    def __str__(self) -> str:
        return f"{self.mean:.2f} %" if math.isnan(self.ci95) else f"{self.mean:.2f} ± {self.ci95:.2f} %"


@dataclass(frozen=True)
class Result:
    """Accuracies of a method on a fixed list of episodes. `sala.evaluate` returns one.

    Parameters
    ----------
    accuracies : tuple of float
        The share of queries that were classified right, one number per episode.
    shape : EpisodeShape
        Ways, shots, queries, unlabeled images and distractors of the episodes.
    split : str
        The split of the classes: "train", "val" or "test".
    episodes : str
        The identity of the list of episodes, `EpisodeSampler.identity`. Two results are comparable if it is the same.
    pseudo_labels : dict
        How good the pseudo-labels were, in percent: `selected`, `accuracy`, `distractors`.
    diagnostics : dict
        Numbers that the method reports about itself.

    Examples
    --------
    >>> import sala
    >>> shape = sala.EpisodeShape(n_way=5, n_shot=1, n_query=5, n_unlabeled=5)
    >>> first = sala.Result((0.8, 0.6), shape, "test", episodes="a")
    >>> second = sala.Result((0.7, 0.6), shape, "test", episodes="a")
    >>> round(first.accuracy, 1), str(first.minus(second))
    (70.0, '5.00 ± 9.80 %')
    """

    accuracies: tuple[float, ...]
    shape: EpisodeShape
    split: str
    episodes: str
    pseudo_labels: dict[str, float] = field(default_factory=dict)
    diagnostics: dict[str, float] = field(default_factory=dict)

    @property
    def interval(self) -> Interval:
        """Mean accuracy with its 95 % interval, in percent."""
        return Interval.of(self.accuracies)

    @property
    def accuracy(self) -> float:
        """Mean accuracy in percent."""
        return self.interval.mean

    def __str__(self) -> str:
        return f"{self.interval} over {len(self.accuracies):,} episodes ({self.shape.describe()}; {self.split} classes)"

    def minus(self, other: Result) -> Interval:
        """The paired difference to another result: on the same episodes most of the noise is in both and cancels."""
        if self.episodes != other.episodes or len(self.accuracies) != len(other.accuracies):
            raise SalaError(
                "a paired difference needs the same episodes of the same data; these two results have others"
            )
        return Interval.of(np.subtract(self.accuracies, other.accuracies))

    def to_json(self) -> dict[str, Any]:
        """Plain data with the mean and interval, as records keep it."""
        interval = self.interval
        half = None if math.isnan(interval.ci95) else interval.ci95  # one episode has no interval, and JSON no nan
        return {"accuracy": interval.mean, "ci95": half, "n_episodes": len(self.accuracies), **asdict(self)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Result:
        """The result that `to_json` described."""
        return cls(
            accuracies=tuple(content["accuracies"]),
            shape=EpisodeShape(**content["shape"]),
            split=content["split"],
            episodes=content["episodes"],
            pseudo_labels=content["pseudo_labels"],
            diagnostics=content["diagnostics"],
        )

"""Length, optimizer and learning rates of a training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sala.episodes.protocol import check_optimization


@dataclass(frozen=True)
class TrainConfig:
    """Length, optimizer and schedule of a training; the defaults are the protocols'.

    Parameters
    ----------
    n_episodes : int, default 20_000
        Training episodes.
    validate_every : int, default 500
        Training episodes from one validation to the next.
    learning_rate : float, default 1e-3
        At the beginning.
    n_halvings : int, default 4
        With the schedule "halving", how often: with 4 at each fifth of the training.
    weight_decay : float, default 5e-5
        On the kernels of convolutions, and on nothing else.
    episodes_per_step : int, default 1
        Episodes whose gradients are averaged in a step.
    optimizer : {"adam", "adamw", "sgd"}, default "adam"
        "sgd" has Nesterov momentum 0.9.
    schedule : {"halving", "cosine", "linear", "constant"}, default "halving"
        Of the learning rate: halved at equal distances, or down to 0 along a cosine or a line, or constant.

    Examples
    --------
    >>> import sala
    >>> schedule = sala.TrainConfig(n_episodes=100)
    >>> [schedule.learning_rate_at(i) for i in (0, 20, 99)]
    [0.001, 0.0005, 6.25e-05]
    >>> round(sala.TrainConfig(n_episodes=100, schedule="cosine").learning_rate_at(50), 6)
    0.0005
    """

    n_episodes: int = 20_000
    validate_every: int = 500
    learning_rate: float = 1e-3
    n_halvings: int = 4
    weight_decay: float = 5e-5
    episodes_per_step: int = 1
    optimizer: str = "adam"
    schedule: str = "halving"

    def __post_init__(self) -> None:
        check_optimization(self.learning_rate, self.weight_decay, self.optimizer, self.schedule)

    def learning_rate_at(self, i: int) -> float:
        """The learning rate of the step that begins with episode i."""
        if self.schedule == "halving":
            return float(self.learning_rate * 0.5 ** ((self.n_halvings + 1) * i // self.n_episodes))
        left = 1 - i / self.n_episodes
        share = {"cosine": (1 - math.cos(math.pi * left)) / 2, "linear": left, "constant": 1.0}[self.schedule]
        return self.learning_rate * share

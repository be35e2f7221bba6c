"""The training loop, one page, the same for every method."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Adam

from sala.episode import Episode
from sala.errors import SalaError
from sala.evaluate import Result
from sala.methods import Method


@dataclass(frozen=True)
class TrainConfig:
    """Length and schedule of a training; the defaults are the protocol's."""

    n_episodes: int = 20_000
    validate_every: int = 500
    learning_rate: float = 1e-3
    n_halvings: int = 4  # at equal distances: at each fifth of the training
    weight_decay: float = 5e-5  # on convolution kernels only

    def learning_rate_at(self, i: int) -> float:
        return float(self.learning_rate * 0.5 ** ((self.n_halvings + 1) * i // self.n_episodes))


class Episodes(Protocol):
    """Where training episodes come from: an EpisodeSampler, or anything with this one method."""

    def episode(self, i: int, *, with_unlabeled: bool = True) -> Episode: ...


@dataclass
class TrainState:
    """All that a training needs to go on as if it had never stopped."""

    optimizers: dict[str, Adam]
    episode: int = 0  # how many are done
    best_accuracy: float = -1.0
    best_episode: int = 0
    sums: dict[str, float] = field(default_factory=dict)  # of losses and notes, since the last record
    n_summed: int = 0

    @classmethod
    def fresh(cls, method: Method, config: TrainConfig) -> TrainState:
        return cls({player: build_optimizer(method, player, config) for player in method.players})

    def add(self, numbers: Mapping[str, float]) -> None:
        for name, number in numbers.items():
            self.sums[name] = self.sums.get(name, 0.0) + number

    def take_means(self) -> dict[str, float]:
        """The means since they were last taken."""
        means = {name: total / self.n_summed for name, total in self.sums.items()}
        self.sums, self.n_summed = {}, 0
        return means


@dataclass(frozen=True)
class Record:
    """One line of the log: what a stretch of training and the validation after it gave."""

    episode: int
    loss: float  # of the first player
    learning_rate: float
    validation: Result | None
    is_best: bool
    notes: dict[str, float] = field(default_factory=dict)  # losses of other players, and what the method noted


def train(
    method: Method,
    episodes: Episodes,
    config: TrainConfig | None = None,
    *,
    state: TrainState | None = None,
    validate: Callable[[Method], Result] | None = None,
    on_episode: Callable[[TrainState, float], None] | None = None,
    on_record: Callable[[TrainState, Record], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> TrainState:
    """Train in place, from `state` (or the beginning) to the last episode, or until `should_stop` says so."""
    config = config or TrainConfig()
    state = state or TrainState.fresh(method, config)
    method.train()
    while state.episode < config.n_episodes and not should_stop():
        method.progress = (state.episode + 1) / config.n_episodes  # 1 in the last episode
        episode = episodes.episode(state.episode, with_unlabeled=method.trains_on_unlabeled)
        losses = {}
        for player, optimizer in state.optimizers.items():
            loss = method.loss(episode.task, episode.query_labels, player)
            losses[f"loss_{player}"] = _finite(loss, player, state.episode)  # first: bad gradients never reach weights
            step(method, optimizer, loss, config.learning_rate_at(state.episode))
        state.add(losses | method.notes)
        state.episode += 1
        state.n_summed += 1
        if state.episode % config.validate_every == 0 or state.episode == config.n_episodes:
            record = _record(method, config, state, validate)
            if on_record:
                on_record(state, record)
        if on_episode:
            on_episode(state, next(iter(losses.values())))
    return state


def step(method: nn.Module, optimizer: Adam, loss: Tensor, learning_rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    method.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def build_optimizer(method: Method, player: str, config: TrainConfig) -> Adam:
    """Adam, with weight decay on the kernels of convolutions and on nothing else."""
    kernels: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for parameter in method.parameters_of(player):
        (kernels if parameter.ndim == 4 else others).append(parameter)
    if not kernels and not others:
        raise SalaError(
            f"{type(method).__name__} on {type(method.backbone).__name__} has no parameters: nothing to train"
        )
    groups: list[dict[str, Any]] = [{"params": kernels, "weight_decay": config.weight_decay}, {"params": others}]
    used = [group for group in groups if group["params"]]
    return Adam(used, lr=config.learning_rate, betas=method.adam_betas(player))


def _finite(loss: Tensor, player: str, i: int) -> float:
    value = loss.item()
    if not math.isfinite(value):
        raise SalaError(
            f"the loss of the {player} became {value} in episode {i}; the last good weights are kept. Lower the learning "
            "rate, or look at the method's options"
        )
    return value


def _record(
    method: Method, config: TrainConfig, state: TrainState, validate: Callable[[Method], Result] | None
) -> Record:
    means = state.take_means()
    loss = means.pop(f"loss_{method.players[0]}")
    result = validate(method) if validate else None
    is_best = result is not None and result.accuracy > state.best_accuracy
    if result is not None and is_best:
        state.best_accuracy, state.best_episode = result.accuracy, state.episode
    rate = config.learning_rate_at(state.episode - 1)
    return Record(state.episode, loss, rate, result, is_best, means)

"""The training loop, one page, the same for every method."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Adam

from sala.episode import Episode
from sala.errors import SalaError
from sala.evaluate import Result
from sala.methods import Method
from sala.ranks import ALONE, Ranks


@dataclass(frozen=True)
class TrainConfig:
    """Length and schedule of a training; the defaults are the protocol's."""

    n_episodes: int = 20_000
    validate_every: int = 500
    learning_rate: float = 1e-3
    n_halvings: int = 4  # at equal distances: at each fifth of the training
    weight_decay: float = 5e-5  # on convolution kernels only
    episodes_per_step: int = 1  # whose gradients are averaged

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

    def add(self, means: Mapping[str, float], weight: int) -> None:
        """Count in the means over `weight` episodes."""
        for name, mean in means.items():
            self.sums[name] = self.sums.get(name, 0.0) + weight * mean
        self.n_summed += weight

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
    ranks: Ranks = ALONE,
) -> TrainState:
    """Train in place, from `state` (or the beginning) to the last episode, or until `should_stop` says so.

    A step takes `config.episodes_per_step` episodes, of which each of the `ranks` does its share.
    """
    config = config or TrainConfig()
    state = state or TrainState.fresh(method, config)
    device = method.device
    method.train()
    if state.episode == 0:
        method.prepare(episodes.episode(0, with_unlabeled=method.trains_on_unlabeled).to(device).task)
    while state.episode < config.n_episodes and not ranks.any(should_stop()):
        numbers = range(state.episode, min(state.episode + config.episodes_per_step, config.n_episodes))
        own = [i for i, _ in ranks.share(numbers, first=state.episode)]
        weight = (
            1 / len(numbers) if own else 0.0
        )  # a process without an episode goes along with the first, which counts not
        batch = [
            (i, episodes.episode(i, with_unlabeled=method.trains_on_unlabeled).to(device)) for i in own or numbers[:1]
        ]
        losses = {}
        for player, optimizer in state.optimizers.items():
            losses[f"loss_{player}"] = gradients(method, player, batch, weight, config, ranks)
            step(optimizer, config.learning_rate_at(state.episode))
        state.add(losses | method.notes, weight=len(numbers))
        before, state.episode = state.episode, numbers.stop
        is_due = state.episode // config.validate_every > before // config.validate_every
        if is_due or state.episode == config.n_episodes:
            record = _record(method, config, state, validate)
            if on_record:
                on_record(state, record)
        if on_episode:
            on_episode(state, next(iter(losses.values())))
    return state


def gradients(
    method: Method,
    player: str,
    batch: list[tuple[int, Episode]],
    weight: float,
    config: TrainConfig,
    ranks: Ranks = ALONE,
) -> float:
    """Leaves in the parameters the gradient of the player's weighted loss, summed over the numbered episodes of `batch` and
    over all processes; gives that loss. With several episodes each starts from the same running statistics, and these end
    at the mean of what the episodes made of them; so do the method's notes."""
    moved = method.parameters_of(player)
    only = moved if len(method.players) > 1 else None  # the others stand still: no gradient for them
    for parameter in method.parameters():
        parameter.grad = None
    is_alone = weight == 1 and ranks.world == 1
    statistics = [] if is_alone else list(method.buffers())
    before = [b.clone() for b in statistics]
    sums = [torch.zeros_like(b, dtype=torch.float32) for b in before]
    totals: dict[str, float] = {}
    for i, episode in batch:
        _set(statistics, before)
        method.progress = (i + 1) / config.n_episodes  # 1 in the last episode
        loss = method.loss(episode.task, episode.query_labels, player)
        numbers = {"": _finite(loss, player, i), **method.notes}
        (loss if is_alone else weight * loss).backward(inputs=only)  # type: ignore[no-untyped-call]
        for s, b in zip(sums, statistics, strict=True):
            s += weight * b
        totals = {name: totals.get(name, 0.0) + weight * number for name, number in numbers.items()}
    if not is_alone:
        values = torch.tensor(list(totals.values()), dtype=torch.float64)
        ranks.sum([p.grad for p in moved if p.grad is not None])
        ranks.sum(sums)
        ranks.sum([values])
        _set(statistics, sums)
        totals = dict(zip(totals, values.tolist(), strict=True))
    mean = totals.pop("")
    method.notes = totals
    _check_gradients(moved, player, batch[0][0])
    return mean


def _set(targets: list[Tensor], values: list[Tensor]) -> None:
    for target, value in zip(targets, values, strict=False):
        target.copy_(value if target.is_floating_point() else value.round())  # a count of batches is one more for all


def _check_gradients(moved: list[nn.Parameter], player: str, i: int) -> None:
    """Before the step: what is not finite never reaches the weights."""
    norms = torch._foreach_norm([p.grad for p in moved if p.grad is not None])
    if norms and not math.isfinite(torch.stack(norms).sum()):
        raise SalaError(
            f"the gradient of the {player} is no longer finite in episode {i}; the last good weights are kept. Lower the "
            "learning rate, or look at the method's options"
        )


def step(optimizer: Adam, learning_rate: float) -> None:
    """One step of the optimiser along the gradients that are there: what `optimizer.step()` does, without most of the
    bookkeeping around it, which costs more than the step itself when the network is small."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    moved = [[p for p in group["params"] if p.grad is not None] for group in optimizer.param_groups]
    has_moments = all(p in optimizer.state for part in moved for p in part)  # the first step makes them
    if not has_moments or not all(map(_is_plain, optimizer.param_groups)) or type(optimizer) is not Adam:
        optimizer.step()
        return
    with torch.no_grad():
        for group, part in zip(optimizer.param_groups, moved, strict=True):
            grads = [p.grad for p in part]
            means, squares, steps = (
                [optimizer.state[p][name] for p in part] for name in ("exp_avg", "exp_avg_sq", "step")
            )
            if part:
                torch._foreach_add_(steps, 1)
                torch._fused_adam_(
                    part,
                    grads,
                    means,
                    squares,
                    [],
                    steps,
                    lr=learning_rate,
                    beta1=group["betas"][0],
                    beta2=group["betas"][1],
                    weight_decay=group["weight_decay"],
                    eps=group["eps"],
                    amsgrad=False,
                    maximize=False,
                )


def _is_plain(group: dict[str, Any]) -> bool:
    return bool(
        group["fused"] and not group["amsgrad"] and not group["maximize"] and not group.get("decoupled_weight_decay")
    )


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
    return Adam(used, lr=config.learning_rate, betas=method.adam_betas(player), fused=True)


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

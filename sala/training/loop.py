"""The training loop, one page, the same for every method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch.optim import Adam

from sala.episodes.task import Episode
from sala.evaluation.results import Result
from sala.methods import Method
from sala.nn.distributed import ALONE, Ranks
from sala.training.step import build_optimizer, gradients, step


@dataclass(frozen=True)
class TrainConfig:
    """Length and schedule of a training; the defaults are the protocols'.

    Parameters
    ----------
    n_episodes : int, default 20_000
        Training episodes.
    validate_every : int, default 500
        Training episodes from one validation to the next.
    learning_rate : float, default 1e-3
        Of Adam, at the beginning.
    n_halvings : int, default 4
        How often the learning rate is halved, at equal distances: with 4 at each fifth of the training.
    weight_decay : float, default 5e-5
        On the kernels of convolutions, and on nothing else.
    episodes_per_step : int, default 1
        Episodes whose gradients are averaged in a step.

    Examples
    --------
    >>> import sala
    >>> schedule = sala.TrainConfig(n_episodes=100)
    >>> [schedule.learning_rate_at(i) for i in (0, 20, 99)]
    [0.001, 0.0005, 6.25e-05]
    """

    n_episodes: int = 20_000
    validate_every: int = 500
    learning_rate: float = 1e-3
    n_halvings: int = 4
    weight_decay: float = 5e-5
    episodes_per_step: int = 1

    def learning_rate_at(self, i: int) -> float:
        """The learning rate of the step that begins with episode i."""
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
        """The state at the beginning."""
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
    """The state after training `method` in place to the last episode, or until `should_stop` says so.

    Parameters
    ----------
    method : Method
        Its parameters are moved; see `sala.build_method`.
    episodes : Episodes
        Where training episodes come from: an `EpisodeSampler`, or anything with its method `episode`.
    config : TrainConfig, optional
        Length and schedule.
    state : TrainState, optional
        Where to go on; by default the beginning.
    validate : callable, optional
        Measures the method every `config.validate_every` episodes: the best result is kept in the state.
    on_episode : callable, optional
        Called with the state and the loss after each step.
    on_record : callable, optional
        Called with the state and a `Record` after each validation.
    should_stop : callable, optional
        Asked before each step.
    ranks : Ranks, optional
        The processes of the training: each does its share of the `config.episodes_per_step` episodes of a step.

    Returns
    -------
    TrainState
        All that `train` needs to go on as if it had never stopped.

    Raises
    ------
    SalaError
        If a loss or a gradient is no longer finite; the weights are then those of the step before.

    Examples
    --------
    >>> import sala
    >>> store, protocol = sala.load_dataset("glyphs"), sala.PROTOCOLS["glyphs"]
    >>> episodes = sala.EpisodeSampler(store, protocol.train, split="train", seed=0, labeled_share=0.2)
    >>> method = sala.build_method("protonet", sala.build_backbone("conv4", store.image_shape))
    >>> sala.train(method, episodes, sala.TrainConfig(n_episodes=5)).episode
    5
    """
    config = config or TrainConfig()
    state = state or TrainState.fresh(method, config)

    def draw(i: int) -> Episode:
        return episodes.episode(i, with_unlabeled=method.trains_on_unlabeled).to(method.device)

    method.train()
    if state.episode == 0:
        method.prepare(draw(0).task)
    while state.episode < config.n_episodes and not ranks.any(should_stop()):
        numbers = range(state.episode, min(state.episode + config.episodes_per_step, config.n_episodes))
        own = [i for i, _ in ranks.share(numbers, first=state.episode)]
        weight = 1 / len(numbers) if own else 0.0  # who has no episode goes along with the first, which does not count
        batch = [(i, draw(i)) for i in own or numbers[:1]]
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

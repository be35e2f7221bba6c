"""The training loop, one page, the same for every method."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch.optim import Optimizer

from sala.episodes.source import Episodes
from sala.episodes.source import draw as draw_from
from sala.episodes.task import Episode
from sala.evaluation.results import Result
from sala.methods import Method
from sala.nn.distributed import ALONE, Ranks
from sala.training.schedule import TrainConfig
from sala.training.shown import Shown
from sala.training.step import build_optimizer, gradients, step


@dataclass
class TrainState:
    """All that a training needs to go on as if it had never stopped.

    Parameters
    ----------
    optimizers : dict of str to Optimizer
        By player.
    episode : int, default 0
        How many episodes are done.
    best_accuracy, best_episode : float, int
        Of the best validation so far.
    sums, n_summed : dict, int
        Of losses and notes since the last record, and over how many episodes.

    Examples
    --------
    >>> import sala
    >>> method = sala.build_method("feat", sala.Identity(4))
    >>> sala.TrainState.fresh(method, sala.TrainConfig(n_episodes=10)).episode
    0
    """

    optimizers: dict[str, Optimizer]
    episode: int = 0  # how many are done
    best_accuracy: float = -1.0
    best_episode: int = 0
    sums: dict[str, float] = field(default_factory=dict)  # of losses and notes, since the last record
    n_summed: int = 0

    @classmethod
    def fresh(cls, method: Method, config: TrainConfig) -> TrainState:
        """The state at the beginning. A player without parameters has no optimizer."""
        movers = [player for player in method.players if method.parameters_of(player)]
        return cls({player: build_optimizer(method, player, config) for player in movers})

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
    """One line of the log: what a stretch of training and the validation after it gave.

    Parameters
    ----------
    episode : int
        How many episodes are done.
    loss : float
        Mean loss of the first player since the record before.
    learning_rate : float
        Of the last step.
    validation : Result or None
        None where nothing validates.
    is_best : bool
        Whether this is the best validation so far.
    notes : dict
        Means of the losses of other players, and of what the method noted.

    Examples
    --------
    >>> import sala
    >>> record = sala.Record(episode=500, loss=1.25, learning_rate=1e-3, validation=None, is_best=False)
    >>> record.notes
    {}
    """

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
    initialize: Callable[[Method], None] | None = None,
    progress: bool = True,
    ranks: Ranks = ALONE,
) -> TrainState:
    """The state after training `method` in place to the last episode, or until `should_stop` says so.

    Parameters
    ----------
    method : Method
        Its parameters are moved; see `sala.build_method`.
    episodes : EpisodeSampler or object with `episode(i)`
        Where training episodes come from. An object of your own returns an `Episode` for each number.
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
    initialize : callable, optional
        Called with the method once, before the first step: a place for weights from elsewhere.
    progress : bool, default True
        Whether loss, validation accuracy and time left are shown on stderr.
    ranks : Ranks, optional
        The processes of the training: each does its share of the `config.episodes_per_step` episodes of a step.

    Returns
    -------
    TrainState
        All that `train` needs to go on as if it had never stopped.

    Warns
    -----
    UserWarning
        If the method has no parameters, as ProtoNet on ready-made features: then it is validated, and nothing is trained.

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
    told = Shown(config.n_episodes, is_shown=progress and ranks.is_first, on_episode=on_episode, on_record=on_record)

    def draw(i: int) -> Episode:
        return draw_from(episodes, i, with_unlabeled=method.trains_on_unlabeled).to(method.device)

    method.train()
    if state.episode == 0:
        method.prepare(draw(0).task)
        if initialize:
            initialize(method)
    with told:
        if not state.optimizers and state.episode < config.n_episodes:
            return _without_training(method, config, state, draw(0), validate, told)
        while state.episode < config.n_episodes and not ranks.any(should_stop()):
            numbers = range(state.episode, min(state.episode + config.episodes_per_step, config.n_episodes))
            own = [i for i, _ in ranks.share(numbers, first=state.episode)]
            weight = 1 / len(numbers) if own else 0.0  # who has no episode goes along with the first, not counted
            batch = [(i, draw(i)) for i in own or numbers[:1]]
            losses = {}
            for player, optimizer in state.optimizers.items():
                losses[f"loss_{player}"] = gradients(method, player, batch, weight, config, ranks)
                step(optimizer, config.learning_rate_at(state.episode))
            state.add(losses | method.notes, weight=len(numbers))
            before, state.episode = state.episode, numbers.stop
            is_due = state.episode // config.validate_every > before // config.validate_every
            if is_due or state.episode == config.n_episodes:
                told.record(state, _record(method, config, state, validate))
            told.episode(state, next(iter(losses.values())))
    return state


Validate = Callable[[Method], Result]


def _without_training(
    method: Method, config: TrainConfig, state: TrainState, first: Episode, validate: Validate | None, told: Shown
) -> TrainState:
    """The state at the end of a training of no parameters: the method as it is, validated once."""
    name = f"{type(method).__name__} on {type(method.backbone).__name__}"
    warnings.warn(f"{name} has no parameters: there is nothing to train, and it is as good as it will be", stacklevel=3)
    player = method.players[0]
    state.add({f"loss_{player}": float(method.loss(first.task, first.query_labels, player))}, weight=1)
    state.episode = config.n_episodes
    told.record(state, _record(method, config, state, validate))
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

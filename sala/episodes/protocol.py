"""How a method is trained and measured, as data: episode shapes, label split, budgets, schedule, selection.

Every system goes through the same protocol of its dataset, so that a difference between two results is a difference
between two methods. The literals below are the decisions; each is stored with every run and result. `PROTOCOLS` has one
protocol per dataset.

>>> PROTOCOLS["miniimagenet"].test["standard"].describe()
'5-way 1-shot, 15 queries and 20 unlabeled a class'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sala.errors import SalaError, at_least

VALIDATION_SEED = 1_000_001  # the fixed validation episodes, the same for all runs
TEST_SEED = 2_000_003  # the fixed test episodes
OPTIMIZERS = ("adam", "adamw", "sgd")
SCHEDULES = ("halving", "cosine", "linear", "constant")


@dataclass(frozen=True)
class EpisodeShape:
    """The numbers of one episode.

    Parameters
    ----------
    n_way : int, default 5
        Classes, N.
    n_shot : int, default 1
        Labeled images per class, K.
    n_query : int, default 1
        Queries per class.
    n_unlabeled : int, default 5
        Unlabeled images per class, and per distractor class.
    n_distractor : int, default 0
        Distractor classes: they have unlabeled images only.

    Examples
    --------
    >>> import sala
    >>> sala.EpisodeShape(n_way=5, n_shot=1, n_query=15, n_unlabeled=20, n_distractor=5).describe()
    '5-way 1-shot, 15 queries and 20 unlabeled a class, 5 distractor classes'
    """

    n_way: int = 5
    n_shot: int = 1
    n_query: int = 1
    n_unlabeled: int = 5
    n_distractor: int = 0

    def __post_init__(self) -> None:
        at_least(2, self.n_way, "the number of ways n_way")
        at_least(1, self.n_shot, "the number of shots n_shot")
        at_least(1, self.n_query, "the number of queries n_query")
        at_least(0, self.n_unlabeled, "the number of unlabeled images n_unlabeled")
        at_least(0, self.n_distractor, "the number of distractor classes n_distractor")

    @property
    def selection_share(self) -> float:
        """M0 / M: the share of the unlabeled set that progressive selection ends with. Half, if half may be distractors."""
        return 0.5 if self.n_distractor else 1.0

    def describe(self) -> str:
        """The shape in words, as tables show it."""
        kind = "class" if self.n_distractor == 1 else "classes"
        distractors = f", {self.n_distractor} distractor {kind}" if self.n_distractor else ""
        queries = "1 query" if self.n_query == 1 else f"{self.n_query} queries"
        return f"{self.n_way}-way {self.n_shot}-shot, {queries} and {self.n_unlabeled} unlabeled a class{distractors}"


@dataclass(frozen=True)
class Budget:
    """How long to train, and how often to look at the validation classes.

    Parameters
    ----------
    n_episodes : int
        Training episodes.
    validate_every : int
        Training episodes from one validation to the next.
    n_validation_episodes : int
        Episodes of a validation.

    Examples
    --------
    >>> import sala
    >>> sala.Budget(1_000, validate_every=100, n_validation_episodes=50).n_episodes
    1000
    """

    n_episodes: int
    validate_every: int
    n_validation_episodes: int

    def __post_init__(self) -> None:
        at_least(1, self.n_episodes, "the number of training episodes")
        at_least(1, self.validate_every, "the number of episodes between validations")
        at_least(1, self.n_validation_episodes, "the number of validation episodes")


def check_optimization(learning_rate: float, weight_decay: float, optimizer: str, schedule: str) -> None:
    """Refuse numbers and names that no training can have."""
    if not 0 < learning_rate < float("inf"):
        raise SalaError(f"a learning rate is above 0 and finite; got {learning_rate:g}")
    if not 0 <= weight_decay < float("inf"):
        raise SalaError(f"a weight decay is 0 or more and finite; got {weight_decay:g}")
    if optimizer not in OPTIMIZERS:
        raise SalaError(f"an optimizer is one of {', '.join(OPTIMIZERS)}; got {optimizer!r}")
    if schedule not in SCHEDULES:
        raise SalaError(f"a schedule is one of {', '.join(SCHEDULES)}; got {schedule!r}")


CPU = Budget(20_000, validate_every=500, n_validation_episodes=200)
LONG = Budget(100_000, validate_every=2_500, n_validation_episodes=600)
PAPER = Budget(500_000, validate_every=2_500, n_validation_episodes=600)


@dataclass(frozen=True)
class Protocol:
    """Everything about an experiment that is not the method. `sala.PROTOCOLS` has one per dataset.

    Parameters
    ----------
    dataset : str
        A name of `sala.DATASETS`.
    train : EpisodeShape
        Of training episodes.
    test : mapping of str to EpisodeShape
        By name of the test setting; the first is also the shape of validation episodes.
    labeled_share : float
        The share of each training class that has labels.
    label_split_seed : int
        Draws which training images these are.
    budgets : mapping of str to Budget
        How long to train, by name: "cpu" and "paper".
    n_test_episodes : int
        Episodes of a test.
    learning_rate, n_halvings, weight_decay, optimizer, schedule : float, int, float, str, str
        Of the training; see `TrainConfig`.
    distance_scale : float, optional
        For every method that sums squared distances over the width d of the embeddings, they are multiplied by this over d.
        By default they are plain sums, as the papers print them.

    Examples
    --------
    >>> import sala
    >>> sala.PROTOCOLS["omniglot"].train.describe()
    '5-way 1-shot, 1 query and 5 unlabeled a class'
    >>> list(sala.PROTOCOLS["omniglot"].test)
    ['ren', 'large']
    """

    dataset: str
    train: EpisodeShape
    test: Mapping[str, EpisodeShape]  # by name of the test setting; the first is also the validation shape
    labeled_share: float  # of each training class; val and test classes have no such split
    label_split_seed: int = 0
    budgets: Mapping[str, Budget] = field(default_factory=lambda: {"cpu": CPU, "paper": PAPER})
    n_test_episodes: int = 1_000
    learning_rate: float = 1e-3
    n_halvings: int = 4  # of the learning rate: at each fifth of the budget
    weight_decay: float = 5e-5  # on convolution kernels only
    distance_scale: float | None = None  # squared distances times this over d, for every method; None: as printed
    optimizer: str = "adam"
    schedule: str = "halving"

    def __post_init__(self) -> None:
        if not 0 < self.labeled_share <= 1:
            raise SalaError(f"the labeled share is above 0 and at most 1; got {self.labeled_share:g}")
        check_optimization(self.learning_rate, self.weight_decay, self.optimizer, self.schedule)
        if self.distance_scale is not None and not 0 < self.distance_scale < float("inf"):
            raise SalaError(f"a distance scale is above 0, or none at all; got {self.distance_scale:g}")
        at_least(0, self.n_halvings, "the number of halvings of the learning rate")
        at_least(0, self.label_split_seed, "a seed")

    def with_shape(
        self,
        *,
        n_way: int | None = None,
        n_shot: int | None = None,
        n_distractor: int | None = None,
    ) -> Protocol:
        """The same protocol for other ways, shots or distractor classes, in training and test alike."""
        asked = {"n_way": n_way, "n_shot": n_shot, "n_distractor": n_distractor}
        given: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
        test = {name: replace(shape, **given) for name, shape in self.test.items()}
        return replace(self, train=replace(self.train, **given), test=test)

    @property
    def validation(self) -> EpisodeShape:
        """The shape of validation episodes: that of the first test setting."""
        return next(iter(self.test.values()))

    def budget(self, name: str, n_episodes: int | None = None) -> Budget:
        """One of the budgets, or that one with another number of training episodes."""
        if name not in self.budgets:
            raise SalaError(f"a budget is one of {', '.join(self.budgets)}; got {name!r}")
        budget = self.budgets[name]
        if n_episodes is None:
            return budget
        return replace(budget, n_episodes=n_episodes, validate_every=min(budget.validate_every, max(1, n_episodes)))

    def test_shape(self, setting: str | None) -> EpisodeShape:
        """The shape of a test setting; of the first one by default."""
        if setting is None:
            return self.validation
        if setting not in self.test:
            raise SalaError(f"{self.dataset} has no test setting {setting!r}; it has {', '.join(self.test)}")
        return self.test[setting]

    def to_json(self) -> dict[str, Any]:
        """Plain data, as stored with every run."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Protocol:
        """The protocol that `to_json` described."""
        return cls(
            **{
                **content,
                "train": EpisodeShape(**content["train"]),
                "test": {name: EpisodeShape(**shape) for name, shape in content["test"].items()},
                "budgets": {name: Budget(**budget) for name, budget in content["budgets"].items()},
            }
        )


# 20 images a class. `ren`: as Ren et al. test. `large`: more unlabeled images than queries, as the SALA paper wants it.
_CHARACTERS = {"ren": EpisodeShape(n_query=14, n_unlabeled=5), "large": EpisodeShape(n_query=4, n_unlabeled=15)}
_PHOTOS_TRAIN = EpisodeShape(n_query=5, n_unlabeled=15)
_PHOTOS = {"standard": EpisodeShape(n_query=15, n_unlabeled=20)}
_TEN_THOUSAND = {"cpu": replace(CPU, n_episodes=10_000), "paper": PAPER}
# Photographs have d = 1600 (or 256 at 32 x 32 pixels). Squared distances summed over so many numbers start at the scale of
# Omniglot's, where d = 64: a short training from the plain sums ends lower. Chosen on validation classes of miniImageNet by
# ProtoNet, confirmed by Soft k-Means, one seed each (benchmarks/distance_scale.py, records in results/scale)
_PHOTO_SCALE = 64.0


def _photos(dataset: str, labeled_share: float = 0.4, **more: Any) -> Protocol:
    return Protocol(dataset, _PHOTOS_TRAIN, _PHOTOS, labeled_share, distance_scale=_PHOTO_SCALE, **more)


PROTOCOLS: dict[str, Protocol] = {
    protocol.dataset: protocol
    for protocol in (
        # 10 % of 20 images is 2 labeled ones a training class: one for the support, one for the query
        Protocol(
            "omniglot",
            EpisodeShape(n_query=1, n_unlabeled=5),
            _CHARACTERS,
            labeled_share=0.1,
            budgets={"cpu": CPU, "long": LONG, "paper": PAPER},
        ),
        Protocol("glyphs", EpisodeShape(n_query=1, n_unlabeled=5), _CHARACTERS, labeled_share=0.2),
        _photos("miniimagenet", budgets=_TEN_THOUSAND),
        _photos("tieredimagenet", labeled_share=0.1),
        _photos("tiny-tiered", budgets=_TEN_THOUSAND),
        _photos("folder", budgets=_TEN_THOUSAND),
    )
}

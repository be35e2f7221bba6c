"""The paper's tables as runs of ours: a table is a list of cells, a cell is a run under the protocol and a published
number."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sala.episodes.protocol import PROTOCOLS, Protocol
from sala.errors import SalaError
from sala.methods import method_class
from sala.reproduction.published import NAMES, TABLES, VARIANTS, is_file, variant_named
from sala.training.config import RunConfig

# (dataset, budget) -> unlabeled images a class in training, for every variant alike. On photographs the protocol's own 15
# make a training step about twice as dear; a long training on characters has as many as the `large` test setting
UNLABELED = {("miniimagenet", "cpu"): 5, ("tiny-tiered", "cpu"): 5, ("omniglot", "long"): 15}
HALVINGS = {("omniglot", "long"): 7}  # of the learning rate: to 8e-6


def protocol_of(dataset: str, budget: str) -> Protocol:
    """What every run on a dataset goes through."""
    protocol, key = PROTOCOLS[dataset], (dataset, budget)
    train = replace(protocol.train, n_unlabeled=UNLABELED.get(key, protocol.train.n_unlabeled))
    return replace(protocol, train=train, n_halvings=HALVINGS.get(key, protocol.n_halvings))


@dataclass(frozen=True)
class Cell:
    """One entry of a table: a variant on a dataset."""

    dataset: str
    shots: int
    n_distractor: int
    variant: str
    published: float | None = None

    @property
    def name(self) -> str:
        """The same in every table that shows it."""
        return f"{self.dataset}-{self.shots}shot-d{self.n_distractor}-{variant_named(self.variant).slug}"

    @property
    def trained(self) -> Cell:
        """The cell whose run is measured: a method that never looks at unlabeled images is trained once,
        without distractors."""
        method = method_class(variant_named(self.variant).method)
        looks = method.trains_on_unlabeled or method.tests_on_unlabeled
        return self if looks else replace(self, n_distractor=0)

    @property
    def protocol(self) -> Protocol:
        return PROTOCOLS[self.dataset].with_shape(n_shot=self.shots, n_distractor=self.n_distractor)


@dataclass(frozen=True)
class Run:
    """A cell with a seed and a budget: one training and its test."""

    cell: Cell
    budget: str
    seed: int
    n_episodes: int | None = None  # where it is not the budget's

    @property
    def name(self) -> str:
        shorter = "" if self.n_episodes is None else f"-{self.n_episodes}episodes"
        return f"{self.cell.name}-{self.budget}{shorter}-s{self.seed}"

    @property
    def trained(self) -> Run:
        return replace(self, cell=self.cell.trained)

    @property
    def config(self) -> RunConfig:
        """What the training is asked for."""
        cell, variant = self.cell.trained, variant_named(self.cell.variant)
        protocol = protocol_of(cell.dataset, self.budget).with_shape(n_shot=cell.shots, n_distractor=cell.n_distractor)
        scale = None if variant.is_printed_scale else protocol.distance_scale
        protocol = replace(protocol, label_split_seed=self.seed, distance_scale=scale)
        budget = protocol.budget(self.budget, self.n_episodes)
        return RunConfig(variant.method, protocol, budget, self.seed, options=dict(variant.options), threads=1)

    @property
    def command(self) -> str:
        """The command for a reader that makes this run, and those of smaller seeds."""
        cell = self.cell
        tables = (t for t in TABLES.values() if t.shows(cell.variant) and cell.n_distractor == t.n_distractor)
        words = (
            f"sala reproduce {next(tables).name} --dataset {cell.dataset} --shots {cell.shots} "
            f"--variant {shlex.quote(cell.variant)}"
        )
        shorter = "" if self.n_episodes is None else f" --episodes {self.n_episodes}"
        return f"{words} --budget {self.budget}{shorter} --seeds {self.seed + 1}"


def cells_of(
    table: str, datasets: Sequence[str], shots: Sequence[int] = (), variants: Sequence[str] = ()
) -> list[Cell]:
    """The cells of a table on some datasets; `shots` and `variants` leave only those. A user's method is one more row."""
    spec = TABLES[table]
    own = [key for key in variants if is_file(key) and spec.shows(key)]
    return [
        Cell(dataset, k, spec.n_distractor, variant, spec.published.get((dataset, k), {}).get(variant))
        for dataset in datasets
        if not spec.compares_scales or PROTOCOLS[dataset].distance_scale is not None
        for k in spec.shots
        if (not shots or k in shots) and (dataset != "omniglot" or k == 1)  # two labeled images a class: no 5 shots
        for variant in (*spec.variants, *own)
        if not variants or variant in variants
    ]


def wanted_runs(
    tables: Sequence[str],
    datasets: Sequence[str],
    shots: Sequence[int],
    variants: Sequence[str],
    budget: str,
    seeds: int,
    episodes: int | None = None,
) -> list[Run]:
    """Each run once, first seeds first."""
    names = list(TABLES) if "all" in tables else list(tables)
    cells = {cell.name: cell for name in names for cell in cells_of(name, datasets, shots, variants)}
    return [Run(cell, budget, seed, episodes) for seed in range(seeds) for cell in cells.values()]


def check_names(tables: Sequence[str], datasets: Iterable[str], variants: Sequence[str]) -> None:
    """One sentence for a name that there is not."""
    own = [name for name in variants if is_file(name)]
    for name in own:
        method_class(name)  # says what is wrong with the file
    if own and not any(TABLES[name].shows(own[0]) for name in tables if name in TABLES) and "all" not in tables:
        taking = [spec.name for spec in TABLES.values() if spec.shows(own[0])]
        raise SalaError(
            f"a method of your own is a row of {', '.join(taking)}; name one of them, got {' '.join(tables)}"
        )
    for kind, names, known in (
        ("table or figure", tables, NAMES),
        ("dataset", datasets, tuple(PROTOCOLS)),
        ("variant", [name for name in variants if name not in own], (*VARIANTS, "path/to/file.py:Class")),
    ):
        if unknown := [name for name in names if name not in known]:
            raise SalaError(f"there is no {kind} {unknown[0]!r}; there are {', '.join(known)}")

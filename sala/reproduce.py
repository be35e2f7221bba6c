"""The paper's tables and figures as data: a table is a list of cells, a cell is a run under the protocol and a
published number.

Published numbers are those of the SALA paper (arXiv:2206.08150); it took the rows of the other systems from their own papers,
which measured them under other protocols. With distractors TPN's row is from TPN's own paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sala.errors import SalaError
from sala.methods import METHODS
from sala.protocol import PROTOCOLS, Protocol
from sala.runconfig import RunConfig

BASE = "soft-kmeans"  # every difference is against this arm


@dataclass(frozen=True)
class Arm:
    """A method with options, under the name that the tables give it."""

    key: str
    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)


ARMS = {
    arm.key: arm
    for arm in (
        Arm("protonet", "ProtoNet (labelled images only)", "protonet"),
        Arm("semi-inference", "ProtoNet, one soft k-means step at test", "semi-inference"),
        Arm("soft-kmeans", "Soft k-Means", "soft-kmeans"),
        Arm("soft-kmeans-cluster", "Soft k-Means+Cluster", "soft-kmeans-cluster"),
        Arm("masked-soft-kmeans", "Masked Soft k-Means", "masked-soft-kmeans"),
        Arm("metagan", "MetaGAN", "metagan"),
        Arm("tpn", "TPN", "tpn"),
        Arm("tadam", "TADAM (A: learned scale)", "tadam"),
        Arm("tadam-b", "TADAM (B: with task conditioning)", "tadam", {"variant": "B"}),
        Arm("sala", "SALA", "sala"),
        Arm("soft-kmeans-flow", "neither: Soft k-Means with gradients", "soft-kmeans", {"flow": True}),
        Arm("sala-selection", "selection only", "sala", {"metric": False}),
        Arm("sala-metric", "metric only", "sala", {"selection": False}),
        Arm("sala-constant", "control: constant weights 1/2", "sala", {"weights": "constant"}),
        Arm("sala-shared", "control: one learned vector of weights", "sala", {"weights": "shared"}),
        Arm("sala-recompute", "control: weights recomputed", "sala", {"recompute": True}),
        Arm("sala-ramp", "control: ramp over the first fifth", "sala", {"ramp": 0.2}),
        Arm("metagan-plain", "control: MetaGAN without its generator", "metagan", {"adversary": False}),
    )
}
SYSTEMS = (
    "protonet", "semi-inference", "soft-kmeans", "soft-kmeans-cluster", "masked-soft-kmeans", "metagan", "tpn", "tadam",
    "sala",
)  # fmt: skip
ABLATION = ("soft-kmeans-flow", "sala-selection", "sala-metric", "sala")
CONTROLS = ("sala-constant", "sala-shared", "sala-recompute", "sala-ramp", "metagan-plain")

# (dataset, shots) -> arm -> accuracy in percent, as printed
Published = dict[tuple[str, int], dict[str, float]]
WITHOUT: Published = {
    ("omniglot", 1): {
        "soft-kmeans": 97.25, "soft-kmeans-cluster": 97.68, "masked-soft-kmeans": 97.52, "metagan": 97.58, "sala": 98.93,
    },
    ("miniimagenet", 1): {
        "soft-kmeans": 50.09, "soft-kmeans-cluster": 49.03, "masked-soft-kmeans": 50.41, "metagan": 50.35, "tpn": 52.78,
        "sala": 54.14,
    },
    ("miniimagenet", 5): {
        "soft-kmeans": 64.59, "soft-kmeans-cluster": 63.08, "masked-soft-kmeans": 64.39, "metagan": 64.43, "tpn": 66.42,
        "sala": 67.23,
    },
    ("tieredimagenet", 1): {
        "soft-kmeans": 51.52, "soft-kmeans-cluster": 51.85, "masked-soft-kmeans": 52.39, "tpn": 55.74, "sala": 58.41,
    },
    ("tieredimagenet", 5): {
        "soft-kmeans": 70.25, "soft-kmeans-cluster": 69.42, "masked-soft-kmeans": 69.88, "tpn": 71.01, "sala": 72.24,
    },
}  # fmt: skip
WITH: Published = {
    ("omniglot", 1): {"soft-kmeans": 95.01, "soft-kmeans-cluster": 97.17, "masked-soft-kmeans": 97.30, "sala": 98.16},
    ("miniimagenet", 1): {
        "soft-kmeans": 48.70, "soft-kmeans-cluster": 48.86, "masked-soft-kmeans": 49.04, "tpn": 50.43, "sala": 51.44,
    },
    ("miniimagenet", 5): {
        "soft-kmeans": 63.55, "soft-kmeans-cluster": 61.27, "masked-soft-kmeans": 62.96, "tpn": 64.95, "sala": 64.12,
    },
    ("tieredimagenet", 1): {
        "soft-kmeans": 49.88, "soft-kmeans-cluster": 51.36, "masked-soft-kmeans": 51.38, "tpn": 53.45, "sala": 55.85,
    },
    ("tieredimagenet", 5): {
        "soft-kmeans": 68.32, "soft-kmeans-cluster": 67.56, "masked-soft-kmeans": 69.08, "tpn": 69.93, "sala": 69.45,
    },
}  # fmt: skip
MODULES: Published = {
    ("miniimagenet", 1): {"soft-kmeans-flow": 51.73, "sala-selection": 52.23, "sala-metric": 53.70, "sala": 54.14},
    ("tieredimagenet", 1): {"soft-kmeans-flow": 55.76, "sala-selection": 57.08, "sala-metric": 58.04, "sala": 58.41},
}
SCALES: Published = {
    ("miniimagenet", 1): {"tadam": 51.03, "sala-metric": 53.70},
    ("tieredimagenet", 1): {"tadam": 55.21, "sala-metric": 58.04},
}


@dataclass(frozen=True)
class TableSpec:
    """One table or figure of the paper: which arms it shows, and what was published."""

    name: str
    title: str
    arms: tuple[str, ...]
    n_distractor: int
    published: Published
    shots: tuple[int, ...] = (1,)


TABLES = {
    table.name: table
    for table in (
        TableSpec("table1", "Without distractor classes", SYSTEMS, 0, WITHOUT, (1, 5)),
        TableSpec("table2", "With 5 distractor classes", SYSTEMS, 5, WITH, (1, 5)),
        TableSpec("ablation", "SALA with and without each module, and controls", (*ABLATION, *CONTROLS), 0, MODULES),
        TableSpec("tadam", "TADAM against SALA's metric alone", ("tadam", "tadam-b", "sala-metric"), 0, SCALES),
        TableSpec("curve", "Progressive selection against all unlabelled images", ("sala", "sala-metric"), 0, {}),
        TableSpec("tsne", "A task before and after the task-adaptive metric", ("sala",), 0, {}),
    )
}
NAMES = (*TABLES, "all")
DATASETS = {"cpu": ("omniglot", "tiny-tiered"), "paper": ("omniglot", "miniimagenet", "tieredimagenet")}
# (dataset, budget) -> unlabelled images a class in training, for every arm alike, where the protocol's own number costs too
# much: 15 make a training step on photos of 32 x 32 pixels about twice as dear
UNLABELED = {("tiny-tiered", "cpu"): 5}


def protocol_of(dataset: str, budget: str) -> Protocol:
    """What every run on a dataset goes through."""
    protocol = PROTOCOLS[dataset]
    n_unlabeled = UNLABELED.get((dataset, budget), protocol.train.n_unlabeled)
    return replace(protocol, train=replace(protocol.train, n_unlabeled=n_unlabeled))


@dataclass(frozen=True)
class Cell:
    """One entry of a table: an arm on a dataset."""

    dataset: str
    shots: int
    n_distractor: int
    arm: str
    published: float | None = None

    @property
    def name(self) -> str:
        """The same in every table that shows it."""
        return f"{self.dataset}-{self.shots}shot-d{self.n_distractor}-{self.arm}"

    @property
    def trained(self) -> Cell:
        """The cell whose run is measured: a method that never looks at unlabelled images is trained once,
        without distractors."""
        method = METHODS[ARMS[self.arm].method]
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
        cell, arm = self.cell.trained, ARMS[self.cell.arm]
        protocol = protocol_of(cell.dataset, self.budget).with_shape(n_shot=cell.shots, n_distractor=cell.n_distractor)
        protocol = replace(protocol, label_split_seed=self.seed)
        budget = protocol.budget(self.budget, self.n_episodes)
        return RunConfig(arm.method, protocol, budget, self.seed, options=dict(arm.options), threads=1)

    def words(self, folder: str, root: str | None = None) -> list[str]:
        """The same as words of `sala train`."""
        cell, arm = self.cell.trained, ARMS[self.cell.arm]
        words = ["--dataset", cell.dataset, "--method", arm.method, "--shots", str(cell.shots)]
        words += ["--distractors", str(cell.n_distractor), "--budget", self.budget, "--seed", str(self.seed)]
        if n_unlabeled := UNLABELED.get((cell.dataset, self.budget)):
            words += ["--unlabeled", str(n_unlabeled)]
        words += [] if self.n_episodes is None else ["--episodes", str(self.n_episodes)]
        for name, value in arm.options.items():
            words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
        return [*words, "--threads", "1", *(["--root", root] if root else []), "--out", folder]


def cells_of(table: str, datasets: Sequence[str], shots: Sequence[int] = (), arms: Sequence[str] = ()) -> list[Cell]:
    """The cells of a table on some datasets; `shots` and `arms` leave only those."""
    spec = TABLES[table]
    return [
        Cell(dataset, k, spec.n_distractor, arm, spec.published.get((dataset, k), {}).get(arm))
        for dataset in datasets
        for k in spec.shots
        if (not shots or k in shots) and (dataset != "omniglot" or k == 1)  # two labelled images a class: no 5 shots
        for arm in spec.arms
        if not arms or arm in arms
    ]


def check_names(tables: Iterable[str], datasets: Iterable[str], arms: Iterable[str]) -> None:
    """One sentence for a name that there is not."""
    for kind, names, known in (
        ("table or figure", tables, NAMES),
        ("dataset", datasets, tuple(PROTOCOLS)),
        ("arm", arms, tuple(ARMS)),
    ):
        if unknown := [name for name in names if name not in known]:
            raise SalaError(f"there is no {kind} {unknown[0]!r}; there are {', '.join(known)}")

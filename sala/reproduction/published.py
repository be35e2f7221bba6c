"""The tables and figures of the SALA paper as data: which variants a table shows, and what was published.

Published numbers are those of the SALA paper (arXiv:2206.08150); it took the rows of the other systems from their own papers,
which measured them under other protocols. With distractors TPN's row is from TPN's own paper.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

BASE = "soft-kmeans"  # every difference is against this variant
# Omniglot has two test settings, and a published number is compared in its own: Ren et al.'s rows, and MetaGAN's on Ren's
# splits, in `ren`; SALA's, with its larger unlabeled set, in `large`. Photographs have one setting for all
PUBLISHED_SETTINGS = {
    "ren": ("soft-kmeans", "soft-kmeans-cluster", "masked-soft-kmeans", "metagan"),
    "large": ("sala",),
}


def is_measured_in(variant: str, setting: str) -> bool:
    """Whether the published number of a variant belongs to a test setting."""
    return setting not in PUBLISHED_SETTINGS or variant in PUBLISHED_SETTINGS[setting]


def is_file(variant: str) -> bool:
    """Whether it is a user's method, path/to/file.py:Class."""
    from sala.methods import plugins  # here: it brings PyTorch, and help needs the names below alone

    return plugins.is_file(variant)


@dataclass(frozen=True)
class Variant:
    """A method with options, under the name that the tables give it."""

    key: str
    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    is_printed_scale: bool = False  # distances as the papers print them, in place of the protocol's scale

    @property
    def slug(self) -> str:
        """Its part in names of files; a method from a file has another one when the file changes."""
        if not is_file(self.key):
            return self.key
        path, _, name = self.key.rpartition(":")
        return f"{name}-{hashlib.sha256(Path(path).read_bytes()).hexdigest()[:8]}"

    @property
    def as_printed(self) -> Variant:
        """The same with distances as printed."""
        return replace(self, key=f"{self.key}-printed", label=f"{self.label}, as printed", is_printed_scale=True)

    @property
    def base(self) -> str:
        """The variant that its difference is against: Soft k-Means with the same treatment of distances."""
        return f"{BASE}-printed" if self.is_printed_scale else BASE


VARIANTS = {
    variant.key: variant
    for variant in (
        Variant("protonet", "ProtoNet (labeled images only)", "protonet"),
        Variant("semi-inference", "ProtoNet, one soft k-means step at test", "semi-inference"),
        Variant("soft-kmeans", "Soft k-Means", "soft-kmeans"),
        Variant("soft-kmeans-cluster", "Soft k-Means+Cluster", "soft-kmeans-cluster"),
        Variant("masked-soft-kmeans", "Masked Soft k-Means", "masked-soft-kmeans"),
        Variant("metagan", "MetaGAN", "metagan"),
        Variant("tpn", "TPN", "tpn"),
        Variant("tadam", "TADAM (A: learned scale)", "tadam"),
        Variant("tadam-b", "TADAM (B: with task conditioning)", "tadam", {"variant": "B"}),
        Variant("sala", "SALA", "sala"),
        Variant("soft-kmeans-flow", "neither: Soft k-Means with gradients", "soft-kmeans", {"flow": True}),
        Variant("sala-selection", "selection only", "sala", {"metric": False}),
        Variant("sala-metric", "metric only", "sala", {"selection": False}),
        Variant("sala-constant", "control: constant weights 1/2", "sala", {"weights": "constant"}),
        Variant("sala-shared", "control: one learned vector of weights", "sala", {"weights": "shared"}),
        Variant("sala-recompute", "control: weights recomputed", "sala", {"recompute": True}),
        Variant("sala-ramp", "control: ramp over the first fifth", "sala", {"ramp": 0.2}),
        Variant("metagan-plain", "control: MetaGAN without its generator", "metagan", {"adversary": False}),
    )
}
SYSTEMS = (
    "protonet", "semi-inference", "soft-kmeans", "soft-kmeans-cluster", "masked-soft-kmeans", "metagan", "tpn", "tadam",
    "sala",
)  # fmt: skip
VARIANTS |= {variant.key: variant for variant in [VARIANTS[key].as_printed for key in VARIANTS]}
VARIANTS |= {  # after that: options beyond the papers have no distances as printed
    variant.key: variant
    for variant in (
        Variant("protonet-swap", "ProtoNet, support and query swapped", "protonet", {"swap": True}),
        Variant("soft-kmeans-2-steps", "Soft k-Means, 2 refinement steps", "soft-kmeans", {"n_refinement_steps": 2}),
        Variant("soft-kmeans-3-steps", "Soft k-Means, 3 refinement steps", "soft-kmeans", {"n_refinement_steps": 3}),
        Variant("soft-kmeans-swap", "Soft k-Means, support and query swapped", "soft-kmeans", {"swap": True}),
        Variant(
            "masked-soft-kmeans-2-steps",
            "Masked Soft k-Means, 2 refinement steps",
            "masked-soft-kmeans",
            {"n_refinement_steps": 2},
        ),
        Variant("sala-2-steps", "SALA, 2 refinement steps", "sala", {"n_refinement_steps": 2}),
        Variant("sala-3-steps", "SALA, 3 refinement steps", "sala", {"n_refinement_steps": 3}),
        Variant("sala-swap", "SALA, support and query swapped", "sala", {"swap": True}),
    )
}
BEYOND = (
    "protonet", "protonet-swap", "soft-kmeans", "soft-kmeans-2-steps", "soft-kmeans-3-steps", "soft-kmeans-swap",
    "masked-soft-kmeans", "masked-soft-kmeans-2-steps", "sala", "sala-2-steps", "sala-3-steps", "sala-swap",
)  # fmt: skip
SCALED = ("protonet", "semi-inference", "soft-kmeans", "masked-soft-kmeans", "tadam", "soft-kmeans-flow",
          "sala-selection", "sala-metric", "sala-constant", "sala")  # fmt: skip
PRINTED = tuple(key for scaled in SCALED for key in (scaled, f"{scaled}-printed"))
ABLATION = ("soft-kmeans-flow", "sala-selection", "sala-metric", "sala")
CONTROLS = ("sala-constant", "sala-shared", "sala-recompute", "sala-ramp", "metagan-plain")

# (dataset, shots) -> variant -> accuracy in percent, as printed
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


def variant_named(key: str) -> Variant:
    """A row of the tables, or a user's method from path/to/file.py:Class."""
    if key in VARIANTS or not is_file(key):
        return VARIANTS[key]
    return Variant(key, key.rpartition(":")[2], key)


@dataclass(frozen=True)
class TableSpec:
    """One table or figure of the paper: which variants it shows, and what was published."""

    name: str
    title: str
    variants: tuple[str, ...]
    n_distractor: int
    published: Published
    shots: tuple[int, ...] = (1,)

    def shows(self, variant: str) -> bool:
        """Whether it has this row, or would take it: a user's method is compared with all systems."""
        return variant in self.variants or (is_file(variant) and self.variants == SYSTEMS)

    @property
    def compares_scales(self) -> bool:
        """Whether it shows variants with distances as printed: only where the protocol has another scale."""
        return any(VARIANTS[key].is_printed_scale for key in self.variants)


TABLES = {
    table.name: table
    for table in (
        TableSpec("table1", "Without distractor classes", SYSTEMS, 0, WITHOUT, (1, 5)),
        TableSpec("table2", "With 5 distractor classes", SYSTEMS, 5, WITH, (1, 5)),
        TableSpec("ablation", "SALA with and without each module, and controls", (*ABLATION, *CONTROLS), 0, MODULES),
        TableSpec("tadam", "TADAM against SALA's metric alone", ("tadam", "tadam-b", "sala-metric"), 0, SCALES),
        TableSpec(
            "scale", "Distances at the protocol's scale and as printed, without distractors", PRINTED, 0, {}, (1, 5)
        ),
        TableSpec("scale-distractors", "The same with 5 distractor classes", PRINTED, 5, {}, (1, 5)),
        TableSpec("beyond", "Beyond the paper: more refinement steps, swapped support and query", BEYOND, 0, {}),
        TableSpec("curve", "Progressive selection against all unlabeled images", ("sala", "sala-metric"), 0, {}),
        TableSpec("learning", "Speed of learning: SALA and Soft k-Means", ("sala", BASE), 0, {}),
        TableSpec("learning-distractors", "The same with 5 distractor classes", ("sala", BASE), 5, {}),
        TableSpec("tsne", "A task before and after the task-adaptive metric", ("sala",), 0, {}),
    )
}
NAMES = (*TABLES, "all")
DATASETS = {
    "cpu": ("miniimagenet", "omniglot", "tiny-tiered"),
    "long": ("omniglot",),
    "paper": ("miniimagenet", "omniglot", "tieredimagenet"),
}

"""What each part of the classifier is worth: the four columns of the benchmark with one part left out at a time.

    SALA_DATA=FILES python benchmarks/labeling/ablation.py    # writes results/practice/ablation.json

Means over sets; beside each, the mean difference to the classifier as it is, and its 95 % interval over sets (t).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from draws import Draw, data_root
from judge import measure
from pools import interval, write
from sets import load_sets
from torch import Tensor
from varied import COLUMNS, columns

from sala.classifier import coefficients, fit, mixture, neighbors
from sala.classifier.calibration import TYPICAL
from sala.classifier.config import ClassifierConfig

Part = tuple[
    str, dict[str, Any], dict[str, float], dict[str, Any]
]  # name, config, coefficients, functions by their place


def _own_part_kept(x: Tensor, sums: Tensor, weights: Tensor) -> Tensor:
    return x @ (sums / sums.norm(dim=-1, keepdim=True).clamp_min(1e-12)).T


def _equal_scales(features: list[Tensor], center: Tensor) -> Tensor:
    return torch.ones_like(center)


PARTS: tuple[Part, ...] = (
    ("as it is", {}, {}, {}),
    ("labeled images alone, no EM", {"n_steps": 0}, {}, {}),
    ("no whitening", {"n_directions": 0}, {}, {}),
    ("no linear classifier", {}, {"LINEAR_SHARE": 0.0, "INLIER_SHARE": 0.0}, {}),
    ("no further linear share for inliers", {}, {"INLIER_SHARE": 0.0}, {}),
    ("no neighbors", {}, {}, {"neighbors.Neighborhood.mean_value": lambda self, x, step=0: x.new_zeros(len(x))}),
    ("no likeness to labeled images", {}, {}, {"mixture.Mixture.likeness": lambda self, x: x.new_zeros(len(x))}),
    ("equal class sizes", {}, {"SIZE_PRIOR": 1e9}, {}),
    ("dimension d, not the effective one", {}, {}, {"mixture.effective_dimension": lambda x: float(x.shape[1])}),
    ("no outlier component", {}, {"OUTLIER_SHARE": 1e-6, "OUTLIER_SHARE_PRIOR": 1e9}, {}),
    ("own part in the prototypes", {}, {}, {"mixture.leave_one_out_similarities": _own_part_kept}),
    ("features not scaled", {}, {}, {"fit.scale_of": _equal_scales}),
    ("one temperature for all pools", {}, {}, {"fit.temperature_prior": lambda *_: TYPICAL}),
    ("temperature by its prior alone", {"prior_strength": 1e9}, {}, {}),
)  # fmt: skip
MODULES = {"fit": fit, "mixture": mixture, "neighbors": neighbors}


@contextmanager
def without(part: Part) -> Iterator[ClassifierConfig]:
    """The classifier without a part."""
    _, config, numbers, functions = part
    with ExitStack() as stack:
        for name, value in numbers.items():
            stack.enter_context(patch.object(coefficients, name, value))
        for place, function in functions.items():
            module, *owner, name = place.split(".")
            target = getattr(MODULES[module], owner[0]) if owner else MODULES[module]
            stack.enter_context(patch.object(target, name, function))
        yield ClassifierConfig(n_suggestions=0, **config)


def measured(draw: Draw, part: Part) -> dict[str, float | None]:
    with without(part) as config:
        pool = fit.fit_pool(draw.support, draw.labels, draw.pool, config=config).pool
    return measure((pool.probabilities, pool.outlier_probability), draw.truth)


def summary(found: dict[str, dict[str, list[dict[str, float | None]]]], key: str, column: str) -> Callable[[str], Any]:
    """The mean over sets of a part, and its difference to the whole with an interval."""

    def by_set(part: str) -> np.ndarray:
        values = [[m[key] for m in drawn if m[key] is not None] for drawn in found[part].values()]
        return np.array([np.mean(v) for v in values if v])

    def of(part: str) -> Any:
        own = by_set(f"{part}|{column}")
        if not len(own):
            return None
        difference = interval((own - by_set(f"{PARTS[0][0]}|{column}")).tolist())
        return {"mean": float(own.mean()), "difference": difference}

    return of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3, help="of each column and set")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, dict[str, list[dict[str, float | None]]]] = {}
    for name, image_set in load_sets(data_root()).items():
        for column in COLUMNS:
            for draw in columns(image_set, column, args.draws, args.seed):
                for part in PARTS:
                    found.setdefault(f"{part[0]}|{column}", {}).setdefault(name, []).append(measured(draw, part))
        print(name, file=sys.stderr, flush=True)
    results = {
        part[0]: {
            column: {key: summary(found, key, column)(part[0]) for key in ("accuracy", "ece", "auroc", "covered")}
            for column in COLUMNS
        }
        for part in PARTS
    }
    write("ablation.json", {**vars(args), "results": results})


if __name__ == "__main__":
    main()

"""What known outliers bring: the two columns with outliers, with 0, 1, 5 and 15 of a pool's outliers known.

    SALA_DATA=FILES python benchmarks/labeling/known.py    # writes results/practice/known.json

Known outliers are drawn at random and taken out of the pool. Rejection is that of `sala label`, with 0.9 asked. Gains are to
the same draw without known outliers, averaged over the draws of a set; intervals are over sets (t).
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import torch
from calibrate import N_KNOWN, draws_of
from draws import Draw, data_root
from judge import in_hindsight
from pools import ASKED, interval, write
from sets import load_sets
from sklearn.metrics import roc_auc_score

from sala.classifier.fit import ClassifierConfig, fit_pool

COLUMNS = ("1 shot, outliers", "5 shots, outliers")
Measures = dict[str, float]
BySet = dict[str, list[Measures]]  # of each draw of a set


def measured(draw: Draw, known: np.ndarray) -> Measures:
    """AUROC of the rest of the pool, and how many images are rejected, outliers among them, and outliers in the pool."""
    fitted = fit_pool(draw.support, draw.labels, draw.pool, outliers=known, config=ClassifierConfig(n_suggestions=0))
    score, is_outlier = fitted.pool.outlier_probability.astype(np.float64), draw.truth < 0
    is_rejected = score > fitted.rejection_threshold(ASKED)
    return {
        "auroc": float(roc_auc_score(is_outlier, score)),
        "rejected": int(is_rejected.sum()),
        "right": int((is_rejected & is_outlier).sum()),
        "outliers": int(is_outlier.sum()),
        "hindsight": in_hindsight(score, is_outlier, ASKED),
    }


def summary(found: BySet, without: BySet) -> dict[str, Any]:
    """AUROC and its gain over sets; precision and recall of each set, its draws taken together."""
    auroc = {name: np.array([m["auroc"] for m in drawn]) for name, drawn in found.items()}
    before = {name: np.array([m["auroc"] for m in without[name]]) for name in found}
    totals = {name: {key: sum(m[key] for m in drawn) for key in drawn[0]} for name, drawn in found.items()}
    return {
        "auroc": interval([float(values.mean()) for values in auroc.values()]),
        "gained": interval([float((auroc[name] - before[name]).mean()) for name in found]),
        "precision": {name: t["right"] / t["rejected"] for name, t in totals.items() if t["rejected"]},
        "recall": {name: t["right"] / t["outliers"] for name, t in totals.items()},
        "recall in hindsight": {name: t["hindsight"] / t["outliers"] for name, t in totals.items()},
        "sets": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2, help="of each column and set")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, dict[int, BySet]] = {column: {n: {} for n in (0, *N_KNOWN)} for column in COLUMNS}
    for name, image_set in load_sets(data_root()).items():
        for kind, draw, known in draws_of(image_set, args.draws, 0, args.seed):
            column = kind.removesuffix(f", {len(known)} known")
            if column in COLUMNS:
                found[column][len(known)].setdefault(name, []).append(measured(draw, known))
        print(name, file=sys.stderr, flush=True)
    results = {
        column: {str(n): summary(by_set, by_known[0]) for n, by_set in by_known.items()}
        for column, by_known in found.items()
    }
    write("known.json", {**vars(args), "asked_precision": ASKED, "results": results})


if __name__ == "__main__":
    main()

"""Fit the classifier's calibration on pools of many shapes from many image sets, and judge it on sets left out.

    SALA_DATA=FILES python benchmarks/labeling/calibrate.py            # prints; writes results/practice/calibration.json
    SALA_DATA=FILES python benchmarks/labeling/calibrate.py --write    # and the numbers into sala/classifier/coefficients.py

Three things are fitted: the temperature's prior and its strength (negative log-likelihood of the true classes), the log-odds
of outliers (logistic regression) and the caution of rejection (precision). Each is fitted once for each set without it, which
gives the figures, and once on all sets, which gives the numbers that are shipped. Every task counts the same.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from draws import Draw, data_root
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sets import load_sets
from sklearn.linear_model import LogisticRegression
from varied import COLUMNS, columns, varied

from sala.classifier import coefficients
from sala.classifier.calibration import fit_temperature, pool_statistics
from sala.classifier.config import ClassifierConfig
from sala.classifier.fit import TaskFeatures, held_out_of
from sala.classifier.mixture import log_odds
from sala.classifier.neighbors import fit_neighborhood
from sala.classifier.normalize import normalized, to_tensor
from sala.classifier.pipeline import ClassifiedPool
from sala.classifier.rejection import caution, rejected_rows

STRENGTHS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
CAUTIONS = tuple(0.25 * i for i in range(13))
PRECISIONS = (0.8, 0.9, 0.95)
LARGEST_POOL = 1_500
FILE = Path(coefficients.__file__)


@dataclass(frozen=True)
class Task:
    """One pool, as far as calibration sees it."""

    image_set: str
    kind: str  # a column of the benchmark, or "varied"
    n_shot: float
    statistics: tuple[float, ...]
    logits: np.ndarray  # [n, k]
    terms: np.ndarray  # [n, 3], of the log-odds of outliers
    truth: np.ndarray  # [n], -1: outlier
    held_out_logits: np.ndarray  # [m, k]
    held_out_terms: np.ndarray  # [m, 3]
    held_out_labels: np.ndarray  # [m]
    covers_all: bool  # whether every class has images to hold out


@torch.inference_mode()
def task_of(image_set: str, kind: str, draw: Draw) -> Task:
    config = ClassifierConfig(n_suggestions=0)
    labels = torch.from_numpy(draw.labels)
    pool = to_tensor(draw.pool)
    features = TaskFeatures(to_tensor(draw.support), labels, pool, pool[:0])
    center, scale = features.normalization()
    found = features.classify(center, scale, config)
    support = normalized(features.support, center, scale)
    terms, (held_out, covered, held_terms) = _pool_terms(found), _held_out(features, support, config)
    return Task(
        image_set, kind, len(labels) / (int(labels.max()) + 1), pool_statistics(found), found.posterior.logits.numpy(),
        terms, draw.truth, held_out.logits.numpy(), held_terms, held_out.labels.numpy(), covered,
    )  # fmt: skip


def _held_out(features: TaskFeatures, support: torch.Tensor, config: ClassifierConfig) -> tuple[Any, bool, np.ndarray]:
    """Held-out images, and their terms: the log-odds of a fold are linear in the coefficients, so three fits give them."""
    shipped, columns = coefficients.OUTLIERS, []
    try:
        for basis in ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)):
            coefficients.OUTLIERS = basis
            held_out = held_out_of(features, support, config)
            columns.append(held_out.outlier_log_odds.double().numpy())
    finally:
        coefficients.OUTLIERS = shipped
    covered = len(held_out.labels.unique()) == int(features.labels.max()) + 1
    return held_out, covered, np.stack([np.ones(len(held_out.labels)), *columns], 1)


def _pool_terms(found: ClassifiedPool) -> np.ndarray:
    evidence = found.mixture.standardized(found.posterior.evidence)
    _, around = fit_neighborhood(found.embeddings, evidence)
    share = torch.full_like(evidence, log_odds(found.mixture.outlier_share))
    return torch.stack([torch.ones_like(evidence), evidence + around, share], 1).double().numpy()


def collect(root: Path, n_columns: int, n_varied: int, seed: int) -> list[Task]:
    tasks = []
    for name, image_set in load_sets(root).items():
        for column in COLUMNS:
            tasks += [task_of(name, column, draw) for draw in columns(image_set, column, n_columns, seed)]
        for draw in varied(image_set, n_varied, seed):
            if 0 < len(draw.pool) <= LARGEST_POOL:
                tasks.append(task_of(name, "varied", draw))
        print(f"{name}: {len(tasks)} tasks so far", file=sys.stderr, flush=True)
    return tasks


def fit_prior(tasks: Sequence[Task]) -> tuple[float, ...]:
    """Coefficients of the temperature's prior: log-likelihood of the inliers' classes, with a weak pull toward zero."""
    grid = np.linspace(-5, 1, 31)
    some = [task for task in tasks if (task.truth >= 0).any() and task.logits.shape[1] > 1]
    losses = np.array([[mean_nll(task, math.exp(g)) for g in grid] for task in some])
    x = np.array([task.statistics for task in some])

    def loss(w: np.ndarray) -> float:
        at = np.clip(x @ w, grid[0], grid[-1])
        return float(np.mean([np.interp(a, grid, row) for a, row in zip(at, losses, strict=True)])) + 1e-3 * float(
            w[1:] @ w[1:]
        )

    start = np.array([float(np.median(grid[losses.argmin(1)])), *[0.0] * (x.shape[1] - 1)])
    return tuple(minimize(loss, start, method="Powell").x.tolist())


def mean_nll(task: Task, beta: float) -> float:
    is_inlier = task.truth >= 0
    log_p = log_softmax(beta * task.logits[is_inlier].astype(np.float64), -1)
    return float(-log_p[np.arange(len(log_p)), task.truth[is_inlier]].mean())


def beta_of(task: Task, prior: Sequence[float], strength: float) -> float:
    beta = math.exp(min(max(float(np.dot(prior, task.statistics)), math.log(0.02)), math.log(2)))
    logits, labels = torch.from_numpy(task.held_out_logits), torch.from_numpy(task.held_out_labels)
    return fit_temperature(logits, labels, beta, strength)


def fit_strength(tasks: Sequence[Task], prior: Sequence[float]) -> float:
    some = [task for task in tasks if len(task.held_out_labels) and (task.truth >= 0).any()]
    return min(STRENGTHS, key=lambda s: np.mean([mean_nll(task, beta_of(task, prior, s)) for task in some]))


def fit_outliers(tasks: Sequence[Task]) -> tuple[float, ...]:
    """Logistic regression of being an outlier, each task with the same weight."""
    x, y = np.concatenate([task.terms for task in tasks]), np.concatenate([task.truth < 0 for task in tasks])
    w = np.concatenate([np.full(len(task.truth), 1 / len(task.truth)) for task in tasks])
    fitted = LogisticRegression(C=1e4, max_iter=500).fit(x[:, 1:], y, sample_weight=w)
    return (float(fitted.intercept_[0]), *fitted.coef_[0].tolist())


def rejections(
    task: Task, outliers: Sequence[float], cautious: Sequence[float], precision: float
) -> np.ndarray:  # rows, bool
    pool, held_out = (terms @ np.array(outliers) for terms in (task.terms, task.held_out_terms))
    held_out = held_out if task.covers_all else held_out[:0]
    return rejected_rows(pool, held_out, precision, caution(len(held_out), cautious))


def precision_by_set(tasks: Iterable[tuple[Task, np.ndarray]]) -> dict[str, tuple[float, int]]:
    """Mean share of outliers among the rejected over the draws that reject something, and their number."""
    found: dict[str, list[float]] = {}
    for task, is_rejected in tasks:
        if is_rejected.any():
            found.setdefault(task.image_set, []).append(float((task.truth[is_rejected] < 0).mean()))
    return {name: (float(np.mean(values)), len(values)) for name, values in found.items()}


def fit_caution(tasks: Sequence[Task], outliers: Sequence[float]) -> tuple[float, float]:
    """The least caution with which each set keeps each precision, less 0.05; sets with five draws that reject count."""
    few = [task for task in tasks if task.covers_all]
    for total in sorted({a + b / 5 for a in CAUTIONS for b in (0.0, *CAUTIONS[::2])}):
        for b in (0.0,):
            pair = (total, b)
            kept = True
            for p in PRECISIONS:
                found = precision_by_set((task, rejections(task, outliers, pair, p)) for task in few)
                kept = kept and all(value >= p - 0.03 for value, n in found.values() if n >= 5)
            if kept:
                return pair
    return (CAUTIONS[-1], 0.0)


def left_out(tasks: list[Task], fit: Callable[[list[Task]], Any]) -> dict[str, Any]:
    """What is fitted without each set."""
    return {
        name: fit([task for task in tasks if task.image_set != name])
        for name in sorted({task.image_set for task in tasks})
    }


def rounded(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(value, 3) for value in values)


def write(found: dict[str, Any]) -> None:
    """The fitted numbers into coefficients.py."""
    text = FILE.read_text(encoding="utf-8")
    for name, value in found.items():
        text, n = re.subn(rf"^({name}(?:: [^=]+)?) = [^#\n]*?(  #.*)?$", rf"\1 = {value}\2", text, flags=re.MULTILINE)
        assert n == 1, name
    FILE.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=6, help="of each column and set")
    parser.add_argument("--varied", type=int, default=20, help="draws of all shapes, of each set")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--write", action="store_true", help="change coefficients.py")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tasks = collect(data_root(), args.draws, args.varied, args.seed)
    prior = fit_prior(tasks)
    outliers = fit_outliers(tasks)
    found = {
        "TEMPERATURE": rounded(prior),
        "TEMPERATURE_STRENGTH": fit_strength(tasks, prior),
        "OUTLIERS": rounded(outliers),
        "CAUTION": fit_caution(tasks, outliers),
    }
    print(json.dumps(found, indent=1))
    if args.write:
        write(found)


if __name__ == "__main__":
    main()

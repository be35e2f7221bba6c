"""Fit the classifier's calibration on pools of many shapes from many image sets, and judge it on sets left out.

    SALA_DATA=FILES python benchmarks/labeling/calibrate.py            # prints; writes results/practice/calibration.json
    SALA_DATA=FILES python benchmarks/labeling/calibrate.py --write    # and the numbers into sala/classifier/coefficients.py

Three things are fitted: the accuracy that is expected of a pool by its agreement with itself (least squares of log-odds), the
strength of the temperature's prior (likelihood of the true classes), and the log-odds of outliers (logistic regression; pools
without outliers and with known ones are among them). Each is fitted once for each set without it,
which gives the figures, and once on all sets, which gives the numbers that are shipped. Every task counts the same.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from calibration import calibration_gap
from draws import Draw, data_root
from pools import write as write_record
from scipy.special import expit, log_softmax
from sets import ImageSet, load_sets
from sklearn.linear_model import LogisticRegression
from varied import COLUMNS, FEW, columns, few_classes, varied

from sala.classifier import coefficients
from sala.classifier.calibration import SHARES, fit_temperature, outlier_terms, temperature_prior
from sala.classifier.config import ClassifierConfig
from sala.classifier.fit import TaskFeatures, held_out_of, pool_agreement
from sala.classifier.mixture import log_odds
from sala.classifier.normalize import normalized, to_tensor

STRENGTHS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
N_KNOWN = (1, 5, 15)  # known outliers, taken out of a pool that has three times as many
LARGEST_POOL = 1_500
FILE = Path(coefficients.__file__)


@dataclass(frozen=True)
class Task:
    """One pool, as far as calibration sees it."""

    image_set: str
    kind: str  # a column of the benchmark, "few classes" or "varied"
    logits: np.ndarray  # [n, k]
    agreement: tuple[float, float, list[float]]  # of the pool with itself, as the temperature's prior takes it
    evidence: np.ndarray  # [n, 2], of outliers
    n_known: int
    truth: np.ndarray  # [n], -1: outlier
    held_out_logits: np.ndarray  # [m, k]
    held_out_labels: np.ndarray  # [m]


@torch.inference_mode()
def task_of(image_set: str, kind: str, draw: Draw, known: np.ndarray) -> Task:
    config = ClassifierConfig(n_suggestions=0)
    labels = torch.from_numpy(draw.labels)
    features = TaskFeatures(to_tensor(draw.support), labels, to_tensor(draw.pool), to_tensor(known))
    center, scale = features.normalization()
    found = features.classify(center, scale, config)
    held_out = held_out_of(features, normalized(features.support, center, scale), config)
    return Task(
        image_set, kind, found.posterior.logits.double().numpy(), pool_agreement(features, found, center, scale, config),
        found.outlier_evidence.double().numpy(), len(known), draw.truth,
        held_out.logits.numpy(), held_out.labels.numpy(),
    )  # fmt: skip


def draws_of(image_set: ImageSet, n_columns: int, n_varied: int, seed: int) -> Iterator[tuple[str, Draw, np.ndarray]]:
    """Pools, and known outliers of each: none, or some that were taken out of it."""
    for column in COLUMNS:
        for i, draw in enumerate(columns(image_set, column, n_columns, seed)):
            yield column, draw, draw.pool[:0]
            outliers = np.random.default_rng([seed, i]).permutation(np.flatnonzero(draw.truth < 0))
            for n in N_KNOWN:
                if len(outliers) >= 3 * n:
                    rest = np.setdiff1d(np.arange(len(draw.truth)), outliers[:n])
                    fewer = replace(draw, pool=draw.pool[rest], truth=draw.truth[rest])
                    yield f"{column}, {n} known", fewer, draw.pool[outliers[:n]]
    for column in FEW:
        for draw in few_classes(image_set, column, 6, seed):
            yield column, draw, draw.pool[:0]
    for draw in varied(image_set, n_varied, seed):
        if 0 < len(draw.pool) <= LARGEST_POOL:
            yield "varied", draw, draw.pool[:0]


def fit_accuracy(tasks: Sequence[Task]) -> tuple[float, ...]:
    """Log-odds of the accuracy over inliers, by those of the agreement: least squares."""
    some = [task for task in tasks if (task.truth >= 0).any() and task.logits.shape[1] > 1]
    x = [(1.0, log_odds(min(max(task.agreement[0], SHARES[0]), SHARES[1]))) for task in some]
    y = [log_odds(min(max(accuracy(task), SHARES[0]), SHARES[1])) for task in some]
    return tuple(np.linalg.lstsq(np.array(x), np.array(y))[0].tolist())


def accuracy(task: Task) -> float:
    is_inlier = task.truth >= 0
    return float((task.logits.argmax(1) == task.truth)[is_inlier].mean())


def mean_nll(task: Task, beta: float) -> float:
    is_inlier = task.truth >= 0
    log_p = log_softmax(beta * task.logits[is_inlier], -1)
    return float(-log_p[np.arange(len(log_p)), task.truth[is_inlier]].mean())


def beta_of(task: Task, expected: tuple[float, ...], strength: float) -> float:
    with patch.object(coefficients, "ACCURACY", expected):
        prior = temperature_prior(*task.agreement)
    return fit_temperature(
        torch.from_numpy(task.held_out_logits), torch.from_numpy(task.held_out_labels), prior, strength
    )


def terms_of(task: Task, beta: float) -> np.ndarray:  # [n, 6], of the log-odds of outliers
    p = torch.from_numpy(beta * task.logits).softmax(-1)
    return outlier_terms(torch.from_numpy(task.evidence), p, task.n_known).numpy()


def fit_calibration(tasks: Sequence[Task]) -> dict[str, Any]:
    """All that is fitted, rounded as it is shipped."""
    expected = fit_accuracy(tasks)
    some = [task for task in tasks if len(task.held_out_labels) and (task.truth >= 0).any()]
    strength = min(STRENGTHS, key=lambda s: np.mean([mean_nll(task, beta_of(task, expected, s)) for task in some]))
    x = np.concatenate([terms_of(task, beta_of(task, expected, strength)) for task in tasks])
    y = np.concatenate([task.truth < 0 for task in tasks])
    w = np.concatenate([np.full(len(task.truth), 1 / len(task.truth)) for task in tasks])
    fitted = LogisticRegression(C=1e3, max_iter=500).fit(x[:, 1:], y, sample_weight=w)
    outliers = (float(fitted.intercept_[0]), *fitted.coef_[0].tolist())
    return {"ACCURACY": _rounded(expected), "TEMPERATURE_STRENGTH": strength, "OUTLIERS": _rounded(outliers)}


def judge(tasks: Sequence[Task], fit: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Calibration errors by kind, with the numbers that `fit` gives for a set: of classes over inliers, of outliers."""
    found: dict[str, dict[str, list[float]]] = {}
    for task in tasks:
        numbers, is_inlier = fit(task.image_set), task.truth >= 0
        kept = found.setdefault(task.kind, {"classes": [], "outliers": []})
        beta = beta_of(task, numbers["ACCURACY"], numbers["TEMPERATURE_STRENGTH"])
        if is_inlier.any():
            p = np.exp(log_softmax(beta * task.logits[is_inlier], -1))
            kept["classes"].append(calibration_gap(p.max(1), p.argmax(1) == task.truth[is_inlier]))
        outlier = expit(terms_of(task, beta) @ np.array(numbers["OUTLIERS"]))
        kept["outliers"].append(calibration_gap(outlier, ~is_inlier))
    return {kind: {key: round(float(np.mean(v)), 4) for key, v in errors.items()} for kind, errors in found.items()}


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(value, 3) for value in values)


def write_coefficients(found: dict[str, Any]) -> None:
    text = FILE.read_text(encoding="utf-8")
    for name, value in found.items():
        text, n = re.subn(rf"^({name}(?:: [^=]+)?) = [^#\n]*?(  #.*)?$", rf"\1 = {value}\2", text, flags=re.MULTILINE)
        assert n == 1, name
    FILE.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=6, help="of each column and set")
    parser.add_argument("--varied", type=int, default=24, help="draws of all shapes, of each set")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--write", action="store_true", help="change coefficients.py")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tasks: list[Task] = []
    for name, image_set in load_sets(data_root()).items():
        tasks += [task_of(name, *drawn) for drawn in draws_of(image_set, args.draws, args.varied, args.seed)]
        print(f"{name}: {len(tasks)} tasks so far", file=sys.stderr, flush=True)
    names = sorted({task.image_set for task in tasks})
    left_out = {name: fit_calibration([task for task in tasks if task.image_set != name]) for name in names}
    numbers = fit_calibration(tasks)
    errors = {"sets left out": judge(tasks, left_out.__getitem__), "all sets": judge(tasks, lambda _: numbers)}
    write_record("calibration.json", {**vars(args), "numbers": numbers, "left out": left_out, "errors": errors})
    print(json.dumps({"numbers": numbers, "errors": errors}, indent=1))
    if args.write:
        write_coefficients(numbers)


if __name__ == "__main__":
    main()

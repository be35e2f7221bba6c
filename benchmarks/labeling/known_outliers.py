"""Fit the evidence of known outliers, `OutlierModel.known_outlier_evidence`, and measure what known outliers are worth.

    SALA_DATA=... python benchmarks/labeling/known_outliers.py fit       # writes results/practice/known-outliers.json
    SALA_DATA=... python benchmarks/labeling/known_outliers.py measure   # other photos: .../known-outliers-caltech.json

`fit` needs tiny-imagenet in $SALA_DATA, of which no test class is looked at, and Omniglot's background alphabets; `measure`
needs caltech/caltech-16.zip, of whose background photos some are known outliers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from draws import BACKGROUND, Draw, caltech, data_root, draws
from outlier_evidence import Tested, auroc_of, logistic, quality_of, tested_by
from pools import interval, write
from tasks import COUNTS, tasks

from sala.classifier import outlier_coefficients
from sala.classifier.fit import ClassifierConfig, Fitted, fit_pool
from sala.classifier.normalize import Floats, normalized, to_tensor
from sala.classifier.rejection import log_odds

MOST = (1, 2, 4, 8, 16, 32)  # known outliers, or half of the outliers if that is less
MIN_INLIERS, MIN_OUTLIERS = 5, 4  # images that a pool must have


@dataclass(frozen=True)
class Task:
    """A draw some of whose outliers are known, and not in its pool."""

    draw: Draw
    outliers: Floats  # [m, d]
    is_one_kind: bool = False


def with_known_outliers(made: Iterable[Draw], seed: int) -> Iterator[Task]:
    """In a third of the tasks drawn at random; in another rather those of low outlier probability, as a user finds them among
    a class; and in the last third all of one kind, an image and those most similar to it."""
    for i, draw in enumerate(made):
        rng, outliers = np.random.default_rng([seed, i]), np.flatnonzero(draw.truth < 0)
        if len(outliers) < MIN_OUTLIERS or (draw.truth >= 0).sum() < MIN_INLIERS:
            continue
        n, fitted = min(int(rng.choice(MOST)), len(outliers) // 2), fit_without(draw)
        if i % 3 == 2:
            x = embedded(fitted, draw.pool[outliers]).numpy()
            nearest = np.argsort(-x @ x[rng.integers(len(outliers))])
            yield replace(task_of(draw, outliers[nearest[:n]]), is_one_kind=True)
        else:
            chances = (1 - fitted.pool.outlier_probability[outliers].astype(np.float64)) ** (3 * (i % 3)) + 1e-6
            yield task_of(draw, rng.choice(outliers, n, replace=False, p=chances / chances.sum()))


def task_of(draw: Draw, rows: np.ndarray) -> Task:
    rest = np.setdiff1d(np.arange(len(draw.truth)), rows)
    return Task(replace(draw, pool=draw.pool[rest], truth=draw.truth[rest]), draw.pool[rows])


def terms(task: Task) -> tuple[np.ndarray, np.ndarray]:  # -> [n, 4], [n]
    """The terms that the evidence is linear in, and the log-odds without it."""
    fitted = fit_without(task.draw)
    model = fitted.model.outlier_detector.model
    pool, outliers = (embedded(fitted, part) for part in (task.draw.pool, task.outliers))
    d = model.nearness(pool @ outliers.T).double().numpy()
    log_m = np.full(len(d), np.log(model.kinds(outliers @ outliers.T)))
    return np.column_stack([np.ones(len(d)), log_m, d, d * log_m]), log_odds(fitted.pool.outlier_probability)


def embedded(fitted: Fitted, features: Floats) -> torch.Tensor:
    return normalized(to_tensor(features), fitted.model.center, fitted.model.scale)


def fit_without(draw: Draw) -> Fitted:
    return fit_pool(draw.support, draw.labels, draw.pool, config=ClassifierConfig(n_suggestions=0))


def fit(tasks: dict[str, list[Task]]) -> tuple[float, ...]:
    """The coefficients of the log-odds of outliers beyond those without known outliers."""
    parts = []
    for name, made in tasks.items():
        for task in made:
            x, offset = terms(task)
            parts.append((x, offset, task.draw.truth < 0, np.full(len(x), COUNTS[name] / len(x))))
    return tuple(logistic(*map(np.concatenate, zip(*parts, strict=True))).round(2).tolist())


def measured(tasks: list[Task]) -> dict[str, Any]:
    """Quality on the rest of the pool, without and with known outliers."""
    found: dict[str, list[Tested]] = {"without": [], "with": []}
    for task in tasks:
        draw = task.draw
        for name, outliers in (("without", None), ("with", task.outliers)):
            config = ClassifierConfig(n_suggestions=0)
            fitted = fit_pool(draw.support, draw.labels, draw.pool, outliers=outliers, config=config)
            found[name].append(tested_by(fitted, draw))
    quality = {name: quality_of(tested) for name, tested in found.items()}
    gains = np.subtract(*([auroc_of(tested) for tested in found[name]] for name in ("with", "without")))
    return quality | {"AUROC gained": interval(gains)}  # paired by task


def fit_and_measure(n_draws: int, seed: int) -> None:
    """Fit to the tasks of even number, and measure on the others."""
    sets = tasks(data_root(), n_draws, seed)
    to_fit, others = (
        {name: list(with_known_outliers(made[i::2], seed)) for name, made in sets.items()} for i in (0, 1)
    )
    coefficients = fit(to_fit)
    outlier_coefficients.KNOWN_OUTLIERS = coefficients
    sizes = {"1 or 2": (1, 2), "3 to 8": (3, 8), "9 to 32": (9, 32)}
    shapes = {size: lambda task, ends=ends: ends[0] <= len(task.outliers) <= ends[1] for size, ends in sizes.items()}
    shapes["3 to 32 of one kind"] = lambda task: task.is_one_kind and len(task.outliers) > 2
    quality = {
        f"{name}, {shape}": measured([task for task in made if which(task)])
        for name, made in others.items()
        for shape, which in shapes.items()
    }
    report("known-outliers.json", {"seed": seed, "n_draws": n_draws, "coefficients": coefficients, "quality": quality})


def measure(n_draws: int, seed: int) -> None:
    """Measure on all photos of Caltech; some of the 100 background photos, drawn at random, are known outliers."""
    features, names = caltech(data_root())
    class_names, outliers = sorted(set(names) - {BACKGROUND}), np.flatnonzero(names == BACKGROUND)
    quality = {}
    for n_shot in (1, 5):
        made = list(draws(features, names, class_names, outliers, n_shot=n_shot, sizes=[50 - n_shot] * 16, n_outliers=100,
                          n_draws=n_draws, seed=seed))  # fmt: skip
        for n in (5, 20):
            chosen = [np.random.default_rng([seed, i]).choice(np.flatnonzero(draw.truth < 0), n, replace=False)
                      for i, draw in enumerate(made)]  # fmt: skip
            tasks_of = [task_of(draw, rows) for draw, rows in zip(made, chosen, strict=True)]
            quality[f"{n_shot} shot, {n}"] = measured(tasks_of)
    report("known-outliers-caltech.json", {"seed": seed, "n_draws": n_draws, "quality": quality})


def report(name: str, found: dict[str, Any]) -> None:
    write(name, found)
    print(json.dumps(found, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["fit", "measure"])
    parser.add_argument("--draws", type=int, default=None)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    run, n_draws, seed = (fit_and_measure, 1_600, 5) if options.what == "fit" else (measure, 20, 2)
    run(options.draws or n_draws, seed if options.seed is None else options.seed)


if __name__ == "__main__":
    main()

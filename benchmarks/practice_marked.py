"""What images that are said to be junk tell of the others, as "none of these" on the page: the coefficients of
`Belonging.taught` (sala/belonging.py), fitted on tasks of other images, and what they are worth. See docs/practice.md.

    SALA_DATA=... python benchmarks/practice_marked.py fit       # writes results/practice/marked.json
    SALA_DATA=... python benchmarks/practice_marked.py measure   # on other photos: results/practice/marked-caltech.json

`fit` needs tiny-imagenet in $SALA_DATA, of which no test class is looked at, and Omniglot's background alphabets; `measure`
needs caltech/caltech-16.zip, of whose background photos some are said to be junk.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from practice import interval, write
from practice_draws import BACKGROUND, Draw, caltech, data_root, draws
from practice_fit import Told, auroc_of, logistic, none_quality, told_by
from practice_tasks import COUNTS, tasks

import sala.belonging
from sala.aside import log_odds
from sala.engine import EngineConfig, Fitted, fit_labels
from sala.points import Floats, normalised, to_tensor

MOST = (1, 2, 4, 8, 16, 32)  # images that are said to be junk, or half of the junk if that is less
N_KNOWN, N_JUNK = 5, 4  # images that a pool must have


@dataclass(frozen=True)
class Marked:
    """A task some of whose junk is said to be junk, and not in its pool."""

    draw: Draw
    junk: Floats  # [m, d]
    is_one_kind: bool = False


def marked(made: Iterable[Draw], seed: int) -> Iterator[Marked]:
    """In a third of the tasks by chance; in another rather what was hardly taken for junk, as one does who sees it among a
    class; and in the last third all of one kind, an image and those that are most like it."""
    for i, draw in enumerate(made):
        rng, junk = np.random.default_rng([seed, i]), np.flatnonzero(draw.truth < 0)
        if len(junk) < N_JUNK or (draw.truth >= 0).sum() < N_KNOWN:
            continue
        n, fitted = min(int(rng.choice(MOST)), len(junk) // 2), without_junk(draw)
        if i % 3 == 2:
            points = points_in(fitted, draw.pool[junk]).numpy()
            nearest = np.argsort(-points @ points[rng.integers(len(junk))])
            yield replace(said_of(draw, junk[nearest[:n]]), is_one_kind=True)
        else:
            chances = (1 - fitted.pool.none_score[junk].astype(np.float64)) ** (3 * (i % 3)) + 1e-6
            yield said_of(draw, rng.choice(junk, n, replace=False, p=chances / chances.sum()))


def said_of(draw: Draw, rows: np.ndarray) -> Marked:
    rest = np.setdiff1d(np.arange(len(draw.truth)), rows)
    return Marked(replace(draw, pool=draw.pool[rest], truth=draw.truth[rest]), draw.pool[rows])


def terms(task: Marked) -> tuple[np.ndarray, np.ndarray]:  # -> [n, 4], [n]
    """What the evidence is linear in, and the log-odds of junk without it."""
    fitted = without_junk(task.draw)
    told = fitted.model.known.belonging
    points, junk = (points_in(fitted, part) for part in (task.draw.pool, task.junk))
    d = told.nearness(points @ junk.T).double().numpy()
    log_m = np.full(len(d), np.log(told.kinds(junk @ junk.T)))
    return np.column_stack([np.ones(len(d)), log_m, d, d * log_m]), log_odds(fitted.pool.none_score)


def points_in(fitted: Fitted, features: Floats) -> torch.Tensor:
    return normalised(to_tensor(features), fitted.model.centre, fitted.model.spread)


def without_junk(draw: Draw) -> Fitted:
    return fit_labels(draw.support, draw.labels, draw.pool, config=EngineConfig(n_label_next=0))


def fit(tasks: dict[str, list[Marked]]) -> tuple[float, ...]:
    """Of the log-odds of junk beyond those that are told without what is said to be junk."""
    parts = []
    for name, marked_tasks in tasks.items():
        for task in marked_tasks:
            x, offset = terms(task)
            parts.append((x, offset, task.draw.truth < 0, np.full(len(x), COUNTS[name] / len(x))))
    return tuple(logistic(*map(np.concatenate, zip(*parts, strict=True))).round(2).tolist())


def measured(tasks: list[Marked]) -> dict[str, Any]:
    """Of the rest of the pool, without and with what is said to be junk: the mean over tasks, but precision and recall of
    the images of all."""
    found: dict[str, list[Told]] = {"without": [], "with": []}
    for task in tasks:
        draw = task.draw
        for name, junk in (("without", None), ("with", task.junk)):
            config = EngineConfig(n_label_next=0)
            fitted = fit_labels(draw.support, draw.labels, draw.pool, junk=junk, config=config)
            found[name].append(told_by(fitted, draw))
    quality = {name: none_quality(told) for name, told in found.items()}
    gains = np.subtract(*([auroc_of(told) for told in found[name]] for name in ("with", "without")))
    return quality | {"AUROC gained": interval(gains)}  # paired by task


def fit_and_measure(n_draws: int, seed: int) -> None:
    """On the tasks of even number, and on the others."""
    sets = tasks(data_root(), n_draws, seed)
    to_fit, others = ({name: list(marked(made[i::2], seed)) for name, made in sets.items()} for i in (0, 1))
    coefficients = fit(to_fit)
    sala.belonging.MARKED = coefficients
    sizes = {"1 or 2": (1, 2), "3 to 8": (3, 8), "9 to 32": (9, 32)}
    shapes = {size: lambda task, ends=ends: ends[0] <= len(task.junk) <= ends[1] for size, ends in sizes.items()}
    shapes["3 to 32 of one kind"] = lambda task: task.is_one_kind and len(task.junk) > 2
    quality = {
        f"{name}, {shape}": measured([task for task in made if which(task)])
        for name, made in others.items()
        for shape, which in shapes.items()
    }
    show("marked.json", {"seed": seed, "n_draws": n_draws, "coefficients": coefficients, "quality": quality})


def measure(n_draws: int, seed: int) -> None:
    """All photos of Caltech, of whose 100 of background some, by chance, are said to be junk and not in the pool."""
    features, names = caltech(data_root())
    known, junk = sorted(set(names) - {BACKGROUND}), np.flatnonzero(names == BACKGROUND)
    quality = {}
    for n_shot in (1, 5):
        made = list(draws(features, names, known, junk, n_shot=n_shot, sizes=[50 - n_shot] * 16, n_junk=100,
                          n_draws=n_draws, seed=seed))  # fmt: skip
        for n in (5, 20):
            chosen = [np.random.default_rng([seed, i]).choice(np.flatnonzero(draw.truth < 0), n, replace=False)
                      for i, draw in enumerate(made)]  # fmt: skip
            tasks_of = [said_of(draw, rows) for draw, rows in zip(made, chosen, strict=True)]
            quality[f"{n_shot} shot, {n}"] = measured(tasks_of)
    show("marked-caltech.json", {"seed": seed, "n_draws": n_draws, "quality": quality})


def show(name: str, found: dict[str, Any]) -> None:
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

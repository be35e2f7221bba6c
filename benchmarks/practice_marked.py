"""What images that are said to be junk tell of the others, as "none of these" on the page: the coefficients of
`Belonging.taught` (sala/belonging.py), fitted on tasks of other images, and what they are worth. See docs/practice.md.

    SALA_DATA=... python benchmarks/practice_marked.py

It needs tiny-imagenet in $SALA_DATA, of which no test class is looked at, and Omniglot's background alphabets, and writes
results/practice/marked.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from practice import write
from practice_draws import Draw, data_root
from practice_fit import Told, logistic, none_quality, told_by
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


def marked(draws: Iterable[Draw], seed: int) -> Iterator[Marked]:
    """Of every other task by chance; of the others rather what was hardly taken for junk, as one does who sees it among a
    class."""
    for i, draw in enumerate(draws):
        rng, junk = np.random.default_rng([seed, i]), np.flatnonzero(draw.truth < 0)
        if len(junk) < N_JUNK or (draw.truth >= 0).sum() < N_KNOWN:
            continue
        chances = (1 - without_junk(draw).pool.none_score[junk].astype(np.float64)) ** (3 * (i % 2)) + 1e-6
        n = min(int(rng.choice(MOST)), len(junk) // 2)
        rows = rng.choice(junk, n, replace=False, p=chances / chances.sum())
        rest = np.setdiff1d(np.arange(len(draw.truth)), rows)
        yield Marked(replace(draw, pool=draw.pool[rest], truth=draw.truth[rest]), draw.pool[rows])


def terms(task: Marked) -> tuple[np.ndarray, np.ndarray]:  # -> [n, 4], [n]
    """What the evidence is linear in, and the log-odds of junk without it."""
    fitted = without_junk(task.draw)
    model = fitted.model
    points, junk = (normalised(to_tensor(part), model.centre, model.spread) for part in (task.draw.pool, task.junk))
    d, log_m = model.known.belonging.nearness(points @ junk.T).double().numpy(), np.full(len(points), np.log(len(junk)))
    return np.column_stack([np.ones(len(d)), log_m, d, d * log_m]), log_odds(fitted.pool.none_score)


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
    return {name: none_quality(told) for name, told in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_600)
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    sets = tasks(data_root(), options.draws, options.seed)
    to_fit, others = ({name: list(marked(made[i::2], options.seed)) for name, made in sets.items()} for i in (0, 1))
    coefficients = fit(to_fit)
    sala.belonging.MARKED = coefficients
    sizes = {"1 or 2": (1, 2), "3 to 8": (3, 8), "9 to 32": (9, 32)}
    quality = {
        f"{name}, {size}": measured([task for task in made if low <= len(task.junk) <= high])
        for name, made in others.items()
        for size, (low, high) in sizes.items()
    }
    found = {"seed": options.seed, "n_draws": options.draws, "coefficients": coefficients, "quality": quality}
    write("marked.json", found)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

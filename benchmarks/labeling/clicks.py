"""Clicks of a user until 90 and 95 % of a pool's labels are right, for the page's suggestions and other strategies.

    SALA_DATA=FILES python benchmarks/labeling/clicks.py              # results/practice/clicks.json, docs/assets/clicks.svg
    SALA_DATA=FILES python benchmarks/labeling/clicks.py --batch 10   # ten images at a time: clicks-10.json, clicks-10.svg

A simulated user has one labeled image of each class, labels what is suggested and answers truthfully; "outlier" is an answer
too. The classifier is fitted again after every click (`--batch 1`), as on the page, or after every ten. The accuracy is that
of the labels of all inliers of the pool, given ones included. A draw ends when 95 % are right; if that does not happen within
`--most-clicks`, it counts as that number and as not reached. Odd draws have 40 % more images, which are outliers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from draws import Draw, data_root
from pools import interval, write
from sets import SETS, ImageSet, load_sets
from sklearn.cluster import KMeans
from varied import columns

from sala.classifier.fit import ClassifierConfig, PoolPredictions, fit_pool
from sala.classifier.normalize import center_of, normalized, scale_of, to_tensor
from sala.labeling.groups import compact_embeddings, similar_groups
from sala.labeling.project import OUTLIER, UNLABELED
from sala.templates import plots

ASSETS = Path(__file__).parents[2] / "docs" / "assets"
GOALS = (0.9, 0.95)
GROUPS = "groups and suggestions"
COLUMNS = ("1 shot", "1 shot, outliers")
N_WAY, N_POOL = 5, 100  # of the ten classes that `columns` draws, and of their images and outliers
N_NEIGHBORS, MIN_CLUSTER, MAX_CLUSTERS = 20, 5, 500  # TypiClust, sec. 3.2


@dataclass(frozen=True)
class Session:
    """A draw and what the user has answered so far."""

    draw: Draw
    answered: np.ndarray  # rows of the pool

    @property
    def rest(self) -> np.ndarray:
        return np.setdiff1d(np.arange(len(self.draw.truth)), self.answered)

    def fit(self, n_suggestions: int) -> PoolPredictions:
        """Predictions for the rest."""
        answers, draw = self.draw.truth[self.answered], self.draw
        labeled = self.answered[answers >= 0]
        return fit_pool(
            np.concatenate([draw.support, draw.pool[labeled]]),
            np.concatenate([draw.labels, draw.truth[labeled]]),
            draw.pool[self.rest],
            outliers=draw.pool[self.answered[answers < 0]],
            config=ClassifierConfig(n_suggestions=n_suggestions),
        ).pool

    def accuracy(self, predictions: PoolPredictions) -> float:
        truth = self.draw.truth[self.rest]
        n_wrong = ((predictions.label != truth) & (truth >= 0)).sum()
        return float(1 - n_wrong / (self.draw.truth >= 0).sum())


@dataclass(frozen=True)
class View:
    """What a strategy may look at: predictions and normalized embeddings, never the truth."""

    predictions: PoolPredictions
    pool: np.ndarray  # [n, d]
    answered: np.ndarray  # [m, d], of labeled images and known outliers
    rng: np.random.Generator
    n_clicks: int = 0  # so far


@dataclass(frozen=True)
class Together:
    """Similar images that are said to be of one class (-1: outliers); a click confirms them all, if it is true."""

    rows: np.ndarray
    to: int


Strategy = Callable[[View, int], np.ndarray | Together]  # -> up to n rows, or a group


def ours(view: View, n: int) -> np.ndarray:
    return view.predictions.suggestions[:n]


def random(view: View, n: int) -> np.ndarray:
    return view.rng.permutation(len(view.pool))[:n]


def least_confidence(view: View, n: int) -> np.ndarray:
    return view.predictions.probabilities.max(1).argsort(kind="stable")[:n]


def margin(view: View, n: int) -> np.ndarray:
    second, first = np.sort(view.predictions.probabilities, 1)[:, -2:].T
    return (first - second).argsort(kind="stable")[:n]


def k_center(view: View, n: int) -> np.ndarray:
    """Farthest first from what is labeled: Sener and Savarese, ICLR 2018, arXiv:1708.00489, algorithm 1."""
    nearest, chosen = (view.pool @ view.answered.T).max(1), []
    for _ in range(min(n, len(view.pool))):
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, view.pool @ view.pool[chosen[-1]])
        nearest[chosen] = np.inf
    return np.array(chosen, int)


def typiclust(view: View, n: int) -> np.ndarray:
    """The most typical image of the largest cluster without a label: Hacohen et al., ICML 2022, arXiv:2202.02794.

    Deviation: embeddings are those of the frozen encoder, as for all strategies here.
    """
    x, n_answered = np.concatenate([view.answered, view.pool]), len(view.answered)
    n_clusters = min(n_answered + n, MAX_CLUSTERS, len(x))
    found = KMeans(n_clusters, n_init=1, random_state=0).fit_predict(x)
    free, chosen = np.arange(len(x)) >= n_answered, []
    n_labeled = np.bincount(found[:n_answered], minlength=n_clusters)
    for _ in range(min(n, len(view.pool))):
        sizes = np.bincount(found[free], minlength=n_clusters)
        order = sorted(np.flatnonzero(sizes), key=lambda c: (sizes[c] < MIN_CLUSTER, n_labeled[c], -sizes[c]))
        members = np.flatnonzero((found == order[0]) & free)
        chosen.append(members[typicality(x[members]).argmax()])
        free[chosen[-1]] = False
        n_labeled[order[0]] += 1
    return np.array(chosen, int) - n_answered


def typicality(x: np.ndarray) -> np.ndarray:  # [n, d] -> [n]
    """The inverse mean distance to the nearest neighbors (eq. 1)."""
    distances = np.sort(np.sqrt(np.maximum(2 - 2 * x @ x.T, 0)), 1)[:, 1 : N_NEIGHBORS + 1]
    return 1 / (distances.mean(1) + 1e-9) if len(x) > 1 else np.ones(1)


def with_groups(view: View, n: int) -> np.ndarray | Together:
    """The first group of the page's tab "Groups" and its suggestions in turns, beginning with a group."""
    found = view.predictions
    said = np.where(found.outlier_probability > 0.5, OUTLIER, found.label)
    shown = SimpleNamespace(  # what the grouping looks at of the page's predictions
        names=range(found.probabilities.shape[1]),
        given=np.full(len(said), UNLABELED),
        most_probable=lambda: said,
        outlier_probability=found.outlier_probability,
        confidence=found.probabilities.max(1) * (1 - found.outlier_probability),
    )
    if view.n_clicks % 2 == 0:
        groups = similar_groups(compact_embeddings(view.pool), shown, np.ones(len(said), bool))  # type: ignore[arg-type]
        if groups:
            return Together(groups[0].images, -1 if groups[0].to == OUTLIER else groups[0].to)
    return found.suggestions[:n]


STRATEGIES: dict[str, Strategy] = {
    "suggestions": ours,
    GROUPS: with_groups,
    "random": random,
    "least confidence": least_confidence,
    "margin": margin,
    "k-center": k_center,
    "TypiClust": typiclust,
}


def strategies(batch: int) -> dict[str, Strategy]:
    """Those that are compared: a group takes one click, so it has no place among ten images at a time."""
    return {name: strategy for name, strategy in STRATEGIES.items() if batch == 1 or name != GROUPS}


def pools(image_set: ImageSet, n_draws: int, seed: int) -> Iterator[Draw]:
    """Even draws without outliers, odd ones with; of each, five classes and at most 100 images."""
    made = [list(columns(image_set, column, n_draws, seed)) for column in COLUMNS]
    for i in range(n_draws):
        draw, kept = made[i % 2][i], np.arange(N_WAY)
        outliers = np.flatnonzero(draw.truth < 0)
        rows = np.concatenate([np.flatnonzero(np.isin(draw.truth, kept)), outliers[::2]])  # half of the classes
        rows = np.random.default_rng([seed, i]).permutation(rows)[:N_POOL]
        support = np.isin(draw.labels, kept)
        yield Draw(draw.support[support], draw.labels[support], draw.pool[rows], draw.truth[rows])


def normalized_embeddings(draw: Draw) -> tuple[np.ndarray, np.ndarray]:  # support, pool
    support, pool = to_tensor(draw.support), to_tensor(draw.pool)
    center = center_of(support, torch.from_numpy(draw.labels), pool)
    scale = scale_of([support, pool], center)
    return normalized(support, center, scale).numpy(), normalized(pool, center, scale).numpy()


def accuracies(draw: Draw, strategy: Strategy, most_clicks: int, batch: int) -> list[float]:
    """The accuracy before the first click and after every batch of clicks.

    One click confirms a group. Where it is not of one class, that click was in vain, and one more labels its first image,
    the least confident one.
    """
    rng, (support, pool) = np.random.default_rng(0), normalized_embeddings(draw)
    session, curve = Session(draw, np.zeros(0, int)), []
    while True:
        predictions = session.fit(batch)
        curve.append(session.accuracy(predictions))
        n_clicks = batch * (len(curve) - 1)
        if curve[-1] >= GOALS[-1] or n_clicks >= most_clicks or not len(session.rest):
            return curve
        answered = np.concatenate([support, pool[session.answered]])
        chosen = strategy(View(predictions, pool[session.rest], answered, rng, n_clicks), batch)
        if isinstance(chosen, Together):
            is_true = (draw.truth[session.rest[chosen.rows]] == chosen.to).all()
            curve += [] if is_true else [curve[-1]]
            chosen = chosen.rows if is_true else chosen.rows[:1]
        session = Session(draw, np.concatenate([session.answered, session.rest[chosen]]))


def clicks_to(goal: float, curve: list[float], batch: int) -> float:
    """Clicks until the goal is reached for the first time; nan if it is not."""
    return next((batch * i for i, accuracy in enumerate(curve) if accuracy >= goal), float("nan"))


def measured(curves: list[list[float]], most_clicks: int, batch: int) -> dict[str, Any]:
    """Mean clicks to each goal with the interval over draws, and how many draws do not reach it."""
    found: dict[str, Any] = {}
    for goal in GOALS:
        clicks = np.array([clicks_to(goal, curve, batch) for curve in curves])
        counted = interval(np.nan_to_num(clicks, nan=most_clicks))
        found[f"clicks to {goal:.0%}"] = counted | {"not reached": int(np.isnan(clicks).sum())}
    return found


def summary(curves: dict[str, list[list[float]]], most_clicks: int, batch: int) -> dict[str, Any]:
    """Each strategy over all draws: clicks, clicks minus those of the suggestions (paired), and the mean curve."""

    def clicks(name: str, goal: float) -> np.ndarray:
        return np.nan_to_num([clicks_to(goal, curve, batch) for curve in curves[name]], nan=most_clicks)

    found = {}
    for name, of in curves.items():
        extra = {f"more to {g:.0%}": interval(clicks(name, g) - clicks("suggestions", g)) for g in GOALS}
        n = most_clicks // batch + 1
        held = [np.array((curve + [curve[-1]] * n)[:n]) for curve in of]
        found[name] = measured(of, most_clicks, batch) | extra | {"curve": np.mean(held, 0).round(4).tolist()}
    return found


def draw_curves(found: dict[str, Any], batch: int, name: str) -> None:
    curves = {strategy: [100 * a for a in of["curve"]] for strategy, of in found.items()}
    plot = plots.accuracy_over_clicks(curves, batch)
    (ASSETS / name).write_text(plot.svg, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4, help="of each set, half of them with outliers (default: 4)")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS), metavar="SET")
    parser.add_argument("--most-clicks", type=int, default=40, help="after which a draw ends (default: 40)")
    parser.add_argument("--batch", type=int, choices=(1, 10), default=1, help="clicks between two fits (default: 1)")
    parser.add_argument("--seed", type=int, default=3, help="0 to 2 are those that the suggestions were chosen on")
    options = parser.parse_args()
    most, batch, suffix = options.most_clicks, options.batch, "" if options.batch == 1 else f"-{options.batch}"
    by_set: dict[str, Any] = {}
    together: dict[str, list[list[float]]] = {name: [] for name in strategies(batch)}
    for image_set in load_sets(data_root(), options.sets).values():
        made, by_set[image_set.name] = list(pools(image_set, options.draws, options.seed)), {}
        for name, strategy in strategies(batch).items():
            print(f"\r{image_set.name}, {name:20}", end="", file=sys.stderr, flush=True)
            curves = [accuracies(draw, strategy, most, batch) for draw in made]
            by_set[image_set.name][name] = measured(curves, most, batch)
            together[name] += curves
    print(file=sys.stderr)
    found = summary(together, most, batch)
    settings = {"seed": options.seed, "draws": options.draws, "most clicks": most, "batch": batch}
    write(f"clicks{suffix}.json", settings | {"all": found, "sets": by_set})
    draw_curves(found, batch, f"clicks{suffix}.svg")
    for name, of in found.items():
        print(name, *(f"{goal:.0%}: {of[f'clicks to {goal:.0%}']['mean']:.1f}" for goal in GOALS))


if __name__ == "__main__":
    main()

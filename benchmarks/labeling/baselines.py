"""Baselines: scikit-learn's classifiers on the same features, centered and brought to length 1, with and without scaling."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from draws import Draw
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestCentroid
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier

from sala.classifier.normalize import mean_of, normalized, scale_of, to_tensor

BASELINES: dict[str, tuple[Callable[..., Any], bool, list[dict[str, Any]]]] = {  # class, uses the pool, grid
    "logistic regression": (LogisticRegression, False, [{"C": c, "max_iter": 500} for c in (0.1, 1.0, 10.0, 100.0)]),
    "nearest centroid": (NearestCentroid, False, [{"shrink_threshold": s} for s in (None, 0.1, 0.5)]),
    "LabelSpreading": (LabelSpreading, True, [{"gamma": g, "alpha": a} for g in (2, 5, 20) for a in (0.2, 0.8)]
                       + [{"kernel": "knn", "n_neighbors": n} for n in (5, 10)]),
    "LabelPropagation": (LabelPropagation, True, [{"gamma": g} for g in (2, 5, 20)]
                         + [{"kernel": "knn", "n_neighbors": n} for n in (5, 10)]),
    "SelfTraining": (SelfTrainingClassifier, True, [{"threshold": t, "C": 10.0} for t in (0.5, 0.75)]),
}  # fmt: skip


def build(name: str, options: dict[str, Any]) -> Any:
    if name == "SelfTraining":
        rest = {key: value for key, value in options.items() if key != "C"}
        return SelfTrainingClassifier(LogisticRegression(C=options.get("C", 1.0), max_iter=500), **rest)
    return BASELINES[name][0](**options)


def predict_baseline(name: str, options: dict[str, Any], x: np.ndarray, y: np.ndarray, pool: np.ndarray) -> np.ndarray:
    model = build(name, options)
    if BASELINES[name][1]:
        model.fit(np.concatenate([x, pool]), np.concatenate([y, np.full(len(pool), -1)]))
    else:
        model.fit(x, y)
    return model.predict(pool)


def tuned_options(name: str, x: np.ndarray, y: np.ndarray, pool: np.ndarray) -> dict[str, Any]:
    """By cross-validation on the labeled images alone; where a class has one, there is nothing to hold out."""
    if np.bincount(y).min() < 2:
        return {}
    if name in ("logistic regression", "SelfTraining"):
        x = x @ np.linalg.svd(x, full_matrices=False)[2].T  # a rotation into their span: the same answer, sooner
    folds = list(StratifiedKFold(min(3, np.bincount(y).min()), shuffle=True, random_state=0).split(x, y))

    def right(options: dict[str, Any]) -> float:
        hits = []
        for fit, held in folds:
            # with a pool in each fold SelfTraining would take minutes a draw: there the held-out images are the pool
            with_pool = BASELINES[name][1] and name != "SelfTraining"
            unlabeled = np.concatenate([x[held], pool]) if with_pool else x[held]
            quick = options | ({"max_iter": 150} if name == "LabelPropagation" else {})  # of a thousand: to choose by
            hits.append(predict_baseline(name, quick, x[fit], y[fit], unlabeled)[: len(held)] == y[held])
        return float(np.concatenate(hits).mean())

    return max(BASELINES[name][2], key=right)


def measure_baselines(made: list[Draw], before: dict[str, list[float]]) -> dict[str, list[float]]:
    """Accuracies on each draw; those of `before` are taken as they are."""
    others: dict[str, list[float]] = {}
    for scaling in ("", ", scaled"):
        names = [f"{name}, {how}{scaling}" for name in BASELINES for how in ("default", "tuned")]
        if all(name in before for name in names):
            others |= {name: before[name] for name in names}
            continue
        others |= {name: [] for name in names}
        for draw in made:
            is_inlier = draw.truth >= 0
            x, p = normalized_features(draw, bool(scaling))
            for name in BASELINES:
                for how, options in (("default", {}), ("tuned", tuned_options(name, x, draw.labels, p))):
                    values = others[f"{name}, {how}{scaling}"]
                    if how == "tuned" and not options:
                        values.append(others[f"{name}, default{scaling}"][-1])
                        continue
                    found = predict_baseline(name, options, x, draw.labels, p)
                    values.append(100 * float((found == draw.truth)[is_inlier].mean()))
            print(".", end="", file=sys.stderr, flush=True)
    return others


def normalized_features(draw: Draw, is_scaled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Labeled features and the pool's, centered and brought to length 1; scaled as the classifier does, or not."""
    parts = [to_tensor(draw.support), to_tensor(draw.pool)]
    center = mean_of(parts)
    scale = scale_of(parts, center) if is_scaled else torch.ones_like(center)
    x, p = (normalized(part, center, scale).numpy() for part in parts)
    return x, p

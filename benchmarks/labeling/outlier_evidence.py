"""Fit the evidence of the outlier model, `OutlierModel.evidence`, and measure what it is worth; hyperparameters.py runs it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from draws import Draw
from pools import rejections, write
from sala.classifier.outlier_model import (
    OutlierModel,
    Similarities,
    class_similarity,
    estimate,
    nearest_outlier,
    outlier_weight_for,
    refined_weight_for,
    runner_up_similarity,
)
from sala.classifier.outliers import detect_outliers
from sala.classifier.prototypes import multi_shot_rows, refine
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.metrics import roc_auc_score
from tasks import COUNTS, tasks

from sala.classifier import outlier_coefficients
from sala.classifier.fit import ClassifierConfig, Fitted, fit_pool
from sala.classifier.normalize import center_of, normalized, scale_of, to_tensor


def fit_outliers(root: Path, n_draws: int, seed: int) -> None:
    """Fit the coefficients of the outlier model to the draws of even number; the others show its quality."""
    sets = tasks(root, n_draws, seed)
    to_fit = {
        name: [pool_of(draw, COUNTS[name]) for draw in made[::2] if (draw.truth < 0).any()]
        for name, made in sets.items()
    }
    both = [*to_fit["photos"], *to_fit["characters"]]
    kinds = {
        "ONE_CLASS": (to_fit["photos"], lambda pool: pool.n_way == 1),  # with characters it was worse, on them too
        "ONE_SHOT": (both, lambda pool: pool.n_way > 1 and pool.held_out is None),
        "FEW_SHOT": (both, lambda pool: pool.held_out is not None),
    }
    fitted = {
        name: tuple(evidence_of([pool for pool in pools if which(pool.model)]).round(3).tolist())
        for name, (pools, which) in kinds.items()
    }
    for name, coefficients in fitted.items():
        setattr(outlier_coefficients, name, coefficients)
    shapes = {
        "all": lambda found: True, "1 shot": lambda found: found.n_shot == 1, "5 and 8 shots": lambda found: found.n_shot >= 5,
        "unequal shots": lambda found: found.n_shot % 1 > 0, "1 class": lambda found: found.n_way == 1,
        "2 to 5 classes": lambda found: 2 <= found.n_way <= 5, "16 classes and more": lambda found: found.n_way >= 16,
        "up to 15 % outliers": lambda found: found.is_outlier.mean() <= 0.15,
        "40 % outliers and more": lambda found: found.is_outlier.mean() >= 0.4,
    }  # fmt: skip
    tested = {name: [tested_on(draw) for draw in made[1::2]] for name, made in sets.items()}
    quality = {
        f"{name}, {shape}": quality_of([each for each in found if which(each)])
        for name, found in tested.items()
        for shape, which in shapes.items()
    }
    found = {"seed": seed, "n_draws": n_draws, "coefficients": fitted, "quality": quality}
    write("outlier-model.json", found)
    print(json.dumps(found, indent=1))


def pool_of(draw: Draw, counts: float) -> PoolSimilarities:
    (pool, support, labels), config = embeddings_of(draw), ClassifierConfig()
    found = refine(
        pool,
        support,
        labels,
        n_steps=config.n_steps,
        sharpness=config.sharpness,
        labeled_weight=config.labeled_weight,
    )
    detector, _ = detect_outliers(found, pool, pool[:0])
    first = Similarities(pool @ found.first.T, found.held_out(1.0))
    refined = Similarities(found.to_refined(pool), found.held_out(0.0))
    prototypes, held_out = detector.outlier_prototypes, found.support[multi_shot_rows(found.labels)]
    outliers = Similarities(pool @ prototypes.T, held_out @ prototypes.T)
    return PoolSimilarities(first, refined, outliers, detector.model, draw.truth < 0, counts)


@dataclass(frozen=True)
class PoolSimilarities:
    """Of a pool: similarities to the first, refined and outlier prototypes, the truth, and its weight in a fit."""

    first: Similarities
    refined: Similarities
    outliers: Similarities
    model: OutlierModel
    is_outlier: np.ndarray
    counts: float

    def fitted(self, refined_weight: float, outlier_weight: float) -> tuple[torch.Tensor, OutlierModel]:
        """Similarities of the pool's images, and the outlier model with these weights."""
        weights = (refined_weight, outlier_weight)
        to_refined, to_first = (runner_up_similarity(to.pool) for to in (self.refined, self.first))
        runner_up = refined_weight * to_refined + (1 - refined_weight) * to_first
        runner_up -= outlier_weight * nearest_outlier(self.outliers.pool)
        parts = (self.first, self.refined, self.outliers)
        similarity = class_similarity(*(to.pool for to in parts), *weights)
        held_out = class_similarity(*(to.held_out for to in parts), *weights)
        found = estimate(similarity, runner_up, held_out, self.model.n_way, self.model.n_shot, *weights)
        return similarity, found


def evidence_of(pools: list[PoolSimilarities]) -> np.ndarray:
    """The coefficients of log p(u | outlier) / p(u | inlier), by logistic regression with the log-odds of the outlier share as
    offset; with the three kinds of weights in use: first prototypes alone, refined ones too, outlier prototypes too."""
    terms, offsets, outliers, weights = [], [], [], []
    for pool in pools:
        share = pool.is_outlier.mean()
        both = refined_weight_for(share, pool.model.n_shot)
        for weights_now in ((0.0, 0.0), (both, 0.0), (both, outlier_weight_for(share, pool.model.n_way))):
            similarity, found = pool.fitted(*weights_now)
            u = found.position(similarity).double().numpy()
            of_pool = (found.high, np.log(found.n_way), np.log(found.n_shot), found.median, found.held_out or 0.0)
            v = [u, *(np.full(len(u), x) for x in of_pool)]
            terms.append(np.column_stack([np.ones(len(u)), *v, *(v[i] * v[j] for i in range(6) for j in range(i, 6))]))
            offsets.append(np.full(len(u), np.log(share / (1 - share))))
            outliers.append(pool.is_outlier)
            weights.append(np.full(len(u), pool.counts / len(u)))
    return logistic(*(np.concatenate(part) for part in (terms, offsets, outliers, weights)))


def logistic(terms: np.ndarray, offsets: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients of a logistic regression with an offset, and a little ridge on standardized terms."""
    mean, deviation = terms.mean(0), terms.std(0)
    mean[0], deviation[deviation < 1e-9] = 0.0, 1.0
    scaled, sign, weights = (terms - mean) / deviation, np.where(truth, 1.0, -1.0), weights / weights.sum()

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (scaled @ w + offsets)
        slope = -weights * sign * expit(-margin)
        ridge = 1e-3 * np.r_[0.0, w[1:]]
        return float(-(weights * log_expit(margin)).sum() + ridge @ w), scaled.T @ slope + 2 * ridge

    w = minimize(loss, np.zeros(terms.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 2_000}).x
    return np.r_[w[0] - (mean / deviation * w)[1:].sum(), (w / deviation)[1:]]


@dataclass(frozen=True)
class Tested:
    """Predictions for a pool, and the truth."""

    is_outlier: np.ndarray
    is_rejected: np.ndarray
    outlier_probability: np.ndarray
    outlier_share: float
    n_way: int
    n_shot: float


def tested_on(draw: Draw) -> Tested:
    return tested_by(fit_pool(draw.support, draw.labels, draw.pool, config=ClassifierConfig(n_suggestions=0)), draw)


def tested_by(fitted: Fitted, draw: Draw) -> Tested:
    score, found = fitted.pool.outlier_probability, fitted.model.outlier_detector.model
    return Tested(draw.truth < 0, rejections(fitted), score, found.outlier_share, found.n_way, found.n_shot)


def auroc_of(tested: Tested) -> float:
    return float(roc_auc_score(tested.is_outlier, tested.outlier_probability))


def quality_of(tested: list[Tested]) -> dict[str, float | None]:
    """Precision and recall of rejected images over all draws, and means over draws."""
    n_rejected = sum(int(each.is_rejected.sum()) for each in tested)
    n_right = sum(int((each.is_rejected & each.is_outlier).sum()) for each in tested)
    n_outliers = sum(int(each.is_outlier.sum()) for each in tested)
    gaps = [abs(each.outlier_share - each.is_outlier.mean()) for each in tested]
    brier = [((each.outlier_probability - each.is_outlier) ** 2).mean() for each in tested]
    auroc = [auroc_of(each) for each in tested if each.is_outlier.any()]
    return {
        "draws": len(tested), "precision": round(n_right / n_rejected, 3) if n_rejected else None,
        "recall": round(n_right / n_outliers, 3), "error of the share": round(float(np.mean(gaps)), 3),
        "Brier score": round(float(np.mean(brier)), 4), "AUROC": round(float(np.mean(auroc)), 4),
    }  # fmt: skip


def embeddings_of(draw: Draw) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Normalized embeddings of the pool and of the labeled images, and the labels."""
    support, pool, labels = to_tensor(draw.support), to_tensor(draw.pool), torch.from_numpy(draw.labels)
    center = center_of(support, labels, pool)
    scale = scale_of([support, pool], center)
    return normalized(pool, center, scale), normalized(support, center, scale), labels

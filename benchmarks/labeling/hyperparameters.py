"""Choose the classifier's hyper-parameters and fit its coefficients, on other images than it is measured on.

    SALA_DATA=... python benchmarks/labeling/hyperparameters.py choose       # compares the defaults with their neighbors
    SALA_DATA=... python benchmarks/labeling/hyperparameters.py outliers     # fits sala/classifier/outlier_coefficients.py
    SALA_DATA=... python benchmarks/labeling/hyperparameters.py temperature  # fits ClassifierConfig.temperature_prior

They need tiny-imagenet in $SALA_DATA, of which no test class is looked at, the last two also Omniglot's background alphabets,
and write into results/practice. known_outliers.py fits the evidence of known outliers.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from calibration import expected_calibration_error
from draws import Draw, data_root, draws
from outlier_evidence import embeddings_of, fit_outliers
from pools import measure_sala, write
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score
from tasks import COUNTS, N_IMAGES, N_ROWS, mixtures, tasks, tiny

from sala.classifier.calibration import RANGE, dispersion, mean_top_similarity
from sala.classifier.fit import ClassifierConfig, fit_pool
from sala.classifier.pipeline import classify_pool

BETAS = np.logspace(*np.log10(RANGE), 44)  # inverse temperatures to try


def choose(root: Path, n_draws: int, seed: int) -> None:
    """Accuracy and AUROC of variants over shapes of task and three difficulties."""
    features, names = tiny(root, N_IMAGES, split={"train", "val"})  # no test class is looked at
    class_names = sorted(set(names))
    few = sorted(np.random.default_rng(0).permutation(class_names)[:18])  # so few that outliers come in clusters
    shapes = [  # the pool's images of each class, outliers, classes to draw from
        ([40] * 16, 80, class_names),
        ([8] * 10, 320, class_names),
        ([40] * 16, 0, class_names),
        ([40] * 5, 50, class_names),
        ([40] * 30, 100, class_names),
        ([20] * 6, 480, few),
    ]
    scores: dict[str, list[tuple[float, float]]] = {name: [] for name in variants()}
    for p in ((1.0, 0, 0, 0), (0, 1.0, 0, 0), (0, 0, 1.0, 0)):
        mixed, of = mixtures(np.random.default_rng(0), features, names, dict.fromkeys(class_names, p), N_ROWS)
        for n_shot in (1, 3, 5):
            for sizes, n_outliers, among in shapes:
                for draw in draws(mixed, of, among, np.empty(0, int), n_shot=n_shot, sizes=sizes, n_outliers=n_outliers,
                                  n_draws=n_draws, seed=seed):  # fmt: skip
                    for name, config in variants().items():
                        scores[name].append(accuracy_and_auroc(draw, config))
    means = {name: np.nanmean(np.array(values), 0).tolist() for name, values in scores.items()}
    write("choice.json", {"seed": seed, "n_draws": n_draws, "accuracy and AUROC": means})
    print(json.dumps({"accuracy and AUROC": means}, indent=1))


def variants() -> dict[str, ClassifierConfig]:
    """The defaults and their neighbors."""
    base = ClassifierConfig(n_suggestions=0)
    found = {"default": base, "no refinement": replace(base, n_steps=0)}
    found |= {f"sharpness {s}": replace(base, sharpness=float(s)) for s in (8, 25, 40)}
    found |= {f"labeled weight {w}": replace(base, labeled_weight=float(w)) for w in (1, 6)}
    found |= {f"{n} steps": replace(base, n_steps=n) for n in (2, 5)}
    found |= {f"{n} directions": replace(base, n_directions=n) for n in (0, 8, 32)}
    found |= {f"anchor {a}": replace(base, anchor=a) for a in (0.0, 0.5)}
    return found | {f"linear weight {w}": replace(base, linear_weight=w) for w in (0.0, 0.5)}


def accuracy_and_auroc(draw: Draw, config: ClassifierConfig) -> tuple[float, float]:
    is_inlier = draw.truth >= 0
    pool = fit_pool(draw.support, draw.labels, draw.pool, config=config).pool
    auroc = np.nan if is_inlier.all() else float(roc_auc_score(~is_inlier, pool.outlier_probability))
    return float((pool.label == draw.truth)[is_inlier].mean()), auroc


def terms_and_errors(draw: Draw) -> tuple[list[float], list[float]]:
    """The terms of the prior (1, log mean top similarity, log dispersion, log k), and the calibration error of inliers at
    each of BETAS."""
    pool, support, labels = embeddings_of(draw)
    found = classify_pool(pool, support, labels, pool[:0], ClassifierConfig())
    similarities, inlier = found.pool_similarities(), 1 - found.outlier_probability
    measures = [max(f(similarities, inlier), 1e-3) for f in (mean_top_similarity, dispersion)]
    is_inlier = draw.truth >= 0
    of_inliers, truth = similarities[torch.from_numpy(is_inlier)].double(), draw.truth[is_inlier]
    errors = [expected_calibration_error((beta * of_inliers).softmax(-1).numpy(), truth) for beta in BETAS]
    return [1.0, *np.log([*measures, similarities.shape[1]])], errors


def averaged_with_neighbors(errors: np.ndarray) -> np.ndarray:  # [n, b] -> [n, b]
    """Errors averaged over five temperatures, which smooths the effect of a draw's bins."""
    padded = np.pad(errors, ((0, 0), (2, 2)), mode="edge")
    return np.mean([padded[:, i : i + errors.shape[1]] for i in range(5)], 0)


def is_one_shot(draw: Draw) -> bool:
    return len(draw.labels) == draw.labels.max() + 1


def fit_temperature_prior(root: Path, n_draws: int, seed: int) -> None:
    """Fit the temperature prior to the one-shot draws of even number; the others of the first half show its quality."""
    sets = {
        name: [draw for draw in made if draw.labels.max() > 0 and (draw.truth >= 0).sum() >= 10]
        for name, made in tasks(root, n_draws, seed).items()
    }
    found = {name: [terms_and_errors(draw) for draw in made[::2] if is_one_shot(draw)] for name, made in sets.items()}
    terms, errors = (np.array(part) for part in zip(*(row for rows in found.values() for row in rows), strict=True))
    weights = np.concatenate([np.full(len(rows), COUNTS[name]) for name, rows in found.items()])
    prior = best_prior(terms, averaged_with_neighbors(errors), weights)
    content = {
        "seed": seed,
        "n_fitted": len(terms),
        "n_draws": n_draws,
        "prior": prior,
        "typical mean top similarity and dispersion": np.exp(np.median(terms[:, 1:3], 0)).round(3).tolist(),
        "quality": prior_quality(sets, ClassifierConfig(temperature_prior=tuple(prior))),
    }
    write("temperature.json", content)
    print(json.dumps(content, indent=1))


def best_prior(terms: np.ndarray, errors: np.ndarray, weights: np.ndarray) -> list[float]:  # [n, 4], [n, b], [n]
    """The coefficients with the lowest mean calibration error."""

    def error(w: np.ndarray) -> float:
        log_betas = np.clip(terms @ w, *np.log(BETAS[[0, -1]]))
        each = [np.interp(b, np.log(BETAS), row) for b, row in zip(log_betas, errors, strict=True)]
        return float(np.average(each, weights=weights))

    starts = [np.linalg.lstsq(terms, np.log(BETAS[errors.argmin(1)]), rcond=None)[0], np.array([3.5, 1.0, -1.0, -0.5])]
    options = {"maxiter": 10_000, "xatol": 1e-4, "fatol": 1e-8, "adaptive": True}
    ends = [minimize(error, start, method="Nelder-Mead", options=options) for start in starts]
    return min(ends, key=lambda end: end.fun).x.round(2).tolist()


def prior_quality(sets: dict[str, list[Draw]], config: ClassifierConfig) -> dict[str, dict[str, object]]:
    """Calibration errors on draws that the prior was not fitted on."""
    kinds = {
        "1 shot": is_one_shot,
        "1 shot, 60 % outliers and more": lambda draw: is_one_shot(draw) and (draw.truth < 0).mean() > 0.55,
        "several shots": lambda draw: not is_one_shot(draw),
    }
    keys = ("n", "ece", "ece_in_hindsight", "ece_by_chance", "ece_of_all_draws")
    quality = {}
    for name, made in sets.items():
        for kind, which in kinds.items():
            measured = measure_sala([draw for draw in made[1 : len(made) // 2 : 2] if which(draw)], config)
            quality[f"{name}, {kind}"] = {key: measured[key] for key in keys}
    return quality


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["choose", "outliers", "temperature"])
    parser.add_argument("--draws", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.what == "outliers":
        fit_outliers(data_root(), options.draws or 1_600, options.seed)
    elif options.what == "temperature":
        fit_temperature_prior(data_root(), options.draws or 3_200, options.seed)
    else:
        choose(data_root(), options.draws or 4, options.seed)


if __name__ == "__main__":
    main()

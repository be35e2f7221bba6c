"""Accuracy, calibration and outlier detection on pools of Caltech photos, against scikit-learn's classifiers.

    SALA_DATA=... python benchmarks/labeling/pools.py measure          # writes results/practice/caltech-16.json
    python benchmarks/labeling/pools.py tables                         # its tables again
    python benchmarks/labeling/pools.py scale                          # time and memory of a fit on 100,000 images

`measure` needs caltech/caltech-16.zip in $SALA_DATA (16 classes of 50 photos and 100 of background).
Features come from EfficientNet-Lite0 and are cached, so a second run starts at once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from baselines import measure_baselines
from calibration import at_the_best_temperature, by_chance, calibration_gap, expected_calibration_error, without_bias
from draws import BACKGROUND, Draw, caltech, data_root, draws
from scipy.stats import t as student
from sklearn.metrics import roc_auc_score

from sala.classifier.fit import ClassifierConfig, Fitted, PoolPredictions, fit_pool
from sala.labeling.predictions import find_thresholds

ASKED = 0.9  # precision of rejected images: the default of `sala label`
UNEQUAL = [(1, 5), (1, 10)]  # labeled images of a class, drawn for each
OUT = Path(__file__).parents[2] / "results" / "practice"


def interval(values: Sequence[float] | np.ndarray) -> dict[str, float]:
    """Mean and half-width of the 95 % interval over draws; draws without such a number do not count."""
    x = np.array(values)
    x = x[~np.isnan(x)]
    if len(x) < 2:
        return {"mean": float(x.mean()) if len(x) else float("nan"), "ci95": float("nan")}
    return {"mean": float(x.mean()), "ci95": float(student.ppf(0.975, len(x) - 1) * x.std(ddof=1) / len(x) ** 0.5)}


def measure_sala(made: list[Draw], used: ClassifierConfig | None = None) -> dict[str, Any]:
    """Means over draws, and numbers of the images of all draws."""
    config = used or ClassifierConfig()
    measures: dict[str, list[float]] = {}
    together: list[tuple[np.ndarray, np.ndarray]] = []
    rejected = np.zeros(3, int)  # images rejected, of these outliers, outliers
    confident = np.zeros(3, int)  # confident images, of these right, images
    for draw in made:
        is_inlier = draw.truth >= 0
        fitted, plain = (
            fit_pool(draw.support, draw.labels, draw.pool, config=replace(config, n_steps=n))
            for n in (config.n_steps, 0)
        )
        p, truth = fitted.pool.probabilities[is_inlier], draw.truth[is_inlier]
        found = quality("", fitted.pool, draw) | calibration_of(p, truth) | quality("plain_", plain.pool, draw)
        for name, value in found.items():
            measures.setdefault(name, []).append(value)
        together.append((p.max(1), p.argmax(1) == truth))
        is_rejected = rejections(fitted)
        rejected += is_rejected.sum(), (is_rejected & ~is_inlier).sum(), (~is_inlier).sum()
        confidence = fitted.pool.probabilities.max(1) * (1 - fitted.pool.outlier_probability)
        is_confident = ~is_rejected & (confidence >= find_thresholds(fitted, ASKED).confident)
        confident += is_confident.sum(), (is_confident & (fitted.pool.label == draw.truth)).sum(), len(is_inlier)
    return {
        "n": len(made),
        **{name: interval(values) for name, values in measures.items()},
        "accuracies": measures["accuracy"],
        "ece_of_all_draws": calibration_gap(*(np.concatenate(parts) for parts in zip(*together, strict=True))),
        "asked_precision": ASKED,
        "rejected": int(rejected[0]),
        "precision": float(rejected[1] / rejected[0]) if rejected[0] else None,
        "recall": float(rejected[1] / rejected[2]) if rejected[2] else None,
        "confident": float(confident[0] / confident[2]),
        "confident_right": float(confident[1] / confident[0]) if confident[0] else None,
    }


def quality(prefix: str, pool: PoolPredictions, draw: Draw) -> dict[str, float]:
    """Accuracy on inliers in percent, and AUROC of outliers."""
    is_inlier = draw.truth >= 0
    auroc = np.nan if is_inlier.all() else float(roc_auc_score(~is_inlier, pool.outlier_probability))
    return {
        f"{prefix}accuracy": 100 * float((pool.label == draw.truth)[is_inlier].mean()),
        f"{prefix}auroc": auroc,
    }


def calibration_of(p: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """The calibration error of inliers, and what to compare it with."""
    return {
        "ece": expected_calibration_error(p, truth),
        "ece_without_bias": without_bias(p, truth),
        "ece_in_hindsight": expected_calibration_error(at_the_best_temperature(p, truth), truth),
        "ece_by_chance": by_chance(p),
    }


def rejections(fitted: Fitted) -> np.ndarray:
    """The images that `sala label` rejects."""
    score = fitted.pool.outlier_probability
    return score > fitted.rejection_threshold(ASKED)


def with_differences(sala: dict[str, Any], others: dict[str, list[float]]) -> dict[str, Any]:
    """Results with differences that are paired by draw."""
    return {
        "sala": sala,
        "others": {
            name: {
                **interval(values),
                "accuracies": values,
                "sala_minus_it": interval(np.subtract(sala["accuracies"], values)),
            }
            for name, values in others.items()
        },
    }


def measure(root: Path, n_draws: int, seed: int, shots: list[int], only_sala: bool, anew: bool) -> None:
    features, names = caltech(root)
    class_names, outliers = sorted(set(names) - {BACKGROUND}), np.flatnonzero(names == BACKGROUND)
    path, results = OUT / "caltech-16.json", {}
    if path.is_file() and not anew:  # baselines were measured before, if on the same draws
        content = json.loads(path.read_text(encoding="utf-8"))
        results = content["results"] if (content["seed"], content["n_draws"]) == (seed, n_draws) else {}
    for n_shot in [*shots, *UNEQUAL]:
        label = f"{n_shot} shot" if isinstance(n_shot, int) else f"{n_shot[0]} to {n_shot[1]} labeled"
        settings = {
            "all photos": {"sizes": [50 - np.max(n_shot)] * 16, "n_outliers": 100},
            "80 % outliers (6 classes, the others are outliers too)": {"sizes": [25] * 6, "n_outliers": 600},
            "class sizes 1 : 10": {
                "sizes": np.geomspace(4.5, min(45, 50 - np.max(n_shot)), 16).round().astype(int).tolist(),
                "n_outliers": 100,
            },
        }
        for title, shape in settings.items():
            made = list(
                draws(features, names, class_names, outliers, n_shot=n_shot, n_draws=n_draws, seed=seed, **shape)
            )
            key = f"{title}, {label}"
            others = {name: other["accuracies"] for name, other in results.get(key, {}).get("others", {}).items()}
            if not only_sala:
                others = measure_baselines(made, others)
            results[key] = with_differences(measure_sala(made), others)
            write("caltech-16.json", {"seed": seed, "n_draws": n_draws, "results": results})
    print_tables(results)


def print_tables(results: dict[str, Any]) -> None:
    for title, result in results.items():
        ours = result["sala"]
        print(f"\n**{title}**\n")
        print("| | accuracy, % | sala minus it |\n|---|---|---|")
        print(f"| sala | {shown(ours['accuracy'])} | |\n| sala without the pool | {shown(ours['plain_accuracy'])} | |")
        for name, other in result["others"].items():
            print(f"| {name} | {shown(other)} | {shown(other['sala_minus_it'])} |")
        keys = ("ece", "ece_without_bias", "ece_in_hindsight", "ece_by_chance", "auroc", "plain_auroc")
        ece, unbiased, least, chance, auroc, plain = (shown(ours[key], 3) for key in keys)
        print(
            f"\nCalibration error {ece} (without the bias of few images {unbiased}; draws taken together "
            f"{ours['ece_of_all_draws']:.3f}; with the best temperature of "
            f"each draw, in hindsight, {least}; by chance, if the probabilities were the truth, {chance}); "
            f"AUROC of outliers {auroc} (without refinement {plain})."
        )
        precision, recall = ("-" if ours[key] is None else f"{ours[key]:.2f}" for key in ("precision", "recall"))
        print(f"Rejected as outliers: precision {precision} where {ours['asked_precision']} is asked, recall {recall}.")
        right = "-" if ours["confident_right"] is None else f"{ours['confident_right']:.2f}"
        print(f"Confident: {ours['confident']:.2f} of the pool, of them right {right}.")


def shown(interval: dict[str, float], digits: int = 1) -> str:
    return f"{interval['mean']:.{digits}f} ± {interval['ci95']:.{digits}f}"


def write(name: str, content: dict[str, Any]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    machine = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "python": platform.python_version(),
               "torch": torch.__version__}  # fmt: skip
    (OUT / name).write_text(json.dumps(machine | content, indent=1) + "\n", encoding="utf-8")


def scale(n: int, k: int, d: int = 1280) -> None:
    """Time and memory of the first fit on made-up features, and the median time of five that follow, as after corrections."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((k, d), np.float32)
    pool = rng.standard_normal((n, d), np.float32)
    pool *= 2
    truth = rng.integers(0, k, n)
    for start in range(0, n, 10_000):
        pool[start : start + 10_000] += centers[truth[start : start + 10_000]]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = []
    for _ in range(6):
        start_time = time.perf_counter()
        fitted = fit_pool(pool[: 5 * k], truth[: 5 * k], pool[5 * k :])
        seconds.append(time.perf_counter() - start_time)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    right = float((fitted.pool.label == truth[5 * k :]).mean())
    found = {"n": n, "classes": k, "seconds": round(seconds[0], 2), "seconds again": round(float(np.median(seconds[1:])), 2),
             "MiB before": round(before), "MiB at most": round(peak), "right": right,
             "threads": torch.get_num_threads()}  # fmt: skip
    write(f"scale-{n}.json", found)
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "tables", "scale"])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shots", type=int, nargs="*", default=[1, 5], help="beside unequal numbers of labeled images")
    parser.add_argument("--only-sala", action="store_true", help="measure no baselines that were not measured before")
    parser.add_argument("--anew", action="store_true", help="measure again the baselines measured on these draws")
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=16, help="of `scale`")
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.what == "scale":
        scale(options.images, options.classes)
    elif options.what == "tables":
        print_tables(json.loads((OUT / "caltech-16.json").read_text(encoding="utf-8"))["results"])
    else:
        measure(data_root(), options.draws, options.seed, options.shots, options.only_sala, options.anew)


if __name__ == "__main__":
    main()

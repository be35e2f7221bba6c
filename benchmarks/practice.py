"""How well a folder of photos is labelled, and against what: the numbers of docs/practice.md.

    SALA_DATA=... python benchmarks/practice.py measure          # writes results/practice/caltech-16.json
    python benchmarks/practice.py tables                         # its tables again
    python benchmarks/practice.py scale                          # time and memory of a fit on 100,000 images

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
from calibration import at_the_best_temperature, by_chance, calibration_gap, expected_calibration_error, without_bias
from practice_draws import BACKGROUND, Draw, caltech, data_root, draws
from practice_others import measure_others
from scipy.stats import t as student
from sklearn.metrics import roc_auc_score

from sala.aside import aside_threshold
from sala.engine import EngineConfig, fit_labels

ASKED = 0.9  # precision of what is set aside as junk: the command's default
UNEQUAL = [(1, 5), (1, 10)]  # labelled images of a class, drawn for each
OUT = Path(__file__).parent.parent / "results" / "practice"


def interval(values: Sequence[float] | np.ndarray) -> dict[str, float]:
    """Mean and half-width of the 95 % interval over draws; draws that have no such number are left out."""
    x = np.array(values)
    x = x[~np.isnan(x)]
    if len(x) < 2:
        return {"mean": float(x.mean()) if len(x) else float("nan"), "ci95": float("nan")}
    return {"mean": float(x.mean()), "ci95": float(student.ppf(0.975, len(x) - 1) * x.std(ddof=1) / len(x) ** 0.5)}


def measure_sala(made: list[Draw], used: EngineConfig | None = None) -> dict[str, Any]:
    names = ("accuracy", "ece", "ece_without_bias", "ece_in_hindsight", "ece_by_chance", "auroc")
    ours: dict[str, list[float]] = {name: [] for name in (*names, "plain_accuracy", "plain_auroc")}
    config = used or EngineConfig()
    together: list[tuple[np.ndarray, np.ndarray]] = []
    aside = np.zeros(3, int)  # set aside, of these junk, junk
    sure = np.zeros(3, int)  # sure, of these right, images
    for draw in made:
        known = draw.truth >= 0
        for prefix, n_steps in (("", config.n_steps), ("plain_", 0)):
            fitted = fit_labels(draw.support, draw.labels, draw.pool, config=replace(config, n_steps=n_steps))
            pool = fitted.pool
            ours[f"{prefix}accuracy"].append(100 * float((pool.label == draw.truth)[known].mean()))
            ours[f"{prefix}auroc"].append(float(roc_auc_score(~known, pool.none_score)) if not known.all() else np.nan)
            if not prefix:
                p, truth = pool.probabilities[known], draw.truth[known]
                ours["ece"].append(expected_calibration_error(p, truth))
                ours["ece_without_bias"].append(without_bias(p, truth))
                ours["ece_in_hindsight"].append(expected_calibration_error(at_the_best_temperature(p, truth), truth))
                ours["ece_by_chance"].append(by_chance(p))
                together.append((p.max(1), p.argmax(1) == truth))
                is_aside = set_aside(pool.none_score, fitted.left_out_none)
                aside += is_aside.sum(), (is_aside & ~known).sum(), (~known).sum()
                is_sure = ~is_aside & (pool.probabilities.max(1) * (1 - pool.none_score) >= ASKED)
                sure += is_sure.sum(), (is_sure & (pool.label == draw.truth)).sum(), len(known)
    pooled = calibration_gap(*(np.concatenate(parts) for parts in zip(*together, strict=True)))
    return {
        "n": len(made),
        **{key: interval(values) for key, values in ours.items()},
        "accuracies": ours["accuracy"],
        "ece_of_all_draws": pooled,
        "asked_precision": ASKED,
        "set_aside": int(aside[0]),
        "precision": float(aside[1] / aside[0]) if aside[0] else None,
        "recall": float(aside[1] / aside[2]) if aside[2] else None,
        "sure": float(sure[0] / sure[2]),
        "sure_right": float(sure[1] / sure[0]) if sure[0] else None,
    }


def with_differences(sala: dict[str, Any], others: dict[str, list[float]]) -> dict[str, Any]:
    """Paired by draw."""
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


def set_aside(none_score: np.ndarray, left_out: np.ndarray) -> np.ndarray:
    """As `sala label` does."""
    return none_score > aside_threshold(none_score, ASKED, left_out)


def measure(root: Path, n_draws: int, seed: int, shots: list[int], only_sala: bool, anew: bool) -> None:
    features, names = caltech(root)
    known, junk = sorted(set(names) - {BACKGROUND}), np.flatnonzero(names == BACKGROUND)
    path, results = OUT / "caltech-16.json", {}
    if path.is_file() and not anew:  # the others were measured before, if on the same draws
        content = json.loads(path.read_text(encoding="utf-8"))
        results = content["results"] if (content["seed"], content["n_draws"]) == (seed, n_draws) else {}
    for n_shot in [*shots, *UNEQUAL]:
        label = f"{n_shot} shot" if isinstance(n_shot, int) else f"{n_shot[0]} to {n_shot[1]} labelled"
        settings = {
            "all photos": {"sizes": [50 - np.max(n_shot)] * 16, "n_junk": 100},
            "80 % junk (6 classes, the others are junk too)": {"sizes": [25] * 6, "n_junk": 600},
            "class sizes 1 : 10": {
                "sizes": np.geomspace(4.5, min(45, 50 - np.max(n_shot)), 16).round().astype(int).tolist(),
                "n_junk": 100,
            },
        }
        for title, shape in settings.items():
            made = list(draws(features, names, known, junk, n_shot=n_shot, n_draws=n_draws, seed=seed, **shape))
            key = f"{title}, {label}"
            others = {name: other["accuracies"] for name, other in results.get(key, {}).get("others", {}).items()}
            if not only_sala:
                others = measure_others(made, others)
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
            f"AUROC of none-of-these {auroc} (without refinement {plain})."
        )
        precision, recall = ("-" if ours[key] is None else f"{ours[key]:.2f}" for key in ("precision", "recall"))
        print(f"Set aside as junk: precision {precision} where {ours['asked_precision']} is asked, recall {recall}.")
        right = "-" if ours["sure_right"] is None else f"{ours['sure_right']:.2f}"
        print(f"Sure: {ours['sure']:.2f} of the pool, of them right {right}.")


def shown(interval: dict[str, float], digits: int = 1) -> str:
    return f"{interval['mean']:.{digits}f} ± {interval['ci95']:.{digits}f}"


def write(name: str, content: dict[str, Any]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    machine = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "python": platform.python_version(),
               "torch": torch.__version__}  # fmt: skip
    (OUT / name).write_text(json.dumps(machine | content, indent=1) + "\n", encoding="utf-8")


def scale(n: int, d: int = 1280, k: int = 50) -> None:
    """A fit on made-up features, of the size that the docs promise."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((k, d), np.float32)
    pool = rng.standard_normal((n, d), np.float32)
    pool *= 2
    truth = rng.integers(0, k, n)
    for start in range(0, n, 10_000):
        pool[start : start + 10_000] += centres[truth[start : start + 10_000]]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start_time = time.perf_counter()
    fitted = fit_labels(pool[: 5 * k], truth[: 5 * k], pool[5 * k :])
    seconds = time.perf_counter() - start_time
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    right = float((fitted.pool.label == truth[5 * k :]).mean())
    found = {"n": n, "seconds": round(seconds, 2), "MiB before": round(before), "MiB at most": round(peak), "right": right,
             "threads": torch.get_num_threads()}  # fmt: skip
    write(f"scale-{n}.json", found)
    print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "tables", "scale"])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--shots", type=int, nargs="*", default=[1, 5], help="beside unequal numbers of labelled images"
    )
    parser.add_argument("--only-sala", action="store_true", help="leave the others out that were not measured before")
    parser.add_argument(
        "--anew", action="store_true", help="measure the others again that were measured on these draws"
    )
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.what == "scale":
        scale(options.images)
    elif options.what == "tables":
        print_tables(json.loads((OUT / "caltech-16.json").read_text(encoding="utf-8"))["results"])
    else:
        measure(data_root(), options.draws, options.seed, options.shots, options.only_sala, options.anew)


if __name__ == "__main__":
    main()

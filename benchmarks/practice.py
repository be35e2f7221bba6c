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
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from calibration import at_the_best_temperature, by_chance, calibration_gap, expected_calibration_error
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestCentroid
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier

from sala.aside import aside_threshold
from sala.data.files import Tree
from sala.encoders import EmbedProgress, embed_files, open_encoder
from sala.engine import EngineConfig, fit_labels
from sala.points import mean_of, normalised, spread_of, to_tensor

BACKGROUND = "BACKGROUND_Google"
ASKED = 0.9  # precision of what is set aside as junk: the command's default
UNEQUAL = [(1, 5), (1, 10)]  # labelled images of a class, drawn for each
OUT = Path(__file__).parent.parent / "results" / "practice"


@dataclass(frozen=True)
class Draw:
    """Labelled features and labels, and a pool with its truth (-1: of no class), which only the measuring looks at."""

    support: np.ndarray
    labels: np.ndarray
    pool: np.ndarray
    truth: np.ndarray


# --- data


def features_of(archive: Path, names: list[str]) -> np.ndarray:
    """Through files on disk, as a user's: they are unpacked into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(archive) as opened:
        paths = []
        for i, name in enumerate(names):
            paths.append(Path(folder) / f"{i}{Path(name).suffix}")
            with opened.open(name) as source, paths[-1].open("wb") as target:
                shutil.copyfileobj(source, target)
        embedded = embed_files(paths, open_encoder("lite0"), progress=show)
    assert not embedded.set_aside, embedded.set_aside
    return embedded.features


def show(p: EmbedProgress) -> None:
    print(f"\r{p.done} of {p.total} images, {p.n_cached} from the cache", end="", file=sys.stderr, flush=True)


def caltech(root: Path) -> tuple[np.ndarray, np.ndarray]:
    archive = root / "caltech" / "caltech-16.zip"
    names = [name for name in Tree(archive).files() if name.endswith(".jpg")]
    return features_of(archive, names), np.array([name.split("/")[-2] for name in names])


def data_root() -> Path:
    return Path(os.environ.get("SALA_DATA") or sys.exit("set SALA_DATA to the folder with the datasets"))


def draws(
    features: np.ndarray, names: np.ndarray, known: list[str], junk: np.ndarray, *, n_shot: int | tuple[int, int],
    sizes: list[int], n_junk: int, n_draws: int, seed: int,
) -> Iterator[Draw]:  # fmt: skip
    """`n_shot` labelled images of each class, or a number between two, drawn for each class. `sizes` are the pool's images of
    each class; which classes have which is drawn too. `junk` are rows for any draw; without them junk is drawn from the
    classes that a draw leaves out."""
    for i in range(n_draws):
        rng = np.random.default_rng([seed, i])
        classes = rng.permutation(known)[: len(sizes)]
        rows = [rng.permutation(np.flatnonzero(names == c)) for c in classes]
        shots = [n_shot] * len(sizes) if isinstance(n_shot, int) else rng.integers(n_shot[0], n_shot[1] + 1, len(sizes))
        support = np.concatenate([r[:n] for r, n in zip(rows, shots, strict=True)])
        pool = [r[n : n + size] for r, n, size in zip(rows, shots, sizes, strict=True)]
        others = np.concatenate([junk, np.flatnonzero(np.isin(names, list(set(known) - set(classes))))])
        aside = rng.permutation(others)[:n_junk]
        truth = np.concatenate([np.full(len(p), c) for c, p in enumerate(pool)] + [np.full(len(aside), -1)])
        labels = np.repeat(np.arange(len(sizes)), shots)
        yield Draw(features[support], labels, features[np.concatenate([*pool, aside])], truth)


# --- the others: what scikit-learn offers, on the same features, centred and scaled to length 1, with their spread and without


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
    """By cross-validation on the labelled images alone; where a class has one, there is nothing to hold out."""
    if np.bincount(y).min() < 2:
        return {}
    if name in ("logistic regression", "SelfTraining"):
        x = x @ np.linalg.svd(x, full_matrices=False)[2].T  # a rotation into their span: the same answer, sooner
    folds = list(StratifiedKFold(min(3, np.bincount(y).min()), shuffle=True, random_state=0).split(x, y))

    def right(options: dict[str, Any]) -> float:
        hits = []
        for fit, held in folds:
            # a pool in each fold would take SelfTraining minutes a draw: there the held-out images are the pool
            with_pool = BASELINES[name][1] and name != "SelfTraining"
            unlabelled = np.concatenate([x[held], pool]) if with_pool else x[held]
            quick = options | ({"max_iter": 150} if name == "LabelPropagation" else {})  # of a thousand: to choose by
            hits.append(predict_baseline(name, quick, x[fit], y[fit], unlabelled)[: len(held)] == y[held])
        return float(np.concatenate(hits).mean())

    return max(BASELINES[name][2], key=right)


# --- measuring


def interval(values: Sequence[float] | np.ndarray) -> dict[str, float]:
    """Mean and half-width of the 95 % interval over draws; draws that have no such number are left out."""
    x = np.array(values)
    x = x[~np.isnan(x)]
    if len(x) < 2:
        return {"mean": float(x.mean()) if len(x) else float("nan"), "ci95": float("nan")}
    return {"mean": float(x.mean()), "ci95": float(student.ppf(0.975, len(x) - 1) * x.std(ddof=1) / len(x) ** 0.5)}


def measure_sala(made: list[Draw], used: EngineConfig | None = None) -> dict[str, Any]:
    names = ("accuracy", "ece", "ece_in_hindsight", "ece_by_chance", "auroc", "plain_accuracy", "plain_auroc")
    ours: dict[str, list[float]] = {name: [] for name in names}
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


def measure_others(made: list[Draw], before: dict[str, list[float]]) -> dict[str, list[float]]:
    """Accuracies on each draw; those of `before` are taken as they are."""
    others: dict[str, list[float]] = {}
    for scaling in ("", ", spread taken out"):
        names = [f"{name}, {how}{scaling}" for name in BASELINES for how in ("default", "tuned")]
        if all(name in before for name in names):
            others |= {name: before[name] for name in names}
            continue
        others |= {name: [] for name in names}
        for draw in made:
            known = draw.truth >= 0
            x, p = same_scale(draw, bool(scaling))
            for name in BASELINES:
                for how, options in (("default", {}), ("tuned", tuned_options(name, x, draw.labels, p))):
                    values = others[f"{name}, {how}{scaling}"]
                    if how == "tuned" and not options:
                        values.append(others[f"{name}, default{scaling}"][-1])
                        continue
                    found = predict_baseline(name, options, x, draw.labels, p)
                    values.append(100 * float((found == draw.truth)[known].mean()))
            print(".", end="", file=sys.stderr, flush=True)
    return others


def same_scale(draw: Draw, without_spread: bool) -> tuple[np.ndarray, np.ndarray]:
    """Labelled features and the pool's, centred and scaled to length 1; without their spread as the engine has them."""
    parts = [to_tensor(draw.support), to_tensor(draw.pool)]
    centre = mean_of(parts)
    spread = spread_of(parts, centre) if without_spread else torch.ones_like(centre)
    x, p = (normalised(part, centre, spread).numpy() for part in parts)
    return x, p


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
        keys = ("ece", "ece_in_hindsight", "ece_by_chance", "auroc", "plain_auroc")
        ece, least, chance, auroc, plain = (shown(ours[key], 3) for key in keys)
        print(
            f"\nCalibration error {ece} (draws taken together {ours['ece_of_all_draws']:.3f}; with the best temperature of "
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

"""The classifier on your own sets of images: a folder for each set, with a folder of images for each of its classes.

    python benchmarks/labeling/folders.py SET/ [SET/ ...] [--out folders.json]

Of each set some classes are drawn, and a few images of each are labeled. The pool is the rest of their images and outliers,
which are images of the other classes. Pools: 15 % outliers; class sizes 1 : 10; 80 % outliers. It prints a line for each, and
writes results/practice/NAME with --out NAME.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from baselines import normalized_features, predict_baseline, tuned_options
from draws import Draw, draws, show
from pools import interval, measure_sala, write

from sala.classifier.fit import ClassifierConfig
from sala.encoders import embed_files, open_encoder

BASELINES = [  # on scaled features and on plain ones; the others of baselines.py take minutes a draw
    ("logistic regression", False), ("logistic regression", True), ("nearest centroid", False), ("LabelSpreading", False),
]  # fmt: skip


def features_of_set(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    paths = sorted(path for path in folder.glob("*/*") if path.is_file())
    embedded = embed_files(paths, open_encoder("lite0"), progress=show)
    print(f"\n{folder.name}: skipped {len(embedded.skipped)} files", file=sys.stderr)
    return embedded.features, np.array([paths[i].parent.name for i in embedded.kept])


def pools(names: np.ndarray, n_shot: int) -> dict[str, dict[str, Any]]:
    """Pools of four fifths of the classes, or of five; of each as many images as half of the classes have, 60 at most."""
    counts = np.unique(names, return_counts=True)[1]
    if len(counts) < 7 or np.quantile(counts, 0.5) < 10:
        sys.exit(f"a set needs 7 classes or more, half of them with 10 images or more; this one has {counts.tolist()}")
    n_way, most = round(0.8 * len(counts)), min(60, int(np.quantile(counts, 0.5)) - n_shot)
    n_outliers = round(0.15 / 0.85 * n_way * most)
    unequal = np.geomspace(max(most / 10, 2), most, n_way).round().astype(int).tolist()
    return {
        "15 % outliers": {"sizes": [most] * n_way, "n_outliers": n_outliers},
        "class sizes 1 : 10": {"sizes": unequal, "n_outliers": round(0.15 / 0.85 * sum(unequal))},
        "80 % outliers": {"sizes": [min(20, most)] * 5, "n_outliers": 20 * min(20, most)},
    }


def accuracies_of_baselines(made: list[Draw]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for draw in made:
        for is_scaled in (False, True):
            x, p = normalized_features(draw, is_scaled)
            for name, is_tuned in BASELINES:
                options = tuned_options(name, x, draw.labels, p) if is_tuned else {}
                title = f"{name}, {'tuned' if is_tuned else 'default'}{', scaled' if is_scaled else ''}"
                right = predict_baseline(name, options, x, draw.labels, p) == draw.truth
                found.setdefault(title, []).append(100 * float(right[draw.truth >= 0].mean()))
    return found


def measure(folder: Path, n_draws: int, seed: int) -> dict[str, Any]:
    features, names = features_of_set(folder)
    results = {}
    for n_shot in (1, 5):
        for title, shape in pools(names, n_shot).items():
            made = list(draws(features, names, sorted(set(names)), np.empty(0, int), n_shot=n_shot, n_draws=n_draws,
                              seed=seed, **shape))  # fmt: skip
            ours, theirs = measure_sala(made), accuracies_of_baselines(made)
            without = measure_sala(made, ClassifierConfig(linear_weight=0.0))["accuracies"]
            best = max(theirs, key=lambda name: float(np.mean(theirs[name])))
            key = f"{folder.name}, {title}, {n_shot} shot"
            results[key] = {
                "n_images": len(names),
                "n_classes": len(set(names)),
                "sala": ours,
                "best_other": {"name": best, **interval(theirs[best])},
                "sala_minus_it": interval(np.subtract(ours["accuracies"], theirs[best])),
                "sala_minus_itself_without_linear": interval(np.subtract(ours["accuracies"], without)),
            }
            print(line(key, results[key]), flush=True)
    return results


def line(title: str, found: dict[str, Any]) -> str:
    ours, other = found["sala"], found["best_other"]
    return (
        f"{title}: sala {ours['accuracy']['mean']:.1f} %, {other['name']} {other['mean']:.1f} %, difference "
        f"{found['sala_minus_it']['mean']:+.1f} ± {found['sala_minus_it']['ci95']:.1f}, calibration error of a draw "
        f"{ours['ece']['mean']:.3f}, together {ours['ece_of_all_draws']:.3f}, AUROC of outliers {ours['auroc']['mean']:.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path, nargs="+", metavar="SET")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--out", help="the name of a file in results/practice/")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for folder in options.sets:
        results |= measure(folder, options.draws, options.seed)
        if options.out:
            write(options.out, {"seed": options.seed, "n_draws": options.draws, "results": results})


if __name__ == "__main__":
    main()

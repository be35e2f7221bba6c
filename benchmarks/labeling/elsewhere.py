"""The classifier on images that none of its numbers was fitted on, also of kinds that its encoder never saw.

    SALA_DATA=... python benchmarks/labeling/elsewhere.py    # writes results/practice/elsewhere.json

It needs caltech/caltech-16.zip, tiny-imagenet/tiny-imagenet-200.zip (test classes of tiny-tiered alone) and
omniglot/images_evaluation.zip in $SALA_DATA.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from baselines import normalized_features, predict_baseline
from draws import BACKGROUND, Draw, caltech, data_root, draws
from pools import interval, measure_sala, write
from tasks import letters, tiny

from sala.classifier.fit import ClassifierConfig


def regression(made: list[Draw]) -> list[float]:
    """Accuracies in percent of scikit-learn's LogisticRegression on the labeled images, with its defaults; on scaled
    features or not, whichever is better on average."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for draw in made:
        for is_scaled, accuracies in found.items():
            x, p = normalized_features(draw, is_scaled)
            right = predict_baseline("logistic regression", {"max_iter": 500}, x, draw.labels, p) == draw.truth
            accuracies.append(100 * float(right[draw.truth >= 0].mean()))
    return max(found.values(), key=np.mean)


def measure(root: Path, n_draws: int, seed: int) -> dict[str, Any]:
    none = np.empty(0, int)
    photos, photo_names = caltech(root)
    background = np.flatnonzero(photo_names == BACKGROUND)
    tiny_photos = tiny(root, n_images=50, split={"test"})
    drawn = letters(root / "omniglot" / "images_evaluation.zip", n_classes=60)
    settings: dict[str, tuple[tuple[np.ndarray, np.ndarray], np.ndarray, list[int], dict[str, Any]]] = {
        "photos (Caltech), 16 classes": ((photos, photo_names), background, [10], {"sizes": [40] * 16, "n_outliers": 100}),
        "photos (Caltech), 16 classes, 8 of them in the pool": (
            (photos, photo_names), background, [1, 5], {"sizes": [40] * 8 + [0] * 8, "n_outliers": 100},
        ),
        "photos (Caltech), 6 classes, 1 of them in the pool, no outliers": (
            (photos, photo_names), none, [1, 5], {"sizes": [40] + [0] * 5, "n_outliers": 0},
        ),
        "enlarged photos (test classes of tiny-tiered), 10 classes": (
            tiny_photos, none, [1, 5, 10], {"sizes": [25] * 10, "n_outliers": 100},
        ),
        "the same, 5 classes, 70 % outliers": (tiny_photos, none, [1, 5], {"sizes": [25] * 5, "n_outliers": 300}),
        "handwritten characters (Omniglot), 10 classes": (drawn, none, [1, 5], {"sizes": [15] * 10, "n_outliers": 100}),
    }  # fmt: skip
    results = {}
    for title, ((features, names), outliers, shots, shape) in settings.items():
        class_names = sorted(set(names) - {BACKGROUND})
        for n_shot in shots:
            made = list(
                draws(features, names, class_names, outliers, n_shot=n_shot, n_draws=n_draws, seed=seed, **shape)
            )
            ours, theirs = measure_sala(made), regression(made)
            unwhitened = measure_sala(made, ClassifierConfig(n_directions=0))["accuracies"]
            results[f"{title}, {n_shot} shot"] = {
                "sala": ours,
                "logistic regression": interval(theirs),
                "sala_minus_it": interval(np.subtract(ours["accuracies"], theirs)),
                "without_whitening": interval(unwhitened),
                "sala_minus_without_whitening": interval(np.subtract(ours["accuracies"], unwhitened)),
            }
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args()
    results = measure(data_root(), options.draws, options.seed)
    write("elsewhere.json", {"seed": options.seed, "n_draws": options.draws, "results": results})


if __name__ == "__main__":
    main()

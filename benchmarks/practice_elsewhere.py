"""The engine on images that nothing in it was fitted on, also of kinds that its encoder never saw: see docs/practice.md.

    SALA_DATA=... python benchmarks/practice_elsewhere.py    # writes results/practice/elsewhere.json

It needs caltech/caltech-16.zip, tiny-imagenet/tiny-imagenet-200.zip (test classes of tiny-tiered alone) and
omniglot/images_evaluation.zip in $SALA_DATA.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from practice import interval, measure_sala, write
from practice_draws import BACKGROUND, Draw, caltech, data_root, draws
from practice_others import predict_baseline, same_scale
from practice_tasks import letters, tiny

from sala.engine import EngineConfig


def regression(made: list[Draw]) -> list[float]:
    """scikit-learn's LogisticRegression on the labelled images, with its defaults: accuracies in percent. With the spread of
    features taken out or not, whichever is better on average."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for draw in made:
        for without_spread, accuracies in found.items():
            x, p = same_scale(draw, without_spread)
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
        "photos (Caltech), 16 classes": ((photos, photo_names), background, [10], {"sizes": [40] * 16, "n_junk": 100}),
        "photos (Caltech), 16 classes, 8 of them in the pool": (
            (photos, photo_names), background, [1, 5], {"sizes": [40] * 8 + [0] * 8, "n_junk": 100},
        ),
        "photos (Caltech), 6 classes, 1 of them in the pool, no junk": (
            (photos, photo_names), none, [1, 5], {"sizes": [40] + [0] * 5, "n_junk": 0},
        ),
        "enlarged photos (test classes of tiny-tiered), 10 classes": (
            tiny_photos, none, [1, 5, 10], {"sizes": [25] * 10, "n_junk": 100},
        ),
        "the same, 5 classes, 70 % junk": (tiny_photos, none, [1, 5], {"sizes": [25] * 5, "n_junk": 300}),
        "handwritten characters (Omniglot), 10 classes": (drawn, none, [1, 5], {"sizes": [15] * 10, "n_junk": 100}),
    }  # fmt: skip
    results = {}
    for title, ((features, names), junk, shots, shape) in settings.items():
        known = sorted(set(names) - {BACKGROUND})
        for n_shot in shots:
            made = list(draws(features, names, known, junk, n_shot=n_shot, n_draws=n_draws, seed=seed, **shape))
            ours, theirs = measure_sala(made), regression(made)
            left_in = measure_sala(made, EngineConfig(n_directions=0))["accuracies"]
            results[f"{title}, {n_shot} shot"] = {
                "sala": ours,
                "logistic regression": interval(theirs),
                "sala_minus_it": interval(np.subtract(ours["accuracies"], theirs)),
                "variation_left_in": interval(left_in),
                "sala_minus_that": interval(np.subtract(ours["accuracies"], left_in)),
            }
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args()
    results = measure(data_root(), options.draws, options.seed)
    write("elsewhere.json", {"seed": options.seed, "n_draws": options.draws, "results": results})
    print("python docs/fill.py puts the table into docs/practice.md")


if __name__ == "__main__":
    main()

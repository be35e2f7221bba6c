"""The judge of every change to the classifier: pools from image sets of many kinds, beside every rival head.

    make bench-labeling                                          # embeds once (half an hour), then minutes
    SALA_DATA=FILES python benchmarks/labeling/judge.py --draws 16

Four columns (one or five shots, without and with outliers) of ten classes from each set, pools that have few of the
classes, and pools of all shapes; see varied.py. Ours is measured anew, rivals are kept in the cache by what they were given.
Writes results/practice/sets.json. iLPC and self-training take ten seconds a pool and more: only `--slow` has them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from calibration import calibration_gap
from draws import Draw, data_root
from pools import interval, write
from sets import SETS, described, load_sets
from sklearn.metrics import roc_auc_score
from torch import Tensor
from varied import COLUMNS, FEW, columns, few_classes, varied

from sala.atomic import write_atomically
from sala.cache import cache_folder
from sala.classifier.fit import ClassifierConfig, fit_pool
from sala.classifier.normalize import mean_of, normalized, to_tensor
from sala.functional import one_hot, unit_length
from sala.heads import HEADS
from sala.labeling.predictions import find_thresholds

PRECISIONS = (0.8, 0.9, 0.95)
DEFAULT, COVERED = 0.9, 0.95  # precision of `sala label`; accuracy at which coverage is measured
SLOW = ("ilpc", "self-training")
LARGEST_VARIED = 5_000
Answer = tuple[np.ndarray, np.ndarray]  # probabilities [n, k], outlier scores [n]


def rows_of(draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
    """Labeled and pool embeddings, centered and of length 1, and the labels."""
    parts = [to_tensor(draw.support), to_tensor(draw.pool)]
    center = mean_of(parts)
    support, pool = (normalized(part, center, torch.ones_like(center)) for part in parts)
    return support, pool, torch.from_numpy(draw.labels)


def soft_kmeans(draw: Draw, sharpness: float = 10.0, n_steps: int = 5) -> Answer:
    """Centered soft k-means; outliers by their largest similarity to its prototypes."""
    support, pool, labels = rows_of(draw)
    sums = one_hot(labels, int(labels.max()) + 1, like=support).T @ support
    prototypes = unit_length(sums)
    for _ in range(n_steps):
        prototypes = unit_length(sums + (sharpness * pool @ prototypes.T).softmax(-1).T @ pool)
    similarities = pool @ prototypes.T
    return (sharpness * similarities).softmax(-1).numpy(), -similarities.amax(-1).numpy()


def largest_similarity(draw: Draw) -> Answer:
    """Nearest prototype; outliers by their largest similarity."""
    support, pool, labels = rows_of(draw)
    similarities = pool @ unit_length(one_hot(labels, int(labels.max()) + 1, like=support).T @ support).T
    return (10 * similarities).softmax(-1).numpy(), -similarities.amax(-1).numpy()


def kth_neighbor(draw: Draw) -> Answer:
    """Nearest labeled image; outliers by the similarity of the k-th nearest labeled one, k the examples of a class."""
    support, pool, labels = rows_of(draw)
    similarities = pool @ support.T
    classes = one_hot(labels[similarities.argmax(-1)], int(labels.max()) + 1, like=support)
    kth = similarities.topk(int(labels.bincount().min()), -1).values[:, -1]
    return classes.numpy(), -kth.numpy()


def head(name: str) -> Callable[[Draw], Answer]:
    def answer(draw: Draw) -> Answer:
        support, pool = (torch.from_numpy(np.asarray(x, np.float64)) for x in (draw.support, draw.pool))
        labels = torch.from_numpy(draw.labels)
        scores = HEADS[name]().fit(support, labels, pool, int(labels.max()) + 1).pool
        p = scores.log_probabilities.exp().numpy()
        return p, -p.max(1) if scores.inlier is None else -scores.inlier.numpy()

    return answer


RIVALS: dict[str, Callable[[Draw], Answer]] = {
    "soft k-means": soft_kmeans,
    "largest similarity": largest_similarity,
    "k-th neighbor": kth_neighbor,
    **{name: head(name) for name in HEADS if name != "classifier"},
}
OUTLIER_SCORES = ("soft k-means", "largest similarity", "k-th neighbor", "oslo")  # rivals that score outliers


def measure(answer: Answer, truth: np.ndarray) -> dict[str, float | None]:
    """Accuracy and calibration error of the inliers, AUROC of outliers, share of the pool covered at 95 % right labels."""
    p, score = answer
    is_inlier, right = truth >= 0, p.argmax(1) == truth
    auroc = None if is_inlier.all() or not is_inlier.any() else float(roc_auc_score(~is_inlier, score))
    order = np.argsort(-p.max(1), kind="stable")
    share = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    covered = np.flatnonzero(share >= COVERED)
    return {
        "accuracy": 100 * float(right[is_inlier].mean()) if is_inlier.any() else None,
        "ece": calibration_gap(p.max(1)[is_inlier], right[is_inlier]) if is_inlier.any() else None,
        "auroc": auroc,
        "covered": float(covered[-1] + 1) / len(order) if len(covered) else 0.0,
    }


def measure_ours(draw: Draw) -> dict[str, Any]:
    fitted = fit_pool(draw.support, draw.labels, draw.pool, config=ClassifierConfig(n_suggestions=0))
    pool, is_outlier = fitted.pool, draw.truth < 0
    found: dict[str, Any] = measure((pool.probabilities, pool.outlier_probability), draw.truth)
    score = pool.outlier_probability.astype(np.float64)
    for precision in PRECISIONS:
        threshold = fitted.rejection_threshold(precision)
        is_rejected = score > threshold
        found[f"rejected {precision}"] = [
            int(is_rejected.sum()), int((is_rejected & is_outlier).sum()), in_hindsight(score, is_outlier, precision),
        ]  # fmt: skip
        if precision == DEFAULT:
            confidence = pool.probabilities.max(1) * (1 - score)
            is_confident = ~is_rejected & (confidence >= find_thresholds(fitted, precision).confident)
            right = int((is_confident & (pool.label == draw.truth)).sum())
            found["confident"] = [int(is_confident.sum()), right, len(score)]
    return found


def in_hindsight(score: np.ndarray, is_outlier: np.ndarray, precision: float) -> int:
    """Outliers above the lowest threshold that has the precision, were the truth known."""
    order = np.argsort(-score, kind="stable")
    reached = np.flatnonzero(np.cumsum(is_outlier[order]) / np.arange(1, len(order) + 1) >= precision)
    return int(is_outlier[order][: reached[-1] + 1].sum()) if len(reached) else 0


class Kept:
    """Rivals' measures, in the cache by rival and by the content of the pool."""

    def __init__(self) -> None:
        self.path = cache_folder() / "benchmarks" / "rivals.json"
        self.found: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else {}

    def measure(self, name: str, draw: Draw) -> dict[str, Any]:
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in vars(draw).values()))
        key = f"{name} {digest.hexdigest()[:24]}"
        if key not in self.found:
            self.found[key] = measure(RIVALS[name](draw), draw.truth)
        return self.found[key]  # type: ignore[no-any-return]

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, json.dumps(self.found).encode())


def summarized(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over draws with their intervals; counts are added up."""
    found: dict[str, Any] = {}
    for name in measured[0]:
        values = [m[name] for m in measured if m[name] is not None]
        if values and isinstance(values[0], list):
            found[name] = np.sum(values, 0).tolist()
            if name.startswith("rejected"):  # the mean share of outliers over the draws that reject
                shares = [v[1] / v[0] for v in values if v[0]]
                found[name] += [float(np.mean(shares)) if shares else None, len(shares)]
        else:
            found[name] = interval(values) if values else None
    return found


def judge(draws: dict[str, Iterable[Draw]], rivals: list[str], kept: Kept) -> dict[str, Any]:
    """Ours and rivals on the draws of each column of one set."""
    found: dict[str, Any] = {}
    for column, made in draws.items():
        measured: dict[str, list[dict[str, Any]]] = {name: [] for name in ("sala", *rivals)}
        for draw in made:
            measured["sala"].append(measure_ours(draw))
            for name in rivals:
                measured[name].append(kept.measure(name, draw))
        found[column] = {name: summarized(values) for name, values in measured.items() if values}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4, help="of each column and set")
    parser.add_argument("--varied", type=int, default=8, help="pools of all shapes from each set, ours alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--set",
        action="append",
        choices=list(SETS),
        dest="sets",
        help="only this one, printed and not recorded; repeatable",
    )
    parser.add_argument("--slow", action="store_true", help="with iLPC and self-training")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rivals = [name for name in RIVALS if args.slow or name not in SLOW]
    kept, results, about = Kept(), {}, {}
    for name, image_set in load_sets(data_root(), args.sets or SETS).items():
        results[name] = judge({c: columns(image_set, c, args.draws, args.seed) for c in COLUMNS}, rivals, kept)
        shapes = [d for d in varied(image_set, args.varied, args.seed) if 0 < len(d.pool) <= LARGEST_VARIED]
        few = {column: few_classes(image_set, column, 6, args.seed) for column in FEW}  # each of its shapes once
        results[name] |= judge(few, rivals, kept) | judge({"varied": shapes}, [], kept)
        about[name] = described(image_set)
        kept.save()
        print(line(name, results[name]), file=sys.stderr, flush=True)
    found = {"draws": args.draws, "varied": args.varied, "seed": args.seed, "sets": about, "results": results}
    if args.sets:  # the record has all sets
        print(json.dumps(found, indent=1))
    else:
        write("sets.json", found)
        print("results/practice/sets.json")


def line(name: str, found: dict[str, Any]) -> str:
    shown = []
    for column in COLUMNS:
        means = {rival: value["accuracy"]["mean"] for rival, value in found[column].items()}
        best = max((rival for rival in means if rival != "sala"), key=means.__getitem__, default="")
        other = f" ({best} {means[best]:.1f})" if best else ""
        shown.append(f"{column}: {means['sala']:.1f}{other}")
    return f"{name}: " + ", ".join(shown)


if __name__ == "__main__":
    main()

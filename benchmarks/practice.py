"""How well a folder of photos is labelled, and against what: the numbers of docs/practice.md.

    SALA_DATA=... python benchmarks/practice.py measure          # writes results/practice/caltech-16.json
    python benchmarks/practice.py tables                         # its tables again
    SALA_DATA=... python benchmarks/practice.py choose           # what the engine's defaults were chosen by: other images
    SALA_DATA=... python benchmarks/practice.py none             # fits what none-of-these is judged by, on the same images
    python benchmarks/practice.py scale                          # time and memory of a fit on 100,000 images

`measure` needs caltech/caltech-16.zip in $SALA_DATA (16 classes of 50 photos and 100 of background), `choose` tiny-imagenet.
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
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import NearestCentroid
from sklearn.semi_supervised import LabelPropagation, LabelSpreading, SelfTrainingClassifier

import sala.belonging
from sala.belonging import Belonging, Similarities, fitted_to, known_similarity, none_threshold, second_best, trusted
from sala.data.files import Tree
from sala.data.folder import synset_files
from sala.data.splits import tieredimagenet_splits
from sala.encoders import EmbedProgress, embed_files, open_encoder
from sala.engine import EngineConfig, anchored, class_sums, fit_labels, leave_one_out, normalised, refine, to_tensor

BACKGROUND = "BACKGROUND_Google"
ASKED = 0.9  # precision of what is set aside as junk: the command's default
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


def tiny(root: Path, n_images: int, split: set[str]) -> tuple[np.ndarray, np.ndarray]:
    """Some images of each class of tiny-tiered in these splits."""
    archive, splits = root / "tiny-imagenet" / "tiny-imagenet-200.zip", tieredimagenet_splits()
    files = synset_files(Tree(archive), splits, below="train", complete=False)
    rng = np.random.default_rng(0)
    names, labels = [], []
    for synset in sorted(files):
        drawn = [str(name) for name in rng.permutation(sorted(files[synset]))[:n_images]]
        if splits[synset] in split:
            names += drawn
            labels += [synset] * n_images
    return features_of(archive, names), np.array(labels)


def draws(
    features: np.ndarray, names: np.ndarray, known: list[str], junk: np.ndarray, *, n_shot: int, sizes: list[int], n_junk: int,
    n_draws: int, seed: int,
) -> Iterator[Draw]:  # fmt: skip
    """`sizes` are the pool's images of each class; which classes have which is drawn too. `junk` are rows for any draw;
    without them junk is drawn from the classes that a draw leaves out."""
    for i in range(n_draws):
        rng = np.random.default_rng([seed, i])
        classes = rng.permutation(known)[: len(sizes)]
        rows = [rng.permutation(np.flatnonzero(names == c)) for c in classes]
        support = np.concatenate([r[:n_shot] for r in rows])
        pool = [r[n_shot : n_shot + size] for r, size in zip(rows, sizes, strict=True)]
        others = np.concatenate([junk, np.flatnonzero(np.isin(names, list(set(known) - set(classes))))])
        aside = rng.permutation(others)[:n_junk]
        truth = np.concatenate([np.full(len(p), c) for c, p in enumerate(pool)] + [np.full(len(aside), -1)])
        yield Draw(
            features[support], np.repeat(np.arange(len(sizes)), n_shot), features[np.concatenate([*pool, aside])], truth
        )


# --- the others: what scikit-learn offers, on the same features, centred and scaled alike


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


def expected_calibration_error(p: np.ndarray, truth: np.ndarray, n_bins: int = 15) -> float:
    confidence, right = p.max(1), p.argmax(1) == truth
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = [(bins == b).mean() * abs(right[bins == b].mean() - confidence[bins == b].mean()) for b in set(bins)]
    return float(np.sum(gaps))


def interval(values: Sequence[float] | np.ndarray) -> dict[str, float]:
    """Mean and half-width of the 95 % interval over draws."""
    x = np.array(values)
    return {"mean": float(x.mean()), "ci95": float(student.ppf(0.975, len(x) - 1) * x.std(ddof=1) / len(x) ** 0.5)}


def measure_sala(made: list[Draw]) -> dict[str, Any]:
    ours: dict[str, list[float]] = {"accuracy": [], "ece": [], "auroc": [], "plain_accuracy": [], "plain_auroc": []}
    together: list[tuple[np.ndarray, np.ndarray]] = []
    aside = np.zeros(3, int)  # set aside, of these junk, junk
    for draw in made:
        known = draw.truth >= 0
        for prefix, config in (("", EngineConfig()), ("plain_", EngineConfig(n_steps=0))):
            pool = fit_labels(draw.support, draw.labels, draw.pool, config=config).pool
            ours[f"{prefix}accuracy"].append(100 * float((pool.label == draw.truth)[known].mean()))
            ours[f"{prefix}auroc"].append(float(roc_auc_score(~known, pool.none_score)))
            if not prefix:
                ours["ece"].append(expected_calibration_error(pool.probabilities[known], draw.truth[known]))
                together.append((pool.probabilities[known], draw.truth[known]))
                is_aside = set_aside(pool.none_score)
                aside += is_aside.sum(), (is_aside & ~known).sum(), (~known).sum()
    pooled = expected_calibration_error(
        np.concatenate([p for p, _ in together]), np.concatenate([truth for _, truth in together])
    )
    return {
        **{key: interval(values) for key, values in ours.items()},
        "accuracies": ours["accuracy"],
        "ece_of_all_draws": pooled,
        "asked_precision": ASKED,
        "set_aside": int(aside[0]),
        "precision": float(aside[1] / aside[0]) if aside[0] else None,
        "recall": float(aside[1] / aside[2]),
    }


def measure_others(made: list[Draw]) -> dict[str, list[float]]:
    """Accuracies on each draw."""
    others: dict[str, list[float]] = {f"{name}, {how}": [] for name in BASELINES for how in ("default", "tuned")}
    for draw in made:
        known = draw.truth >= 0
        centre = to_tensor(np.concatenate([draw.support, draw.pool])).mean(0)
        x, p = (normalised(to_tensor(part), centre).numpy() for part in (draw.support, draw.pool))
        for name in BASELINES:
            for how, options in (("default", {}), ("tuned", tuned_options(name, x, draw.labels, p))):
                if how == "tuned" and not options:
                    others[f"{name}, {how}"].append(others[f"{name}, default"][-1])
                    continue
                found = predict_baseline(name, options, x, draw.labels, p)
                others[f"{name}, {how}"].append(100 * float((found == draw.truth)[known].mean()))
        print(".", end="", file=sys.stderr, flush=True)
    return others


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


def set_aside(none_score: np.ndarray) -> np.ndarray:
    """As `sala label` does."""
    return none_score > max(min(none_threshold(none_score, ASKED), ASKED), 0.5)


def measure(root: Path, n_draws: int, seed: int, shots: list[int], only_sala: bool) -> None:
    features, names = caltech(root)
    known, junk = sorted(set(names) - {BACKGROUND}), np.flatnonzero(names == BACKGROUND)
    path, results = OUT / "caltech-16.json", {}
    if path.is_file() and (len(shots) == 1 or only_sala):  # the rest was measured before, if on the same draws
        content = json.loads(path.read_text(encoding="utf-8"))
        results = content["results"] if (content["seed"], content["n_draws"]) == (seed, n_draws) else {}
    for n_shot in shots:
        settings = {
            "all photos": {"sizes": [50 - n_shot] * 16, "n_junk": 100},
            "80 % junk (6 classes, the others are junk too)": {"sizes": [25] * 6, "n_junk": 600},
            "class sizes 1 : 10": {"sizes": np.geomspace(4.5, 45, 16).round().astype(int).tolist(), "n_junk": 100},
        }
        for title, shape in settings.items():
            made = list(draws(features, names, known, junk, n_shot=n_shot, n_draws=n_draws, seed=seed, **shape))
            key = f"{title}, {n_shot} shot"
            if only_sala:
                others = {name: other["accuracies"] for name, other in results.get(key, {}).get("others", {}).items()}
            else:
                others = measure_others(made)
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
        ece, auroc, plain = (shown(ours[key], 3) for key in ("ece", "auroc", "plain_auroc"))
        print(
            f"\nCalibration error {ece} (draws taken together {ours['ece_of_all_draws']:.3f}); AUROC of none-of-these {auroc}",
            end="",
        )
        print(f" (without refinement {plain}).")
        precision = "-" if ours["precision"] is None else f"{ours['precision']:.2f}"
        print(
            f"Set aside as junk: precision {precision} where {ours['asked_precision']} is asked, recall {ours['recall']:.2f}."
        )


def shown(interval: dict[str, float], digits: int = 1) -> str:
    return f"{interval['mean']:.{digits}f} ± {interval['ci95']:.{digits}f}"


def write(name: str, content: dict[str, Any]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    machine = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "python": platform.python_version(),
               "torch": torch.__version__}  # fmt: skip
    (OUT / name).write_text(json.dumps(machine | content, indent=1) + "\n", encoding="utf-8")


# --- choosing, on other images


def averaged(features: np.ndarray, names: np.ndarray, m: int) -> np.ndarray:
    """Each row mixed with m - 1 random others of its class: the same classes, easier to tell apart."""
    rng = np.random.default_rng(0)
    mixed = features.copy()
    for i, name in enumerate(names):
        others = rng.choice(np.flatnonzero(names == name), m - 1, replace=False)
        mixed[i] = features[[i, *others]].mean(0)
    return mixed


def choose(root: Path, n_draws: int, seed: int) -> None:
    """Accuracy and AUROC of some settings over shapes of task and three difficulties, and the prior of the temperature."""
    features, names = tiny(root, n_images=50, split={"train", "val"})  # no test class is looked at
    known = sorted(set(names))
    few = sorted(np.random.default_rng(0).permutation(known)[:18])  # so few that junk from the others comes in clusters
    shapes = [  # the pool's images of each class, junk, classes to draw from
        ([40] * 16, 80, known), ([8] * 10, 320, known), ([40] * 16, 0, known), ([40] * 5, 50, known), ([40] * 30, 100, known),
        ([20] * 6, 480, few),
    ]  # fmt: skip
    base = EngineConfig(n_label_next=0)
    variants = {"default": base, "no refinement": replace(base, n_steps=0)}
    variants |= {f"sharpness {s}": replace(base, sharpness=float(s)) for s in (8, 25, 40)}
    variants |= {f"labelled weight {w}": replace(base, labelled_weight=float(w)) for w in (1, 6)}
    variants |= {f"{n} steps": replace(base, n_steps=n) for n in (2, 5)}
    variants |= {f"anchor {a}": replace(base, anchor=a) for a in (0.0, 0.5)}
    scores: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    rows = []
    for m in (1, 2, 4):
        mixed = averaged(features, names, m)
        for n_shot in (1, 3, 5):
            for sizes, n_junk, among in shapes:
                for draw in draws(mixed, names, among, np.empty(0, int), n_shot=n_shot, sizes=sizes, n_junk=n_junk,
                                  n_draws=n_draws, seed=seed):  # fmt: skip
                    in_class = draw.truth >= 0
                    for name, config in variants.items():
                        fitted = fit_labels(draw.support, draw.labels, draw.pool, config=config)
                        right = float((fitted.pool.label == draw.truth)[in_class].mean())
                        auroc = float(roc_auc_score(~in_class, fitted.pool.none_score)) if n_junk else np.nan
                        scores[name].append((right, auroc))
                        if name == "default":
                            points = normalised(to_tensor(draw.pool), fitted.model.centre)[torch.from_numpy(in_class)]
                            beta = best_beta(
                                (points @ anchored(fitted.model.refined, fitted.model.first, config.anchor).T)
                                .double()
                                .numpy(),
                                draw.truth[in_class],
                            )
                            pool = fitted.model.belonging
                            rows.append((np.log(beta), np.log(pool.high), np.log(len(sizes)), pool.none_share))
    table = np.array(rows)
    prior = np.linalg.lstsq(np.column_stack([np.ones(len(table)), table[:, 1:]]), table[:, 0], rcond=None)[0]
    means = {name: np.nanmean(np.array(values), 0).tolist() for name, values in scores.items()}
    write("choice.json", {"seed": seed, "n_draws": n_draws, "accuracy and AUROC": means, "prior": prior.tolist()})
    print(json.dumps({"accuracy and AUROC": means, "prior": prior.tolist()}, indent=1))


def best_beta(similarities: np.ndarray, labels: np.ndarray) -> float:
    grid = np.logspace(0.5, 1.65, 60)  # above it all is as sure, where nearly all is right
    logits = torch.from_numpy(grid)[:, None, None] * torch.from_numpy(similarities)
    nll = -logits.log_softmax(-1)[:, torch.arange(len(labels)), torch.from_numpy(labels)].mean(-1)
    return float(grid[int(nll.argmin())])


# --- none of these: fitted on other images


def random_draws(features: np.ndarray, names: np.ndarray, n_draws: int, seed: int) -> Iterator[Draw]:
    """Tasks of many kinds: few and many classes, one and several shots, equal and unequal sizes, no junk and mostly junk, from
    many classes or from few."""
    known = sorted(set(names))
    mixed = {m: averaged(features, names, m) for m in (1, 2, 4, 8)}
    grouped = np.concatenate([names[names == name] for name in known])
    for i in range(n_draws):
        rng = np.random.default_rng([seed, i])
        n_way = int(rng.choice([1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 50]))
        among = known if rng.random() < 0.6 else sorted(rng.permutation(known)[: n_way + int(rng.integers(2, 12))])
        size = int(rng.choice([8, 15, 25, 40]))
        falling = np.geomspace(size / 8, size, n_way).round().astype(int).clip(1)
        sizes = [size] * n_way if rng.random() < 0.6 else falling.tolist()
        share = float(rng.choice([0, 0.05, 0.1, 0.15, 0.25, 0.4, 0.6, 0.8]))
        n_shot = int(rng.choice([1, 1, 1, 2, 3, 5, 8]))
        level = int(rng.integers(3))  # some classes are easier than others
        m = {name: (1, 2, 4, 8)[level + int(rng.integers(2))] for name in known}
        points = np.concatenate([mixed[m[name]][names == name] for name in known])
        yield from draws(
            points, grouped, among, np.empty(0, int), n_shot=n_shot, sizes=sizes,
            n_junk=round(sum(sizes) * share / (1 - share)), n_draws=1, seed=int(rng.integers(2**31)),
        )  # fmt: skip


def fit_none(root: Path, n_draws: int, seed: int) -> None:
    """The coefficients of sala/belonging.py: of the draws of even number; the others tell what they are worth."""
    features, names = tiny(root, n_images=50, split={"train", "val"})  # no test class is looked at
    pools = []
    for draw in random_draws(features, names, n_draws, seed):
        model = fit_labels(draw.support, draw.labels, draw.pool, config=EngineConfig(n_label_next=0)).model
        points = normalised(to_tensor(draw.pool), model.centre)
        support, labels = normalised(to_tensor(draw.support), model.centre), torch.from_numpy(draw.labels)
        sums, _ = refine(points, support, labels, model.config)
        first, refined = (
            Similarities(points @ part.T, leave_one_out(support, labels, sums, class_sums(support, labels),
                                                        replace(model.config, anchor=anchor))[0])
            for part, anchor in ((model.first, 1.0), (model.refined, 0.0))
        )  # fmt: skip
        pools.append(PoolSimilarities(first, refined, model.belonging, draw.truth < 0))
    kinds = {
        "ONE_CLASS": lambda pool: pool.n_way == 1,
        "ONE_SHOT": lambda pool: pool.n_way > 1 and pool.left_out is None,
        "SHOTS": lambda pool: pool.left_out is not None,
    }
    fitted = {}
    for name, which in kinds.items():
        found = evidence_of([pool for pool in pools[::2] if which(pool.described) and pool.is_junk.any()])
        fitted[name] = tuple(found.round(3).tolist())
    for name, coefficients in fitted.items():
        setattr(sala.belonging, name, coefficients)
    quality = {
        name: none_quality([pool for pool in pools[1::2] if which(pool)])
        for name, which in {
            "all": lambda pool: True, "1 shot": lambda pool: pool.described.n_shot == 1,
            "5 and 8 shots": lambda pool: pool.described.n_shot >= 5, "1 class": lambda pool: pool.described.n_way == 1,
            "2 to 5 classes": lambda pool: 2 <= pool.described.n_way <= 5,
            "16 classes and more": lambda pool: pool.described.n_way >= 16,
            "up to 15 % junk": lambda pool: pool.is_junk.mean() <= 0.15,
            "40 % junk and more": lambda pool: pool.is_junk.mean() >= 0.4,
        }.items()
    }  # fmt: skip
    found = {"seed": seed, "n_draws": n_draws, "coefficients": fitted, "quality": quality}
    write("none.json", found)
    print(json.dumps(found, indent=1))


@dataclass(frozen=True)
class PoolSimilarities:
    """Of a pool: similarities to the first and the refined prototypes, and the truth."""

    first: Similarities
    refined: Similarities
    described: Belonging
    is_junk: np.ndarray

    def fitted(self, trust: float) -> tuple[torch.Tensor, Belonging]:
        second = trust * second_best(self.refined.pool) + (1 - trust) * second_best(self.first.pool)
        similarity, held_out = (
            known_similarity(getattr(self.first, part), getattr(self.refined, part), trust)
            for part in ("pool", "held_out")
        )
        described = self.described
        return similarity, fitted_to(similarity, second, held_out, described.n_way, described.n_shot, trust)


def evidence_of(pools: list[PoolSimilarities]) -> np.ndarray:
    """The coefficients of log p(u | none) / p(u | known): of the log-odds of junk, less those of its share in the draw. In
    both ways in which `belonging` asks: by the first prototypes alone, and by both, as far as the refined are trusted."""
    terms, offsets, junk, weights = [], [], [], []
    for pool in pools:
        share = pool.is_junk.mean()
        for trust in (0.0, trusted(share)):
            similarity, found = pool.fitted(trust)
            u = found.position(similarity).double().numpy()
            described = (found.high, np.log(found.n_way), np.log(found.n_shot), found.middle, found.left_out or 0.0)
            v = [u, *(np.full(len(u), x) for x in described)]
            terms.append(np.column_stack([np.ones(len(u)), *v, *(v[i] * v[j] for i in range(6) for j in range(i, 6))]))
            offsets.append(np.full(len(u), np.log(share / (1 - share))))
            junk.append(pool.is_junk)
            weights.append(np.full(len(u), 1 / len(u)))
    return logistic(*(np.concatenate(part) for part in (terms, offsets, junk, weights)))


def logistic(terms: np.ndarray, offsets: np.ndarray, truth: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Coefficients of the log-odds beyond the offset, with a little ridge on scaled terms."""
    mean, spread = terms.mean(0), terms.std(0)
    mean[0], spread[spread < 1e-9] = 0.0, 1.0
    scaled, sign, weights = (terms - mean) / spread, np.where(truth, 1.0, -1.0), weights / weights.sum()

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = sign * (scaled @ w + offsets)
        slope = -weights * sign * expit(-margin)
        ridge = 1e-3 * np.r_[0.0, w[1:]]
        return float(-(weights * log_expit(margin)).sum() + ridge @ w), scaled.T @ slope + 2 * ridge

    w = minimize(loss, np.zeros(terms.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 2_000}).x
    return np.r_[w[0] - (mean / spread * w)[1:].sum(), (w / spread)[1:]]


def none_quality(pools: list[PoolSimilarities]) -> dict[str, float]:
    """Over all draws: of the images that are set aside, how many are junk; of junk, how much is set aside."""
    n_aside = n_right = n_junk = 0
    gaps, brier, auroc = [], [], []
    for pool in pools:
        _, before = pool.fitted(0.0)
        similarity, found = pool.fitted(trusted(before.none_share))
        score = 1 - found.known(similarity).numpy()
        is_aside = set_aside(score)
        n_aside, n_right = n_aside + is_aside.sum(), n_right + (is_aside & pool.is_junk).sum()
        n_junk += pool.is_junk.sum()
        gaps.append(abs(found.none_share - pool.is_junk.mean()))
        brier.append(((score - pool.is_junk) ** 2).mean())
        auroc += [roc_auc_score(pool.is_junk, score)] if pool.is_junk.any() else []
    return {
        "draws": len(pools), "precision": round(float(n_right / n_aside), 3), "recall": round(float(n_right / n_junk), 3),
        "error of the share": round(float(np.mean(gaps)), 3), "Brier score": round(float(np.mean(brier)), 4),
        "AUROC": round(float(np.mean(auroc)), 4),
    }  # fmt: skip


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
    parser.add_argument("what", choices=["measure", "tables", "choose", "none", "scale"])
    parser.add_argument("--draws", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shots", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--only-sala", action="store_true", help="leave the others as they were measured, if they were")
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
        root = Path(os.environ.get("SALA_DATA") or sys.exit("set SALA_DATA to the folder with the datasets"))
        if options.what == "measure":
            measure(root, options.draws or 20, options.seed, options.shots, options.only_sala)
        elif options.what == "none":
            fit_none(root, options.draws or 1_600, options.seed)
        else:
            choose(root, options.draws or 4, options.seed)


if __name__ == "__main__":
    main()

"""What the engine that labels a folder takes from other images than it is measured on: see docs/practice.md.

    SALA_DATA=... python benchmarks/practice_fit.py choose       # compares its defaults with their neighbours
    SALA_DATA=... python benchmarks/practice_fit.py none         # fits what none-of-these is judged by (sala/belonging.py)
    SALA_DATA=... python benchmarks/practice_fit.py temperature  # fits the prior of the temperature (sala/labelmodel.py)

They need tiny-imagenet in $SALA_DATA, of which no test class is looked at, the last two also Omniglot's background alphabets,
and write into results/practice. What images that are said to be junk tell is fitted by practice_marked.py.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from calibration import expected_calibration_error
from practice import measure_sala, set_aside, write
from practice_draws import Draw, data_root, draws
from practice_tasks import COUNTS, N_IMAGES, N_ROWS, mixtures, tasks, tiny
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.metrics import roc_auc_score

import sala.belonging
from sala.belonging import (
    Belonging,
    Similarities,
    best_other,
    fitted_to,
    known_similarity,
    pulled,
    second_best,
    trusted,
)  # fmt: skip
from sala.engine import EngineConfig, Fitted, contrast, fit_labels, likeness
from sala.known import known_by
from sala.points import centre_of, normalised, spread_of, to_tensor
from sala.refining import in_larger_classes, refine
from sala.sorting import sorted_by


def choose(root: Path, n_draws: int, seed: int) -> None:
    """Accuracy and AUROC of some settings over shapes of task and three difficulties."""
    features, names = tiny(root, N_IMAGES, split={"train", "val"})  # no test class is looked at
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
    variants |= {f"{n} directions": replace(base, n_directions=n) for n in (0, 8, 32)}
    variants |= {f"anchor {a}": replace(base, anchor=a) for a in (0.0, 0.5)}
    variants |= {f"linear weight {w}": replace(base, linear_weight=w) for w in (0.0, 0.5)}
    scores: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for p in ((1.0, 0, 0, 0), (0, 1.0, 0, 0), (0, 0, 1.0, 0)):
        mixed, of = mixtures(np.random.default_rng(0), features, names, dict.fromkeys(known, p), N_ROWS)
        for n_shot in (1, 3, 5):
            for sizes, n_junk, among in shapes:
                for draw in draws(mixed, of, among, np.empty(0, int), n_shot=n_shot, sizes=sizes, n_junk=n_junk,
                                  n_draws=n_draws, seed=seed):  # fmt: skip
                    in_class = draw.truth >= 0
                    for name, config in variants.items():
                        fitted = fit_labels(draw.support, draw.labels, draw.pool, config=config)
                        right = float((fitted.pool.label == draw.truth)[in_class].mean())
                        auroc = float(roc_auc_score(~in_class, fitted.pool.none_score)) if n_junk else np.nan
                        scores[name].append((right, auroc))
    means = {name: np.nanmean(np.array(values), 0).tolist() for name, values in scores.items()}
    write("choice.json", {"seed": seed, "n_draws": n_draws, "accuracy and AUROC": means})
    print(json.dumps({"accuracy and AUROC": means}, indent=1))


# --- the prior of the temperature: fitted on other images


BETAS = np.logspace(np.log10(3), np.log10(60), 44)  # the range that `temperature_prior` keeps to


def terms_and_errors(draw: Draw) -> tuple[list[float], list[float]]:
    """What the prior goes by in a task (1, log likeness, log contrast, log k), and the calibration error of images of known
    classes by each of BETAS."""
    points, support, labels = points_of(draw)
    found = sorted_by(points, support, labels, points[:0], EngineConfig())
    similarities = found.pool_similarities()
    told = [max(f(similarities, 1 - found.none), 1e-3) for f in (likeness, contrast)]
    of_class = draw.truth >= 0
    of_known, truth = similarities[torch.from_numpy(of_class)].double(), draw.truth[of_class]
    errors = [expected_calibration_error((beta * of_known).softmax(-1).numpy(), truth) for beta in BETAS]
    return [1.0, *np.log([*told, similarities.shape[1]])], errors


def points_of(draw: Draw) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The pool's and the labelled images', and their labels."""
    support, pool, labels = to_tensor(draw.support), to_tensor(draw.pool), torch.from_numpy(draw.labels)
    centre = centre_of(support, labels, pool)
    spread = spread_of([support, pool], centre)
    return normalised(pool, centre, spread), normalised(support, centre, spread), labels


def averaged_with_neighbours(errors: np.ndarray) -> np.ndarray:  # [n, b] -> [n, b]
    """Over five temperatures: where a draw's bins happen to end is not what is fitted."""
    padded = np.pad(errors, ((0, 0), (2, 2)), mode="edge")
    return np.mean([padded[:, i : i + errors.shape[1]] for i in range(5)], 0)


def is_one_shot(draw: Draw) -> bool:
    return len(draw.labels) == draw.labels.max() + 1


def fit_temperature_prior(root: Path, n_draws: int, seed: int) -> None:
    """The coefficients of `temperature_prior`: of the one-shot draws of even number; of the others those in the first half
    tell what they are worth."""
    sets = {
        name: [draw for draw in made if draw.labels.max() > 0 and (draw.truth >= 0).sum() >= 10]
        for name, made in tasks(root, n_draws, seed).items()
    }
    found = {name: [terms_and_errors(draw) for draw in made[::2] if is_one_shot(draw)] for name, made in sets.items()}
    terms, errors = (np.array(part) for part in zip(*(row for rows in found.values() for row in rows), strict=True))
    errors = averaged_with_neighbours(errors)
    weights = np.concatenate([np.full(len(rows), COUNTS[name]) for name, rows in found.items()])

    def error(w: np.ndarray) -> float:
        log_betas = np.clip(terms @ w, *np.log(BETAS[[0, -1]]))
        each = [np.interp(b, np.log(BETAS), row) for b, row in zip(log_betas, errors, strict=True)]
        return float(np.average(each, weights=weights))

    starts = [np.linalg.lstsq(terms, np.log(BETAS[errors.argmin(1)]), rcond=None)[0], np.array([3.5, 1.0, -1.0, -0.5])]
    options = {"maxiter": 10_000, "xatol": 1e-4, "fatol": 1e-8, "adaptive": True}
    ends = [minimize(error, start, method="Nelder-Mead", options=options) for start in starts]
    prior = min(ends, key=lambda end: end.fun).x.round(2).tolist()
    kinds = {
        "1 shot": is_one_shot,
        "1 shot, 60 % junk and more": lambda draw: is_one_shot(draw) and (draw.truth < 0).mean() > 0.55,
        "several shots": lambda draw: not is_one_shot(draw),
    }
    quality = {}
    for set_name, made in sets.items():
        for kind, which in kinds.items():
            measured = measure_sala(
                [draw for draw in made[1 : len(made) // 2 : 2] if which(draw)], EngineConfig(prior=tuple(prior))
            )
            keys = ("n", "ece", "ece_in_hindsight", "ece_by_chance", "ece_of_all_draws")
            quality[f"{set_name}, {kind}"] = {key: measured[key] for key in keys}
    usual = np.exp(np.median(terms[:, 1:3], 0)).round(3).tolist()
    content = {
        "seed": seed,
        "n_fitted": len(terms),
        "n_draws": n_draws,
        "prior": prior,
        "usual likeness and contrast": usual,
        "quality": quality,
    }
    write("temperature.json", content)
    print(json.dumps(content, indent=1))


# --- none of these: fitted on other images


def fit_none(root: Path, n_draws: int, seed: int) -> None:
    """The coefficients of sala/belonging.py: of the draws of even number; the others tell what they are worth."""
    sets = tasks(root, n_draws, seed)
    to_fit = {
        name: [pool_of(draw, COUNTS[name]) for draw in made[::2] if (draw.truth < 0).any()]
        for name, made in sets.items()
    }
    both = [*to_fit["photos"], *to_fit["characters"]]
    kinds = {
        "ONE_CLASS": (to_fit["photos"], lambda pool: pool.n_way == 1),  # with characters it was worse, on them too
        "ONE_SHOT": (both, lambda pool: pool.n_way > 1 and pool.left_out is None),
        "SHOTS": (both, lambda pool: pool.left_out is not None),
    }
    fitted = {
        name: tuple(evidence_of([pool for pool in pools if which(pool.described)]).round(3).tolist())
        for name, (pools, which) in kinds.items()
    }
    for name, coefficients in fitted.items():
        setattr(sala.belonging, name, coefficients)
    shapes = {
        "all": lambda told: True, "1 shot": lambda told: told.n_shot == 1, "5 and 8 shots": lambda told: told.n_shot >= 5,
        "unequal shots": lambda told: told.n_shot % 1 > 0, "1 class": lambda told: told.n_way == 1,
        "2 to 5 classes": lambda told: 2 <= told.n_way <= 5, "16 classes and more": lambda told: told.n_way >= 16,
        "up to 15 % junk": lambda told: told.is_junk.mean() <= 0.15,
        "40 % junk and more": lambda told: told.is_junk.mean() >= 0.4,
    }  # fmt: skip
    told = {name: [told_of(draw) for draw in made[1::2]] for name, made in sets.items()}
    quality = {
        f"{name}, {shape}": none_quality([each for each in all_told if which(each)])
        for name, all_told in told.items()
        for shape, which in shapes.items()
    }
    found = {"seed": seed, "n_draws": n_draws, "coefficients": fitted, "quality": quality}
    write("none.json", found)
    print(json.dumps(found, indent=1))


def pool_of(draw: Draw, counts: float) -> PoolSimilarities:
    (points, support, labels), config = points_of(draw), EngineConfig()
    found = refine(
        points,
        support,
        labels,
        n_steps=config.n_steps,
        sharpness=config.sharpness,
        labelled_weight=config.labelled_weight,
    )
    known, _ = known_by(found, points, points[:0])
    first = Similarities(points @ found.first.T, found.held_out(1.0))
    by_refined = Similarities(found.to_refined(points), found.held_out(0.0))
    others = Similarities(points @ known.others.T, found.support[in_larger_classes(found.labels)] @ known.others.T)
    return PoolSimilarities(first, by_refined, others, known.belonging, draw.truth < 0, counts)


@dataclass(frozen=True)
class PoolSimilarities:
    """Of a pool: similarities to the first and the refined prototypes and to those of junk, the truth, and how much the pool
    counts where one is fitted on it."""

    first: Similarities
    refined: Similarities
    others: Similarities
    described: Belonging
    is_junk: np.ndarray
    counts: float

    def fitted(self, trust: float, pull: float) -> tuple[torch.Tensor, torch.Tensor, Belonging]:
        """Similarities of the pool's images and of labelled ones that were left out, and what they are judged by."""
        second = trust * second_best(self.refined.pool) + (1 - trust) * second_best(self.first.pool)
        similarity, held_out = (
            known_similarity(*(getattr(to, part) for to in (self.first, self.refined, self.others)), trust, pull)
            for part in ("pool", "held_out")
        )
        second -= pull * best_other(self.others.pool)
        described = self.described
        found = fitted_to(similarity, second, held_out, described.n_way, described.n_shot, trust, pull)
        return similarity, held_out, found


def evidence_of(pools: list[PoolSimilarities]) -> np.ndarray:
    """The coefficients of log p(u | none) / p(u | known): of the log-odds of junk, less those of its share in the draw. In
    the three ways in which is asked: by the first prototypes alone; by both, as far as the refined are trusted; and by
    those of junk too."""
    terms, offsets, junk, weights = [], [], [], []
    for pool in pools:
        share = pool.is_junk.mean()
        both = trusted(share, pool.described.n_shot)
        for trust, pull in ((0.0, 0.0), (both, 0.0), (both, pulled(share, pool.described.n_way))):
            similarity, _, found = pool.fitted(trust, pull)
            u = found.position(similarity).double().numpy()
            described = (found.high, np.log(found.n_way), np.log(found.n_shot), found.middle, found.left_out or 0.0)
            v = [u, *(np.full(len(u), x) for x in described)]
            terms.append(np.column_stack([np.ones(len(u)), *v, *(v[i] * v[j] for i in range(6) for j in range(i, 6))]))
            offsets.append(np.full(len(u), np.log(share / (1 - share))))
            junk.append(pool.is_junk)
            weights.append(np.full(len(u), pool.counts / len(u)))
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


@dataclass(frozen=True)
class Told:
    """What the engine says of a pool, and the truth."""

    is_junk: np.ndarray
    is_aside: np.ndarray
    none_score: np.ndarray
    none_share: float
    n_way: int
    n_shot: float


def told_of(draw: Draw) -> Told:
    return told_by(fit_labels(draw.support, draw.labels, draw.pool, config=EngineConfig(n_label_next=0)), draw)


def told_by(fitted: Fitted, draw: Draw) -> Told:
    score, found = fitted.pool.none_score, fitted.model.known.belonging
    is_aside = set_aside(score, fitted.left_out_none)
    return Told(draw.truth < 0, is_aside, score, found.none_share, found.n_way, found.n_shot)


def auroc_of(told: Told) -> float:
    return float(roc_auc_score(told.is_junk, told.none_score))


def none_quality(told: list[Told]) -> dict[str, float | None]:
    """Over all draws: of the images that are set aside, how many are junk; of junk, how much is set aside."""
    n_aside, n_right, n_junk = (
        sum(int(rows(each).sum()) for each in told)
        for rows in (lambda t: t.is_aside, lambda t: t.is_aside & t.is_junk, lambda t: t.is_junk)
    )
    gaps = [abs(each.none_share - each.is_junk.mean()) for each in told]
    brier = [((each.none_score - each.is_junk) ** 2).mean() for each in told]
    auroc = [auroc_of(each) for each in told if each.is_junk.any()]
    return {
        "draws": len(told), "precision": round(n_right / n_aside, 3) if n_aside else None,
        "recall": round(n_right / n_junk, 3), "error of the share": round(float(np.mean(gaps)), 3),
        "Brier score": round(float(np.mean(brier)), 4), "AUROC": round(float(np.mean(auroc)), 4),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["choose", "none", "temperature"])
    parser.add_argument("--draws", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.what == "none":
        fit_none(data_root(), options.draws or 1_600, options.seed)
    elif options.what == "temperature":
        fit_temperature_prior(data_root(), options.draws or 3_200, options.seed)
    else:
        choose(data_root(), options.draws or 4, options.seed)


if __name__ == "__main__":
    main()

"""Tables of labeling results, made from results/practice/*.json; `fill.py` puts them into the pages."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean
from typing import Any

RESULTS = Path(__file__).parents[2] / "results" / "practice"
Rows = Iterable[list[str]]


NOTHING = "Not yet run.\n"


def labeling_table(name: str) -> str:
    try:
        return markdown(TABLES[name]())
    except FileNotFoundError:
        return NOTHING


def markdown(made: Rows) -> str:
    rows = list(made)
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]]) + "\n"


def measured(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return content


def pools_of_photos() -> dict[str, dict[str, Any]]:
    """Results of each pool, under a short title."""
    return {re.sub(r" \(.*?\)", "", title): result for title, result in measured("caltech-16.json")["results"].items()}


def interval(value: dict[str, float], digits: int = 1) -> str:
    return f"{value['mean']:.{digits}f} ± {value['ci95']:.{digits}f}"


def shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def best_other(others: dict[str, Any], which: Callable[[str], bool] = lambda name: True) -> tuple[str, dict[str, Any]]:
    """By its mean; where two agree to the digit that is shown, that with its defaults."""
    names = [name for name in others if which(name)]
    return max(((name, others[name]) for name in names), key=lambda row: round(row[1]["mean"], 6))


def is_unscaled(name: str) -> bool:
    return "scaled" not in name


def rejected(ours: dict[str, Any]) -> str:
    """Precision and recall of the rejected images."""
    if not ours["rejected"]:
        return "none rejected"
    return f"{ours['precision']:.2f}, " + ("-" if ours["recall"] is None else f"{ours['recall']:.2f}")


def confident(ours: dict[str, Any]) -> str:
    """Share of the pool, and how much of it is right."""
    return f"{ours['confident']:.2f}, {ours['confident_right']:.2f}" if ours["confident"] else "none"


def named(row: tuple[str, dict[str, Any]]) -> str:
    return f"{interval(row[1])} ({row[0]})"


def summary() -> Rows:
    """For the README: the pools of photos, one and five labeled images a class."""
    yield ["pool", "labeled a class", "sala, %", "best other, %", "difference", "outlier AUROC"]
    for title, result in pools_of_photos().items():
        pool, labeled = title.rsplit(", ", 1)
        if "shot" in labeled:
            ours, other = result["sala"], best_other(result["others"])
            yield [pool, labeled.split()[0], interval(ours['accuracy']), interval(other[1]),
                   interval(other[1]["sala_minus_it"]), interval(ours["auroc"], 3)]  # fmt: skip


def goals() -> Rows:
    """All photos, one column for each number of labeled images, the goal before it."""
    results = pools_of_photos()
    both = [results[f"all photos, {shots}"] for shots in ("1 shot", "5 shot")]
    yield ["", "goal", "1 shot", "goal", "5 shot"]

    def row(title: str, wanted: list[str], show: Callable[[dict[str, Any]], str]) -> list[str]:
        return [title, wanted[0], show(both[0]), wanted[-1], show(both[1])]

    def of_ours(key: str, digits: int = 3) -> Callable[[dict[str, Any]], str]:
        return lambda result: interval(result["sala"][key], digits)

    yield row(
        "accuracy, %", ["not below the best other", "the same"], lambda r: f"**{interval(r['sala']['accuracy'])}**"
    )
    yield row("best other, %", [""], lambda r: named(best_other(r["others"], is_unscaled)))
    yield row("best other on scaled features, %", [""],
              lambda r: named(best_other(r["others"], lambda name: not is_unscaled(name))))  # fmt: skip
    yield row("sala minus the better of these", [""], lambda r: interval(best_other(r["others"])[1]["sala_minus_it"]))
    yield row("ECE of a draw, 15 bins", ["0.05 at most"], of_ours("ece"))
    yield row("debiased ECE of a draw", ["0.05 at most"], of_ours("ece_without_bias"))
    yield row("ECE with the best temperature, in hindsight", [""], of_ours("ece_in_hindsight"))
    yield row("ECE by chance, if these probabilities were the truth", [""], of_ours("ece_by_chance"))
    yield row("ECE, all draws together", [""], lambda r: f"{r['sala']['ece_of_all_draws']:.3f}")
    yield row("outlier AUROC", ["0.94", "0.98"], of_ours("auroc"))
    yield row("outlier AUROC without refinement", [""], of_ours("plain_auroc"))
    yield row("rejected images: precision, recall", ["0.9 asked"], lambda r: rejected(r["sala"]))
    yield row("confident labels: share of the pool, right", ["0.9 asked"], lambda r: confident(r["sala"]))


def chosen_pools(wanted: Callable[[str, str], bool]) -> Iterable[tuple[str, dict[str, Any]]]:
    for title, result in pools_of_photos().items():
        if wanted(*title.rsplit(", ", 1)):
            yield title, result


def accuracies(wanted: Callable[[str, str], bool]) -> Rows:
    yield ["pool", "sala, %", "best other, %", "sala minus it", "outlier AUROC (without refinement)",
           "rejected: precision, recall", "confident: share, right"]  # fmt: skip
    for title, result in chosen_pools(wanted):
        ours, other = result["sala"], best_other(result["others"])
        yield [title, interval(ours["accuracy"]), named(other), interval(other[1]["sala_minus_it"]),
               f"{interval(ours['auroc'], 3)} ({interval(ours['plain_auroc'], 3)})",
               rejected(ours), confident(ours)]  # fmt: skip


def calibration(wanted: Callable[[str, str], bool]) -> Rows:
    yield ["pool", "ECE of a draw", "debiased", "best temperature, in hindsight", "by chance", "all draws together"]
    for title, result in chosen_pools(wanted):
        ours = result["sala"]
        keys = ("ece", "ece_without_bias", "ece_in_hindsight", "ece_by_chance")
        yield [title, *(interval(ours[key], 3) for key in keys), f"{ours['ece_of_all_draws']:.3f}"]


def is_harder(pool: str, labeled: str) -> bool:
    return pool != "all photos" and "shot" in labeled


def is_unequal(pool: str, labeled: str) -> bool:
    return "shot" not in labeled


def everyone() -> Rows:
    results = {title: result for title, result in pools_of_photos().items() if "shot" in title}
    yield ["accuracy, %", *results]
    yield ["sala", *(interval(result["sala"]["accuracy"]) for result in results.values())]
    yield ["sala without the pool", *(interval(result["sala"]["plain_accuracy"]) for result in results.values())]
    for name in next(iter(results.values()))["others"]:
        yield [name, *(interval(result["others"][name]) for result in results.values())]


def elsewhere() -> Rows:
    yield ["pool", "sala, %", "logistic regression, %", "sala minus it", "sala minus itself without whitening",
           "ECE: of a draw, together", "outlier AUROC", "confident: share, right", "rejected: precision, recall"]  # fmt: skip
    for title, result in measured("elsewhere.json")["results"].items():
        ours = result["sala"]
        yield [title, interval(ours["accuracy"]), interval(result["logistic regression"]), interval(result["sala_minus_it"]),
               interval(result["sala_minus_without_whitening"]), f"{ours['ece']['mean']:.3f}, {ours['ece_of_all_draws']:.3f}",
               shown(ours["auroc"]["mean"]), confident(ours), rejected(ours)]  # fmt: skip


ABLATION_COLUMNS = ("1 shot", "1 shot, outliers", "5 shots", "5 shots, outliers")


def ablation(measure: str, digits: int) -> Rows:
    """A measure of the whole classifier, and below it what leaving out a part adds, with the interval over sets."""
    whole, *parts = measured("ablation.json")["results"].items()
    columns = [column for column in ABLATION_COLUMNS if whole[1][column][measure]]
    yield ["left out", *columns]
    yield [whole[0], *(f"{whole[1][column][measure]['mean']:.{digits}f}" for column in columns)]
    for title, found in parts:
        yield [title, *(signed(found[column][measure]["difference"], digits) for column in columns)]


def signed(value: dict[str, float], digits: int) -> str:
    return f"{value['mean']:+.{digits}f} ± {value['ci95']:.{digits}f}"


def fitted() -> Rows:
    """Calibration errors of classes and of outliers by kind of pool: with the set left out of the fit, and not."""
    left_out, shipped = (measured("calibration.json")["errors"][key] for key in ("sets left out", "all sets"))
    yield ["pools", "classes: left out", "fitted on all", "outliers: left out", "fitted on all"]
    for kind in left_out:
        both = [found[kind][key] for key in ("classes", "outliers") for found in (left_out, shipped)]
        yield [kind, *(f"{error:.3f}" for error in both)]


def known() -> Rows:
    """Pools with 0, 1, 5 and 15 known outliers: AUROC and its gain, and what is rejected."""
    yield ["pools", "known outliers", "sets", "AUROC", "gained", "images rejected", "outliers among them",
           "sets that reject; the lowest", "recall", "recall in hindsight"]  # fmt: skip
    for column, by_known in measured("known.json")["results"].items():
        for n, found in by_known.items():
            draws, precision = [draw for of in found["sets"].values() for draw in of], found["precision"]
            n_rejected, n_right = (sum(draw[key] for draw in draws) for key in ("rejected", "right"))
            lowest = min(precision, key=precision.__getitem__, default="")
            yield [column, n, str(len(found["sets"])), interval(found["auroc"], 3),
                   "" if n == "0" else signed(found["gained"], 3), str(n_rejected),
                   f"{n_right / n_rejected:.2f}" if n_rejected else "-",
                   f"{len(precision)}; {lowest} {precision[lowest]:.2f}" if precision else "0",
                   *(f"{mean(found[key].values()):.2f}" for key in ("recall", "recall in hindsight"))]  # fmt: skip


def metric() -> Rows:
    names = {"none": "no weights", "shared": "one vector for all tasks", "adaptive": "metric network"}
    yield ["accuracy, %", "training classes", "classes never seen", "minus no weights"]
    for title, found in measured("metric.json")["results"].items():
        kind, shots = title.split(", ")
        yield [f"{names[kind]}, {shots}", *(interval(found[key], 2) for key in ("seen", "unseen", "unseen minus none"))]


def scale() -> Rows:
    yield [
        "images",
        "threads",
        "first fit, seconds",
        "after a label, seconds",
        "peak memory, MiB",
        "of that before the fit, MiB",
    ]
    for name in ("scale-10000.json", "scale-100000.json"):
        found = measured(name)
        yield [f"{found['n']:,}", str(found["threads"]), f"{found['seconds']:.2f}", f"{found['seconds again']:.2f}",
               f"{found['MiB at most']:,}", f"{found['MiB before']:,}"]  # fmt: skip


def clicks() -> Rows:
    yield [
        "strategy",
        "clicks to 90 %",
        "clicks to 95 %",
        "more than suggestions: to 90 %",
        "to 95 %",
        "draws below 95 %",
    ]
    content = measured("clicks.json")
    n_draws = content["draws"] * len(content["sets"])
    for name, found in content["all"].items():
        more = ["", ""] if name == "suggestions" else [interval(found[f"more to {goal}"]) for goal in ("90%", "95%")]
        yield [name, *(interval(found[f"clicks to {goal}"]) for goal in ("90%", "95%")), *more,
               f"{found['clicks to 95%']['not reached']} of {n_draws}"]  # fmt: skip


def clicks_by_set() -> Rows:
    sets = measured("clicks.json")["sets"]
    yield ["clicks to 95 %", *next(iter(sets.values()))]
    for name, found in sets.items():
        yield [name, *(interval(of["clicks to 95%"]) for of in found.values())]


PLAIN = (summary, goals, everyone, elsewhere, known, metric, scale, clicks, clicks_by_set)
TABLES: dict[str, Callable[[], Rows]] = {
    **{table.__name__: table for table in PLAIN},
    "harder": lambda: accuracies(is_harder),
    "harder_calibration": lambda: calibration(is_harder),
    "unequal": lambda: accuracies(is_unequal),
    "unequal_calibration": lambda: calibration(is_unequal),
    "ablation": lambda: ablation("accuracy", 1),
    "ablation_ece": lambda: ablation("ece", 3),
    "ablation_auroc": lambda: ablation("auroc", 3),
    "calibration": fitted,
}

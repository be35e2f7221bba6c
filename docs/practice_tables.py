"""The tables of docs/practice.md, from results/practice/*.json; `fill.py` puts them there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results" / "practice"
POOLS = {
    "all photos": "all photos",
    "80 % junk (6 classes, the others are junk too)": "80 % junk",
    "class sizes 1 : 10": "class sizes 1 : 10",
}


def practice_table(name: str) -> str:
    rows = list(TABLES[name]())
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]]) + "\n"


def measured(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return content


def interval(value: dict[str, float], digits: int = 1) -> str:
    return f"{value['mean']:.{digits}f} ± {value['ci95']:.{digits}f}"


def shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def best_other(others: dict[str, Any], which: Callable[[str], bool]) -> tuple[str, dict[str, Any]]:
    """By its mean; where two agree to the digit that is shown, that with its defaults."""
    names = [name for name in others if which(name)]
    return max(((name, others[name]) for name in names), key=lambda row: round(row[1]["mean"], 6))


def as_they_are(name: str) -> bool:
    return "spread taken out" not in name


def aside(ours: dict[str, Any]) -> str:
    if not ours["set_aside"]:
        return "nothing is set aside"
    return (
        f"{ours['precision']:.2f}, {ours['recall']:.2f}"
        if ours["recall"] is not None
        else f"{ours['precision']:.2f}, -"
    )


def sure(ours: dict[str, Any]) -> str:
    return f"{ours['sure']:.2f}, {ours['sure_right']:.2f}" if ours["sure"] else "none"


def named(row: tuple[str, dict[str, Any]]) -> str:
    return f"{interval(row[1])} ({row[0]})"


def goals() -> Iterable[list[str]]:
    """All photos, one column a shot, the goal before it."""
    results = measured("caltech-16.json")["results"]
    both = [results[f"all photos, {shots}"] for shots in ("1 shot", "5 shot")]
    yield ["", "goal", "1 shot", "goal", "5 shot"]

    def row(title: str, wanted: list[str], show: Callable[[dict[str, Any]], str]) -> list[str]:
        return [title, wanted[0], show(both[0]), wanted[-1], show(both[1])]

    def of_ours(key: str, digits: int = 3) -> Callable[[dict[str, Any]], str]:
        return lambda result: interval(result["sala"][key], digits)

    yield row(
        "accuracy, %", ["not below the best other", "the same"], lambda r: f"**{interval(r['sala']['accuracy'])}**"
    )
    yield row("best other, %", [""], lambda r: named(best_other(r["others"], as_they_are)))
    yield row("best other with the spread of features taken out, %", [""],
              lambda r: named(best_other(r["others"], lambda name: not as_they_are(name))))  # fmt: skip
    yield row("sala minus the better of these", [""],
              lambda r: interval(best_other(r["others"], lambda name: True)[1]["sala_minus_it"]))  # fmt: skip
    yield row("calibration error of a draw, 15 bins", ["0.05 at most"], of_ours("ece"))
    yield row("the same without the bias of few images", ["0.05 at most"], of_ours("ece_without_bias"))
    yield row("the same with the best temperature, in hindsight", [""], of_ours("ece_in_hindsight"))
    yield row("the same by chance, if these probabilities were the truth", [""], of_ours("ece_by_chance"))
    yield row("calibration error, all draws together", [""], lambda r: f"{r['sala']['ece_of_all_draws']:.3f}")
    yield row("AUROC of none-of-these", ["0.94", "0.98"], of_ours("auroc"))
    yield row("AUROC without refinement", [""], of_ours("plain_auroc"))
    yield row("junk set aside: precision, recall", ["0.9 asked"], lambda r: aside(r["sala"]))
    yield row("`sure` labels: share of the pool, right", ["0.9 asked"], lambda r: sure(r["sala"]))


def pools(wanted: Callable[[str, str], bool]) -> Iterable[list[str]]:
    """A row for each pool and number of labelled images that is wanted."""
    yield ["", "sala, %", "best other, %", "sala minus it",
           "calibration error: of a draw, the same without bias (in hindsight; by chance), together",
           "AUROC (without refinement)", "junk set aside: precision, recall", "`sure`: share, right"]  # fmt: skip
    for title, result in measured("caltech-16.json")["results"].items():
        pool, labelled = title.rsplit(", ", 1)
        if not wanted(pool, labelled):
            continue
        ours, other = result["sala"], best_other(result["others"], lambda name: True)
        keys = ("ece", "ece_without_bias", "ece_in_hindsight", "ece_by_chance")
        of_draw, unbiased, least, chance = (interval(ours[key], 3) for key in keys)
        yield [f"{POOLS[pool]}, {labelled}", interval(ours["accuracy"]), named(other), interval(other[1]["sala_minus_it"]),
               f"{of_draw}, {unbiased} ({least}; {chance}), {ours['ece_of_all_draws']:.3f}",
               f"{interval(ours['auroc'], 3)} ({interval(ours['plain_auroc'], 3)})", aside(ours), sure(ours)]  # fmt: skip


def everyone() -> Iterable[list[str]]:
    results = {title: result for title, result in measured("caltech-16.json")["results"].items() if "shot" in title}
    titles = [title.rsplit(", ", 1) for title in results]
    yield ["", *(f"{POOLS[pool]}, {labelled}" for pool, labelled in titles)]
    yield ["sala", *(interval(result["sala"]["accuracy"]) for result in results.values())]
    yield ["sala without the pool", *(interval(result["sala"]["plain_accuracy"]) for result in results.values())]
    for name in next(iter(results.values()))["others"]:
        yield [name, *(interval(result["others"][name]) for result in results.values())]


def elsewhere() -> Iterable[list[str]]:
    yield ["", "sala, %", "logistic regression, %", "sala minus it", "sala minus itself with variation left in",
           "calibration error: of a draw, together", "AUROC", "`sure`: share, right",
           "set aside: precision, recall"]  # fmt: skip
    for title, result in measured("elsewhere.json")["results"].items():
        ours = result["sala"]
        yield [title, interval(ours["accuracy"]), interval(result["logistic regression"]), interval(result["sala_minus_it"]),
               interval(result["sala_minus_that"]), f"{ours['ece']['mean']:.3f}, {ours['ece_of_all_draws']:.3f}",
               shown(ours["auroc"]["mean"]), sure(ours), aside(ours)]  # fmt: skip


def folders() -> Iterable[list[str]]:
    yield ["set and pool", "sala, %", "best other, %", "sala minus it", "sala minus itself without a linear classifier",
           "calibration error: of a draw (by chance), together", "AUROC", "`sure`: share, right",
           "set aside: precision, recall"]  # fmt: skip
    for title, result in measured("folders.json")["results"].items():
        ours, other = result["sala"], result["best_other"]
        yield [title, interval(ours["accuracy"]), named((other["name"], other)), interval(result["sala_minus_it"]),
               interval(result["sala_minus_itself_without_linear"]),
               f"{ours['ece']['mean']:.3f} ({ours['ece_by_chance']['mean']:.3f}), {ours['ece_of_all_draws']:.3f}",
               shown(ours["auroc"]["mean"]), sure(ours), aside(ours)]  # fmt: skip


def temperature() -> Iterable[list[str]]:
    yield ["draws", "calibration error, together", "of a draw", "with the best temperature, in hindsight", "by chance"]
    for title, found in measured("temperature.json")["quality"].items():
        yield [f"{title} ({found['n']})", f"{found['ece_of_all_draws']:.3f}",
               *(interval(found[key], 3) for key in ("ece", "ece_in_hindsight", "ece_by_chance"))]  # fmt: skip


def none() -> Iterable[list[str]]:
    yield ["draws", "precision where 0.9 is asked", "recall", "error of the share of junk", "AUROC"]
    for title, found in measured("none.json")["quality"].items():
        yield [f"{title} ({found['draws']})",
               *(f"{found[key]:.2f}" for key in ("precision", "recall", "error of the share", "AUROC"))]  # fmt: skip


def marked() -> Iterable[list[str]]:
    yield ["pools, and images said to be junk", "AUROC", "gained", "Brier score", "set aside: precision, recall"]
    for prefix, name in (("", "marked.json"), ("photos (Caltech), ", "marked-caltech.json")):
        for title, found in measured(name)["quality"].items():
            both = found["without"], found["with"]
            auroc, brier = (" -> ".join(f"{part[key]:.3f}" for part in both) for key in ("AUROC", "Brier score"))
            yield [f"{prefix}{title} ({both[0]['draws']})", auroc, interval(found["AUROC gained"], 3), brier,
                   " -> ".join(map(precision_and_recall, both))]  # fmt: skip


def precision_and_recall(found: dict[str, Any]) -> str:
    return "nothing" if found["precision"] is None else f"{found['precision']:.2f}, {found['recall']:.2f}"


TABLES: dict[str, Callable[[], Iterable[list[str]]]] = {
    "goals": goals,
    "harder": lambda: pools(lambda pool, labelled: pool != "all photos" and "shot" in labelled),
    "unequal": lambda: pools(lambda pool, labelled: "shot" not in labelled),
    "everyone": everyone,
    "elsewhere": elsewhere,
    "folders": folders,
    "temperature": temperature,
    "none": none,
    "marked": marked,
}

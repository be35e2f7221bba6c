"""Tables of the classifier beside its rivals on image sets of many kinds, made from results/practice/sets.json."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import mean, stdev
from typing import Any

from labeling_tables import Rows, best_other, interval, measured
from scipy.stats import t

SET_COLUMNS = ("1 shot", "1 shot, outliers", "5 shots", "5 shots, outliers")
FEW_CLASSES = ("1 shot, few classes", "5 shots, few classes")


def by_set(column: str, name: str, measure: str) -> dict[str, float]:
    """A measure of one classifier on each set where it was measured."""
    return {
        image_set: found[column][name][measure]["mean"]
        for image_set, found in measured("sets.json")["results"].items()
        if name in found[column] and found[column][name].get(measure)
    }


def over_sets(values: list[float], digits: int) -> str:
    """Mean and 95 % interval (t) over the sets."""
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return f"{mean(values):.{digits}f} ± {half:.{digits}f}"


def sets_measure(
    measure: str, digits: int, names: Iterable[str] | None = None, among: tuple[str, ...] = SET_COLUMNS
) -> Rows:
    """Means over the sets, a row for each classifier, best first, with the difference to ours, paired by set."""
    columns = [column for column in among if by_set(column, "sala", measure)]
    yield ["mean over the sets (minus sala)", *columns]
    everyone = next(iter(measured("sets.json")["results"].values()))["1 shot"]
    rows = {name: [by_set(column, name, measure) for column in columns] for name in names or everyone}
    order = sorted(rows, key=lambda name: sum(mean(found.values()) for found in rows[name]), reverse=measure != "ece")
    for name in order:
        yield [name, *(_cell(found, ours, digits) for found, ours in zip(rows[name], rows["sala"], strict=True))]


def _cell(found: dict[str, float], ours: dict[str, float], digits: int) -> str:
    shown = over_sets(list(found.values()), digits)
    if found == ours:
        return shown
    return f"{shown} ({over_sets([found[name] - ours[name] for name in found], digits)})"


def sets_by_set() -> Rows:
    """Accuracy of each set, and the best rival on it."""
    yield ["set", *SET_COLUMNS]
    for name, found in measured("sets.json")["results"].items():
        yield [name, *(against_best(found[column]) for column in SET_COLUMNS)]


def against_best(found: dict[str, Any]) -> str:
    best, theirs = best_other({name: value["accuracy"] for name, value in found.items() if name != "sala"})
    return f"{interval(found['sala']['accuracy'])} ({best} {interval(theirs)})"


def sets_rejected() -> Rows:
    """Share of outliers among the rejected, lowest set, share of what hindsight could reject; confident labels."""
    yield [
        "pools", "asked", "precision, mean over sets", "lowest set", "of the outliers rejectable in hindsight",
        "draws that reject",
    ]  # fmt: skip
    results = measured("sets.json")["results"]
    for column in ("1 shot, outliers", "5 shots, outliers", "varied"):
        for asked in (0.8, 0.9, 0.95):
            found = {name: r[column]["sala"][f"rejected {asked}"] for name, r in results.items()}
            shares = {name: f[3] for name, f in found.items() if f[3] is not None}
            right, hindsight, n = (sum(f[i] for f in found.values()) for i in (1, 2, 4))
            lowest = min(shares, key=shares.__getitem__, default=None)
            share = f"{mean(shares.values()):.2f}" if shares else "-"
            low = f"{lowest} {shares[lowest]:.2f}" if lowest else "-"
            yield [column, f"{asked}", share, low, f"{right / hindsight:.2f}" if hindsight else "-", str(n)]


def sets_confident() -> Rows:
    yield ["pools", "confident labels: share of the pool", "right", "lowest set"]
    for column in (*SET_COLUMNS, *FEW_CLASSES, "varied"):
        counts = {name: r[column]["sala"]["confident"] for name, r in measured("sets.json")["results"].items()}
        right = {name: c[1] / c[0] for name, c in counts.items() if c[0]}
        n, n_right, n_all = (sum(c[i] for c in counts.values()) for i in range(3))
        lowest = min(right, key=right.__getitem__)
        yield [column, f"{n / n_all:.2f}", f"{n_right / n:.3f}", f"{lowest} {right[lowest]:.2f}"]


def sets_sizes() -> Rows:
    yield ["set", "has here"]
    yield from ([name, about] for name, about in measured("sets.json")["sets"].items())


SETS_TABLES: dict[str, Callable[[], Rows]] = {
    "accuracy": lambda: sets_measure("accuracy", 1),
    "by_set": sets_by_set,
    "calibration": lambda: sets_measure("ece", 3),
    "covered": lambda: sets_measure("covered", 3),
    "auroc": lambda: sets_measure("auroc", 3, ("sala", "soft k-means", "largest similarity", "k-th neighbor", "oslo")),
    "few": lambda: sets_measure("accuracy", 1, among=FEW_CLASSES),
    "few_calibration": lambda: sets_measure("ece", 3, ("sala", "soft k-means", "label-spreading", "oslo"), FEW_CLASSES),
    "sizes": sets_sizes,
    "rejected": sets_rejected,
    "confident": sets_confident,
}

"""Tables of the classifier beside its rivals on image sets of many kinds, made from results/practice/sets.json."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from labeling_tables import Rows, best_other, measured

SET_COLUMNS = ("1 shot", "1 shot, outliers", "5 shots", "5 shots, outliers")


def sets_mean(column: str, name: str, measure: str) -> float | None:
    """The mean over sets of a measure of one classifier; None where it was not measured."""
    values = [
        found[column][name][measure]["mean"]
        for found in measured("sets.json")["results"].values()
        if name in found[column] and found[column][name].get(measure)
    ]
    return sum(values) / len(values) if values else None


def sets_measure(measure: str, digits: int, names: Iterable[str] | None = None) -> Rows:
    """Means over the sets, a row for each classifier, best first."""
    results = measured("sets.json")["results"]
    all_names = next(iter(results.values()))["1 shot"]
    columns = [column for column in SET_COLUMNS if sets_mean(column, "sala", measure) is not None]
    yield ["mean over the sets", *columns]
    rows = {name: [sets_mean(column, name, measure) for column in columns] for name in names or all_names}
    best_last = sorted(rows, key=lambda name: sum(value or 0.0 for value in rows[name]))
    for name in reversed(best_last) if measure != "ece" else best_last:
        yield [name, *("-" if value is None else f"{value:.{digits}f}" for value in rows[name])]


def sets_by_set() -> Rows:
    """Accuracy of each set, and the best rival on it."""
    yield ["set", *SET_COLUMNS]
    for name, found in measured("sets.json")["results"].items():
        yield [name, *(against_best(found[column]) for column in SET_COLUMNS)]


def against_best(found: dict[str, Any]) -> str:
    best, theirs = best_other({name: value["accuracy"] for name, value in found.items() if name != "sala"})
    return f"{found['sala']['accuracy']['mean']:.1f} ({best} {theirs['mean']:.1f})"


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
            mean = f"{sum(shares.values()) / len(shares):.2f}" if shares else "-"
            low = f"{lowest} {shares[lowest]:.2f}" if lowest else "-"
            yield [column, f"{asked}", mean, low, f"{right / hindsight:.2f}" if hindsight else "-", str(n)]


def sets_confident() -> Rows:
    yield ["pools", "confident labels: share of the pool", "right", "lowest set"]
    for column in SET_COLUMNS:
        counts = {name: r[column]["sala"]["confident"] for name, r in measured("sets.json")["results"].items()}
        right = {name: c[1] / c[0] for name, c in counts.items() if c[0]}
        n, n_right, n_all = (sum(c[i] for c in counts.values()) for i in range(3))
        lowest = min(right, key=right.__getitem__)
        yield [column, f"{n / n_all:.2f}", f"{n_right / n:.3f}", f"{lowest} {right[lowest]:.2f}"]


SETS_TABLES: dict[str, Callable[[], Rows]] = {
    "accuracy": lambda: sets_measure("accuracy", 1),
    "by_set": sets_by_set,
    "calibration": lambda: sets_measure("ece", 3),
    "covered": lambda: sets_measure("covered", 3),
    "auroc": lambda: sets_measure("auroc", 3, ("sala", "soft k-means", "largest similarity", "k-th neighbor", "oslo")),
    "rejected": sets_rejected,
    "confident": sets_confident,
}

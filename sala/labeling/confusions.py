"""Which classes are taken for each other: pairs, and how many labels are expected to be of the other one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sala.labeling.predictions import CONFIDENT, UNCERTAIN, Row

MIN_EXPECTED = 0.5  # labels: a pair of which less is expected is not told


@dataclass(frozen=True)
class Confusion:
    """Two classes, and the images of the pool that have one of them as label and the other as runner-up."""

    classes: tuple[str, str]
    expected: float  # number of these images that are of their runner-up, by the probabilities
    rows: list[Row]  # the most probable confusion first


def find_confusions(rows: Iterable[Row]) -> list[Confusion]:
    """Pairs of classes, the most confused first.

    Parameters
    ----------
    rows : iterable of Row
        What is said of a pool. Given labels and rejected images do not count.

    Returns
    -------
    list of Confusion
    """
    by_pair: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.runner_up and row.verdict in (CONFIDENT, UNCERTAIN):
            a, b = sorted((row.label, row.runner_up))
            by_pair.setdefault((a, b), []).append(row)
    found = [
        Confusion(pair, sum(map(runner_up_share, mine)), sorted(mine, key=runner_up_share, reverse=True))
        for pair, mine in by_pair.items()
    ]
    return sorted((c for c in found if c.expected >= MIN_EXPECTED), key=lambda c: -c.expected)


def runner_up_share(row: Row) -> float:
    """The probability that an image is of its runner-up, outliers counted."""
    return row.runner_up_probability * (1 - row.outlier_probability)

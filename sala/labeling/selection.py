"""Which images a report shows, by section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from sala.labeling.check import Check
from sala.labeling.confusions import Confusion, find_confusions
from sala.labeling.predictions import REJECTED, Row
from sala.labeling.result import LabelingResult
from sala.labeling.suspects import Suspect

MAX_OF_CLASS, MAX_IN_ALL, MAX_SUGGESTIONS = 60, 2_000, 24
MAX_REJECTED, MAX_SUSPECTS, MAX_GROUPS, MAX_OF_GROUP = 1_500, 60, 40, 12
MAX_CONFUSIONS, MAX_OF_CONFUSION, MAX_EXAMPLES = 8, 6, 300


@dataclass(frozen=True)
class Selection:
    """The rows of a report; `pool` and `by_class` have all of them, the others those to show."""

    pool: list[Row]
    by_class: dict[str, list[Row]]  # the least confident first; without rejected ones
    n_of_class: int  # of each class to show
    suggestions: list[Row]
    rejected: list[Row]  # the least probable outlier first; where none is rejected, the likeliest outliers
    suspects: list[tuple[Suspect, Row]]
    groups: list[list[Row]]  # near-duplicates
    confusions: list[Confusion]
    examples: list[Row]  # labeled images, which are measured

    def shown(self) -> Iterator[Row]:
        """Every row that has a picture or is measured, some more than once."""
        return chain(
            self.suggestions,
            *(rows[: self.n_of_class] for rows in self.by_class.values()),
            self.rejected,
            (row for _, row in self.suspects),
            *self.groups,
            *(confusion.rows[:MAX_OF_CONFUSION] for confusion in self.confusions),
            self.examples,
        )


def select(result: LabelingResult, found: Check) -> Selection:
    """The rows to show of a labeled pool and of what was found."""
    pool, classes = list(result.rows()), result.model.classes
    by_class: dict[str, list[Row]] = {name: [] for name in classes}
    for row in sorted(pool, key=lambda row: row.confidence):
        if row.verdict != REJECTED:
            by_class[row.label].append(row)
    suspects = found.suspects[:MAX_SUSPECTS]
    return Selection(
        pool=pool,
        by_class=by_class,
        n_of_class=max(6, min(MAX_OF_CLASS, MAX_IN_ALL // len(classes))),
        suggestions=[pool[i] for i in result.suggestions[:MAX_SUGGESTIONS]],
        rejected=_rejected(pool),
        suspects=list(zip(suspects, result.rows_of([s.row for s in suspects]), strict=True)),
        groups=[list(result.rows_of(group[:MAX_OF_GROUP])) for group in found.near_duplicates[:MAX_GROUPS]],
        confusions=find_confusions(pool)[:MAX_CONFUSIONS],
        examples=list(result.rows_of(result.labeled[:MAX_EXAMPLES].tolist())),
    )


def _rejected(rows: Sequence[Row]) -> list[Row]:
    by_probability = sorted(rows, key=lambda row: row.outlier_probability)
    rejected = [row for row in by_probability if row.verdict == REJECTED]
    return rejected[:MAX_REJECTED] or by_probability[: -MAX_SUGGESTIONS - 1 : -1]

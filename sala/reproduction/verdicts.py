"""The sentences that say what a table shows about SALA and Soft k-Means."""

from __future__ import annotations

from collections.abc import Sequence

from sala.evaluation.seeds import SeedInterval
from sala.reproduction.published import TABLES
from sala.reproduction.tables import Column, Entry

_WORDS = {
    "better": "SALA is better than Soft k-Means",
    "worse": "SALA is worse than Soft k-Means",
    "no difference shown": "no difference between SALA and Soft k-Means is shown",
    "no claim": "there are too few seeds to compare SALA and Soft k-Means",
}


def verdicts(table: str, columns: Sequence[Column]) -> list[str]:
    """One sentence a column: how SALA compares with Soft k-Means, and how far it is from its published number."""
    where = "with distractors" if TABLES[table].n_distractor else "without distractors"
    sentences = []
    for column in columns:
        entry, base = column.entries.get("sala"), column.base("sala")
        if entry is None or base is None or (compared := _compared(entry, base)) is None:
            continue
        sentences.append(f"On {column.title}, {where}, {compared}{_published(entry)}.")
    return sentences


def _compared(entry: Entry, base: Entry) -> str | None:
    over_episodes, over_seeds = entry.minus(base), entry.minus_over_seeds(base)
    if over_episodes is None or over_seeds is None:
        return None
    points = f"{over_episodes.mean:+.2f} points, ± {over_episodes.ci95:.2f} over episodes"
    return f"{_WORDS[over_seeds.verdict]} ({points}, {_seeds(over_seeds)})"


def _seeds(over_seeds: SeedInterval) -> str:
    return "one seed" if over_seeds.ci95 is None else f"± {over_seeds.ci95:.2f} over {over_seeds.n} seeds"


def _published(entry: Entry) -> str:
    if entry.published is None or entry.interval is None:
        return ""
    gap = entry.interval.mean - entry.published
    place = f"{abs(gap):.2f} {'above' if gap > 0 else 'below'}"
    return f"; SALA's {entry.interval.mean:.2f} is {place} the published {entry.published:.2f}"

"""A table of the reproduction as rows of text, for Markdown and LaTeX, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sala.evaluation.formats import Row, Rows, accuracy_text, difference_text
from sala.reproduction.published import variant_named
from sala.reproduction.tables import Column, Entry


def rows_of(columns: Sequence[Column]) -> tuple[Row, Rows]:
    """The header, and for each variant its texts and the numbers of those that are better than all others.

    A column has three texts: accuracy, paired difference to Soft k-Means, published; the last only where anything was.
    """
    header: Row = ["method"]
    for column in columns:
        header += [column.title, "against Soft k-Means", *(["published (gap)"] if column.has_published else [])]
    variants = list(dict.fromkeys(variant for column in columns for variant in column.entries))
    best = [column.best() for column in columns]
    rows: Rows = []
    for variant in variants:
        texts, bold = [variant_named(variant).label], set()
        for column, winner in zip(columns, best, strict=True):
            if winner == variant:
                bold.add(len(texts))
            texts += _texts(column, variant)
        if any(text not in ("", "-") for text in texts[1:]):
            rows.append((texts, bold))
    return header, rows


def _texts(column: Column, variant: str) -> Row:
    entry, base = column.entries.get(variant), column.base(variant)
    published = [published_text(entry)] if column.has_published else []
    difference = "" if entry is None or base is None else difference_text(entry.found, base.found)
    return [accuracy_text(None if entry is None else entry.found), difference, *published]


def published_text(entry: Entry | None) -> str:
    """The paper's number, and by how much ours differs from it."""
    if entry is None or entry.published is None:
        return "-"
    gap = f" ({entry.interval.mean - entry.published:+.2f})" if entry.interval is not None else ""
    return f"{entry.published:.2f}{gap}"


def to_json(table: str, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """One object a cell, with accuracies and half-widths in percent, and the difference to Soft k-Means."""
    return [
        {"table": table, **_cell(column, entry), **_statistics(column, entry), **_circumstances(entry)}
        for column in columns
        for entry in column.entries.values()
        if entry.records
    ]


def _cell(column: Column, entry: Entry) -> dict[str, Any]:
    variant = variant_named(entry.cell.variant)
    return {
        "dataset": column.dataset,
        "shots": column.shots,
        "distractors": entry.cell.n_distractor,
        "setting": column.setting,
        "variant": variant.key,
        "method": variant.method,
        "options": variant.options,
    }


def _statistics(column: Column, entry: Entry) -> dict[str, Any]:
    interval, base = entry.interval, column.base(entry.cell.variant)
    assert interval is not None
    over_episodes = None if base is None else entry.minus(base)
    over_seeds = None if base is None else entry.minus_over_seeds(base)
    return {
        "published": entry.published,
        "accuracy": interval.mean,
        "ci95": interval.ci95,
        "gap": None if entry.published is None else interval.mean - entry.published,
        "seeds": [
            {"seed": seed, "accuracy": r.accuracy, "ci95": r.interval.ci95} for seed, r in entry.results().items()
        ],
        "sd_over_seeds": entry.seed_sd,
        "accuracy_over_seeds": asdict(entry.over_seeds) if entry.over_seeds is not None else None,
        "difference_to_soft_kmeans": None if over_episodes is None else asdict(over_episodes),
        "difference_to_soft_kmeans_over_seeds": None if over_seeds is None else asdict(over_seeds),
    }


def _circumstances(entry: Entry) -> dict[str, Any]:
    first = entry.records[0]
    result = first.results[entry.setting]
    return {
        "test_episodes": len(result.accuracies),
        "shape": asdict(result.shape),
        "episodes_trained": first.n_trained,
        "best_episodes": [record.best_episode for record in entry.records],
        "pseudo_labels": result.pseudo_labels,
        "diagnostics": result.diagnostics,
        "command": first.command,
        "manifest": first.manifest,
    }

"""A table as rows of text, Markdown, LaTeX and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sala.evaluation.results import Interval
from sala.reproduction.published import VARIANTS
from sala.reproduction.seeds import SeedInterval
from sala.reproduction.tables import Column, Entry

Row = list[str]
Rows = list[tuple[Row, set[int]]]  # texts, and the numbers of those that are bold
ONE_SEED = "†"
ONE_SEED_NOTE = f"{ONE_SEED} One training: another seed may move it by more than its interval. Shown, not a claim."


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
        texts, bold = [VARIANTS[variant].label], set()
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
    return [accuracy_text(entry), _difference(entry, base), *published]


def accuracy_text(entry: Entry | None) -> str:
    """The accuracy with its intervals over episodes and over seeds."""
    if entry is None or entry.interval is None or entry.over_seeds is None:
        return "-"
    return _both(f"{entry.interval.mean:.2f}", entry.interval, entry.over_seeds)


def _difference(entry: Entry | None, base: Entry | None) -> str:
    if entry is None or base is None:
        return ""
    over_episodes, over_seeds = entry.minus(base), entry.minus_over_seeds(base)
    if over_episodes is None or over_seeds is None:
        return ""
    return _both(f"{over_episodes.mean:+.2f}", over_episodes, over_seeds)


def _both(mean: str, over_episodes: Interval, over_seeds: SeedInterval) -> str:
    seeds = ONE_SEED if over_seeds.ci95 is None else f"({over_seeds.n} seeds: ± {over_seeds.ci95:.2f})"
    return f"{mean} ± {over_episodes.ci95:.2f} {seeds}"


def published_text(entry: Entry | None) -> str:
    """The paper's number, and by how much ours differs from it."""
    if entry is None or entry.published is None:
        return "-"
    gap = f" ({entry.interval.mean - entry.published:+.2f})" if entry.interval is not None else ""
    return f"{entry.published:.2f}{gap}"


def has_one_seed(rows: Rows) -> bool:
    """Whether a row is marked as one training, so that the mark wants a note."""
    return any(ONE_SEED in text for texts, _ in rows for text in texts)


def markdown(header: Row, rows: Rows) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += [
        "| " + " | ".join(f"**{t}**" if i in bold else t for i, t in enumerate(texts)) + " |" for texts, bold in rows
    ]
    return "\n".join(lines) + "\n"


_TEX = {"±": r"$\pm$", "†": r"$\dagger$", "%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#"}


def latex(header: Row, rows: Rows) -> str:
    """A booktabs table."""

    def escaped(text: str) -> str:
        return "".join(_TEX.get(c, c) for c in text)

    lines = [r"\begin{tabular}{l" + "r" * (len(header) - 1) + "}", r"\toprule"]
    lines += [" & ".join(map(escaped, header)) + r" \\", r"\midrule"]
    for texts, bold in rows:
        lines.append(
            " & ".join(rf"\textbf{{{escaped(t)}}}" if i in bold else escaped(t) for i, t in enumerate(texts)) + r" \\"
        )
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def to_json(table: str, columns: Sequence[Column]) -> list[dict[str, Any]]:
    """One object a cell, with accuracies and half-widths in percent, and the difference to Soft k-Means."""
    return [
        {"table": table, **_cell(column, entry), **_statistics(column, entry), **_circumstances(entry)}
        for column in columns
        for entry in column.entries.values()
        if entry.records
    ]


def _cell(column: Column, entry: Entry) -> dict[str, Any]:
    variant = VARIANTS[entry.cell.variant]
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

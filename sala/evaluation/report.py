"""Results as text: sentences and tables for the terminal."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from sala.evaluation.results import Result


def protocol_note(result: Result) -> str:
    """How many episodes of which shape and split a result is of."""
    return f"{len(result.accuracies):,} {result.split} episodes, {result.shape.describe()}"


def pseudo_label_note(result: Result) -> str:
    """How good the pseudo-labels were, in one sentence; empty for a method without any."""
    labels = result.pseudo_labels
    if not labels:
        return ""
    distractors = (
        f"; {labels['distractors']:.1f} % of the selected are distractors" if result.shape.n_distractor else ""
    )
    return f"pseudo-labels: {labels['selected']:.0f} % selected, {labels['accuracy']:.1f} % of those right{distractors}"


def inlier_note(result: Result) -> str:
    """How well inlier scores tell distractors apart; empty where there are none."""
    auroc = result.diagnostics.get("inlier_auroc")
    return "" if auroc is None else f"inlier score of unlabeled images against distractors: AUROC {auroc:.1f} %"


def comparison_table(results: dict[str, Result], methods: dict[str, str]) -> Table:
    """One row per run; the difference is paired, over the same episodes, against the first row."""
    base = next(iter(results.values()))
    table = Table(title=protocol_note(base), title_justify="left", box=None, pad_edge=False)
    for column in ("run", "method", "accuracy (95 %)", "difference to the first (95 %)"):
        table.add_column(column, overflow="fold")
    for run, result in results.items():
        difference = result.minus(base)
        is_clear = abs(difference.mean) > difference.ci95
        text = (
            "-"
            if result is base
            else f"{difference.mean:+.2f} ± {difference.ci95:.2f}" + ("" if is_clear else "  (unclear)")
        )
        table.add_row(escape(run), escape(methods[run]), str(result.interval), text)
    return table

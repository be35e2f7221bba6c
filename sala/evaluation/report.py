"""Results as text: sentences for the terminal."""

from __future__ import annotations

from sala.evaluation.results import Result
from sala.evaluation.seeds import SeedResults


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


def accuracy_note(found: SeedResults) -> str:
    """The accuracy with its interval over episodes; over several seeds also their deviation and t interval."""
    interval, over_seeds, sd = found.mean_result.interval, found.over_seeds, found.seed_sd
    if over_seeds is None or over_seeds.ci95 is None or sd is None:
        return str(interval)
    return f"{interval} ({over_seeds.n} seeds: sd {sd:.2f}, ± {over_seeds.ci95:.2f})"

"""How far a session has come: the range of right labels, what moved it, and what a goal still takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sala.labeling.answers import UserAnswers
from sala.labeling.moves import Fit, told_rejections
from sala.labeling.predictions import RejectionBasis
from sala.labeling.progress import (
    Estimate,
    Range,
    error_factors,
    expected_right,
    labels_at_pace,
    labels_needed,
    parts_of_move,
    smoothed,
    told_move,
)
from sala.labeling.project import UNLABELED
from sala.text import counted
from sala.web.audits import AuditResult
from sala.web.snapshot import Snapshot

MAX_HISTORY = 200
N_TOLD = 5  # changes that a sentence on rejections outlasts: who labels quickly reads it a little later


@dataclass(frozen=True)
class Reached:
    """How a goal stands: shown by an audit, expected by the probabilities, or neither."""

    by: str  # "audit", "expectation" or ""
    n_labels_at_most: int  # if nothing is learned from them
    n_labels_at_pace: int | None  # as fast as it went so far; None where that is not known yet


class Progress:
    """Follows the fits of one process. A new set of classes begins anew: what was expected before is of other labels."""

    def __init__(self) -> None:
        self.shown: Range | None = None
        self.why = ""
        self._told = ("", 0)  # the last sentence on rejections, and the version that it is of
        self._before: Snapshot | None = None
        self._estimate: Estimate | None = None
        self._history: list[tuple[int, float]] = []  # labels given, expected share right

    def take(self, fitted: Snapshot, is_pool: NDArray[np.bool_], answers: UserAnswers) -> None:
        """Take up a new fit."""
        estimate = Estimate(fitted.chance[is_pool], fitted.given[is_pool] != UNLABELED, error_factors(answers.claims))
        now = expected_right(estimate.chance, estimate.factors)
        same_classes = self._before is not None and self._before.numbering == fitted.numbering
        is_same = same_classes and self._before is not None and len(fitted.names) == len(self._before.names)
        self.why = told_move(parts_of_move(self._estimate, estimate)) if is_same and self._estimate else ""
        if self._before is not None:
            told = told_rejections(_fit(self._before), _fit(fitted), same_classes=same_classes)
            self._told = (told, fitted.version) if told else self._told
        self.shown = smoothed(self.shown if is_same else None, now)
        if not is_same:
            self._history = []
        self._history = [*self._history[1 - MAX_HISTORY :], (int(estimate.is_given.sum()), now.mean)]
        self._before, self._estimate = fitted, estimate

    @property
    def rejections(self) -> str:
        """Why more than a few images became rejected, or are so no longer, in one of the last changes; else empty."""
        told, version = self._told
        n_later = self._before.version - version if self._before else 0
        if not told or n_later > N_TOLD:
            return ""
        return f"{counted(n_later, 'change')} ago: {told}" if n_later else told

    def goal(self, share: float, audit: AuditResult) -> Reached:
        """How many labels a goal still takes, and whether it is reached."""
        if self._estimate is None or self.shown is None:
            return Reached("", 0, None)
        n, n_given = len(self._estimate.chance), int(self._estimate.is_given.sum())
        low = audit.shares["all"].low  # of what is predicted; what is given is right
        if audit.is_complete and n and (n_given + (n - n_given) * low) / n >= share:
            return Reached("audit", 0, 0)
        most = labels_needed(self._estimate.chance, self._estimate.factors, share)
        pace = labels_at_pace(self._history, share)
        by = "expectation" if self.shown.low >= share else ""
        return Reached(by, most, None if pace is None else min(pace, most))


def _fit(fitted: Snapshot) -> Fit:
    return Fit(fitted, fitted.result.rejection_basis if fitted.result else RejectionBasis())


def describe_progress(progress: Progress, audit: AuditResult, goal: float) -> dict[str, Any]:
    """As JSON: shares from 0 to 1."""
    shown, reached = progress.shown or Range(0.0, 0.0, 1.0), progress.goal(goal, audit)
    return {
        "expected": {"low": shown.low, "mean": shown.mean, "high": shown.high, "why": progress.why},
        "rejections": progress.rejections,
        "goal": {
            "share": goal,
            "reached_by": reached.by or None,
            "labels_at_most": reached.n_labels_at_most,
            "labels_at_pace": reached.n_labels_at_pace,
        },
        "audit": {
            "n": audit.n,
            "n_drawn": audit.n_drawn,
            "complete": audit.is_complete,
            "upcoming": audit.upcoming,
            "labels_since": audit.n_later,
            "shares": {group: vars(share) for group, share in audit.shares.items()},
        },
    }

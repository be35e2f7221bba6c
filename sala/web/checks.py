"""What the labels of a state tell of the predictions that they judged: right or wrong, confirmed or not, drawn or chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sala.labeling.answers import Claim, UserAnswers
from sala.labeling.audit import Answer, Share, draw_order, shares
from sala.labeling.predictions import Ints
from sala.labeling.project import OUTLIER, UNLABELED, Project
from sala.web.events import WHOLE, Event
from sala.web.replay import Replay


@dataclass
class Audit:
    """Images drawn at random, and what the user said of them."""

    seed: int
    n: int  # images to draw
    drawn: dict[int, tuple[str, int | None]] = field(default_factory=dict)  # by image: the verdict and the label then
    n_later: int = 0  # labels that were given since the last answer


@dataclass(frozen=True)
class AuditResult:
    """An audit as it stands: what is known, and what is asked next."""

    n: int  # images to draw; 0 where no audit was begun
    n_drawn: int
    shares: dict[str, Share]
    upcoming: list[int]  # images to ask for, in order
    n_later: int

    @property
    def is_complete(self) -> bool:
        """Whether all images were drawn that were to be: only then is the interval what it claims to be, since nobody can
        stop at a moment that looks good."""
        return self.n > 0 and (self.n_drawn >= self.n or not self.upcoming)


@dataclass(frozen=True)
class Checks:
    """The answers for the classifier, and the audit in force."""

    answers: UserAnswers
    audit: Audit | None


def read_checks(events: Sequence[Event], replay: Replay, given: Ints) -> Checks:
    """Of all events in force. A label that was changed later is judged as it stands now."""
    seen: dict[int, tuple[str, int, int]] = {}
    is_confirmed = np.zeros(len(given), bool)
    audit: Audit | None = None
    for event in events:
        if event["do"] == "audit":
            is_same = audit is not None and audit.seed == event["seed"]
            audit = Audit(event["seed"], event["n"], audit.drawn if audit and is_same else {})
        if event["do"] not in ("label", "answer"):
            continue
        told = event.get("seen") or [None] * len(event["items"])
        for key, claim in zip(event["items"], told, strict=True):
            row = replay.row(key)
            if row is None:
                continue
            is_confirmed[row] = claim is not None and claim[0] == event["to"]
            if claim is not None:
                seen.pop(row, None)  # the newest come last
                seen[row] = (claim[0], claim[1], claim[2])
        if audit is not None:
            _count(audit, event, replay)
    return Checks(UserAnswers(is_confirmed & (given != UNLABELED), _claims(seen, replay, given)), audit)


def _count(audit: Audit, event: Event, replay: Replay) -> None:
    if event["do"] == "label":
        audit.n_later += len(event["items"])
        return
    audit.n_later = 0
    row = replay.row(event["items"][0])
    if row is not None:  # else it is of the pool no longer
        audit.drawn[row] = (event["verdict"], replay.class_number(event["seen"][0][0]))


def _claims(seen: dict[int, tuple[str, int, int]], replay: Replay, given: Ints) -> tuple[Claim, ...]:
    return tuple(
        Claim(
            chance=chance / WHOLE,
            is_right=bool(replay.class_number(said) == given[row]),
            outlier_probability=outlier / WHOLE,
            is_outlier=bool(given[row] == OUTLIER),
        )
        for row, (said, chance, outlier) in seen.items()
        if given[row] != UNLABELED
    )


def audit_result(audit: Audit | None, project: Project, given: Ints, n_upcoming: int = 3) -> AuditResult:
    """The shares so far, and the next images of the drawn order that have no label, each content once."""
    if audit is None:
        return AuditResult(0, 0, shares([]), [], 0)
    answers = [
        Answer(verdict, None if given[row] == UNLABELED else bool(said == given[row]))
        for row, (verdict, said) in audit.drawn.items()
    ]
    n_left = max(0, audit.n - len(answers))
    return AuditResult(
        audit.n,
        len(answers),
        shares(answers),
        _upcoming(audit, project, given)[: min(n_left, n_upcoming)],
        audit.n_later,
    )


def _upcoming(audit: Audit, project: Project, given: Ints) -> list[int]:
    is_left: NDArray[np.bool_] = project.is_pool & (given == UNLABELED)
    is_left &= project.first == np.arange(len(given))
    order = _order(tuple(item.key for item in project.items), audit.seed)
    return [row for row in order[is_left[order]].tolist() if row not in audit.drawn]


@lru_cache(maxsize=2)
def _order(keys: tuple[str, ...], seed: int) -> Ints:
    return draw_order(keys, seed)

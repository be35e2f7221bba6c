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
from sala.web.events import WHOLE, Event, n_items, parts_of
from sala.web.replay import Replay, State


@dataclass
class Audit:
    """Images drawn at random, and what the user said of them."""

    seed: int
    n: int  # images to draw
    drawn: dict[int, tuple[str, int]] = field(default_factory=dict)  # by image: the verdict and the label then
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


def read_answers(events: Sequence[Event], replay: Replay, state: State) -> UserAnswers:
    """What the labels tell of the predictions that the user saw. A label that was changed later is judged as it stands now."""
    seen: dict[int, tuple[str, int, int]] = {}
    is_confirmed = np.zeros(len(state.given), bool)
    for part in (part for event in events for part in parts_of(event)):
        for key, claim in zip(part["items"], part.get("seen") or [None] * len(part["items"]), strict=True):
            row = replay.row(key)
            if row is None:
                continue
            is_confirmed[row] = claim is not None and claim[0] == part["to"]
            if claim is not None:
                seen.pop(row, None)  # the newest come last
                seen[row] = (claim[0], claim[1], claim[2])
    claims = tuple(
        Claim(
            chance=chance / WHOLE,
            is_right=bool(replay.class_number(state, said) == state.given[row]),
            outlier_probability=outlier / WHOLE,
            is_outlier=bool(state.given[row] == OUTLIER),
        )
        for row, (said, chance, outlier) in seen.items()
        if state.given[row] != UNLABELED
    )
    return UserAnswers(is_confirmed & (state.given != UNLABELED), claims)


def read_audit(events: Sequence[Event], replay: Replay, state: State) -> Audit | None:
    """The audit that was begun last; None where none was."""
    audit: Audit | None = None
    for event in events:
        if event["do"] == "audit":
            is_same = audit is not None and audit.seed == event["seed"]
            audit = Audit(event["seed"], event["n"], audit.drawn if audit and is_same else {})
        elif audit is not None and event["do"] == "answer":
            audit.n_later, row = 0, replay.row(event["items"][0])
            if row is not None:  # else it is of the pool no longer
                audit.drawn[row] = (event["verdict"], replay.class_number(state, event["seen"][0][0]))
        elif audit is not None:
            audit.n_later += n_items(event)
    return audit


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

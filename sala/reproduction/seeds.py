"""What several trainings say: intervals over seeds, and when a difference is a claim.

Two trainings that differ in the seed alone differ by tenths of a point, which an interval over episodes does not contain.
So "better", "worse" and bold rest on seeds: at least three, and a 95 % interval of their paired differences without zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

MIN_SEEDS = 3  # of both methods, before a difference may be called better or worse


@dataclass(frozen=True)
class SeedInterval:
    """A mean over seeds with the half-width of its 95 % t interval, both in percent; one seed has no interval."""

    n: int
    mean: float
    ci95: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> SeedInterval:
        """The interval of one number a seed."""
        n = len(values)
        half = float(stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else None
        return cls(n, float(np.mean(values)), half)

    @property
    def is_claim(self) -> bool:
        """Whether there are seeds enough, and the interval excludes zero."""
        return self.n >= MIN_SEEDS and self.ci95 is not None and abs(self.mean) > self.ci95

    @property
    def is_better(self) -> bool:
        return self.is_claim and self.mean > 0

    @property
    def is_worse(self) -> bool:
        return self.is_claim and self.mean < 0

    @property
    def verdict(self) -> str:
        """The word that the seeds allow: better, worse, no difference shown, or no claim."""
        if self.n < MIN_SEEDS:
            return "no claim"
        return "better" if self.is_better else "worse" if self.is_worse else "no difference shown"

    @property
    def points(self) -> str:
        """Mean and interval without the number of seeds, as where it stands already."""
        return f"{self.mean:+.2f}" + ("" if self.ci95 is None else f" ± {self.ci95:.2f}")

    def __str__(self) -> str:
        if self.ci95 is None:
            return f"{self.mean:+.2f}, one seed"
        return f"{self.mean:+.2f} ± {self.ci95:.2f} over {self.n} seeds"

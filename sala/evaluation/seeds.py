"""What several trainings say: intervals over seeds, and when a difference is a claim.

Two trainings that differ in the seed alone differ by tenths of a point, which an interval over episodes does not contain.
So "better", "worse" and bold rest on seeds: at least three, and a 95 % interval of their paired differences without zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from sala.evaluation.results import Interval, Result

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


@dataclass(frozen=True)
class SeedResults:
    """Results of trainings that differ in the seed alone, on the same episodes; there may be none yet."""

    by_seed: Mapping[int, Result]

    @property
    def interval(self) -> Interval | None:
        """Over the test episodes; where there are several seeds, of each episode's mean over them."""
        return Interval.of(_mean_over([r.accuracies for r in self.by_seed.values()])) if self.by_seed else None

    @property
    def over_seeds(self) -> SeedInterval | None:
        """The accuracy over seeds."""
        return SeedInterval.of([result.accuracy for result in self.by_seed.values()]) if self.by_seed else None

    @property
    def seed_sd(self) -> float | None:
        """Standard deviation over seeds, in percent."""
        means = [result.accuracy for result in self.by_seed.values()]
        return float(np.std(means, ddof=1)) if len(means) > 1 else None

    @property
    def mean_result(self) -> Result:
        """A result with each episode's mean over the seeds."""
        first, *others = self.by_seed.values()
        for other in others:
            first.minus(other)  # refuses other episodes
        return replace(first, accuracies=tuple(_mean_over([r.accuracies for r in self.by_seed.values()])))

    def minus(self, other: SeedResults) -> Interval | None:
        """The paired difference over episodes, of the seeds that both have."""
        pairs = self._pairs(other)
        return Interval.of(_mean_over([np.subtract(a.accuracies, b.accuracies) for a, b in pairs])) if pairs else None

    def minus_over_seeds(self, other: SeedResults) -> SeedInterval | None:
        """The paired difference over the seeds that both have: what a claim rests on."""
        pairs = self._pairs(other)
        return SeedInterval.of([a.minus(b).mean for a, b in pairs]) if pairs else None

    def _pairs(self, other: SeedResults) -> list[tuple[Result, Result]]:
        ours, theirs = self.by_seed, other.by_seed
        pairs = [(ours[seed], theirs[seed]) for seed in sorted(ours.keys() & theirs.keys())]
        for a, b in pairs:
            a.minus(b)  # refuses other episodes
        return pairs


def best_of(found: Mapping[str, SeedResults]) -> str | None:
    """The name of the results that are better than all others over seeds; None where the seeds do not tell."""
    if len(found) < 2:
        return None
    first = max(found, key=lambda name: (found[name].interval or Interval(0, 0)).mean)
    differences = [found[first].minus_over_seeds(other) for name, other in found.items() if name != first]
    return first if all(d is not None and d.is_better for d in differences) else None


def _mean_over(lists: Sequence[Any]) -> list[float]:
    return [float(x) for x in np.mean(np.array(lists, dtype=np.float64), axis=0)]

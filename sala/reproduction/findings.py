"""What was learned: at most ten sentences, each made from the records, so that its words follow the numbers.

A finding is silent while its evidence is missing. "Better" and "worse" want three seeds (`seeds`); all are of one shot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sala.episodes.protocol import PROTOCOLS
from sala.evaluation.seeds import SeedInterval
from sala.reproduction.published import DATASETS, VARIANTS
from sala.reproduction.tables import Entry, columns_of

TABLES = ("table1", "table2", "ablation", "scale", "scale-distractors")
LABELS = {"miniimagenet": "miniImageNet", "omniglot": "Omniglot", "tieredimagenet": "tieredImageNet"}
WITHOUT, WITH = 0, 5  # distractor classes
Key = tuple[str, str, int, str, str]  # budget, dataset, distractor classes, test setting, variant


@dataclass(frozen=True)
class Evidence:
    """Everything that is recorded with one shot, and the budget that the sentences are about."""

    entries: Mapping[Key, Entry]
    budget: str

    @property
    def datasets(self) -> list[str]:
        return [name for name in DATASETS[self.budget] if any(key[:2] == (self.budget, name) for key in self.entries)]

    def entry(self, dataset: str, n_distractor: int, variant: str, setting: str | None = None) -> Entry | None:
        """A row in a test setting: in that of SALA's own numbers by default, the last of the protocol."""
        setting = setting or list(PROTOCOLS[dataset].test)[-1]
        found = self.entries.get((self.budget, dataset, n_distractor, setting, variant))
        return found if found is not None and found.records else None

    def difference(self, dataset: str, n_distractor: int, variant: str, other: str) -> SeedInterval | None:
        ours, theirs = self.entry(dataset, n_distractor, variant), self.entry(dataset, n_distractor, other)
        return None if ours is None or theirs is None else ours.minus_over_seeds(theirs)


def read_evidence(out: Path, budget: str, n_episodes: int | None = None) -> Evidence:
    """The evidence of a budget, and beside it that of all longer and shorter ones."""
    entries: dict[Key, Entry] = {}
    for one, datasets in DATASETS.items():
        for table in TABLES:
            for column in columns_of(table, datasets, one, out, n_episodes):
                for variant, entry in column.entries.items():
                    key = (one, column.dataset, entry.cell.n_distractor, column.setting, variant)
                    if column.shots == 1 and (key not in entries or entry.cell.published is not None):
                        entries[key] = entry
    return Evidence(entries, budget)


def sentences(out: Path, budget: str = "cpu", n_episodes: int | None = None, names: Sequence[str] = ()) -> list[str]:
    """The findings that the records of a budget support; `names` leaves only those."""
    evidence = read_evidence(out, budget, n_episodes)
    found = [FINDINGS[name](evidence) for name in names or FINDINGS]
    return [text[0].upper() + text[1:] + "." for text in found if text]


# ------------------------------------------------------------------ words

Comparison = tuple[str, SeedInterval]  # with what, and the difference


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + " and " + texts[-1]


def _compared(subject: str, comparisons: Iterable[Comparison], other: str = "") -> str:
    """A clause for each verdict that there is, better and worse first; each names `other` once."""
    by_verdict: dict[str, list[str]] = {}
    for words, difference in comparisons:
        by_verdict.setdefault(difference.verdict, []).append(f"{words} ({difference})")
    forms = {
        "better": "{} is better than {}",
        "worse": "{} is worse than {}",
        "no difference shown": "{} is not shown to differ from {}",
        "no claim": "there are too few seeds to compare {} with {}",
    }
    clauses = {verdict: f"{other} {_listed(found)}".lstrip() for verdict, found in by_verdict.items()}
    return "; ".join(form.format(subject, clauses[verdict]) for verdict, form in forms.items() if verdict in clauses)


def _everywhere(evidence: Evidence, n_distractor: int, variant: str, other: str) -> list[Comparison]:
    """The difference to another variant on each dataset."""
    differences = {d: evidence.difference(d, n_distractor, variant, other) for d in evidence.datasets}
    return [(f"on {LABELS.get(d, d)}", found) for d, found in differences.items() if found is not None]


def _strongest(evidence: Evidence, n_distractor: int, pairs: Sequence[tuple[str, str]]) -> str | None:
    """The dataset on which the pairs have most seeds in common."""

    def n_seeds(dataset: str) -> int:
        found = [evidence.difference(dataset, n_distractor, *pair) for pair in pairs]
        return sum(difference.n for difference in found if difference is not None)

    best = max(evidence.datasets, key=n_seeds, default=None)
    return best if best is not None and n_seeds(best) else None


def _against(evidence: Evidence, dataset: str, n: int, variant: str, others: Mapping[str, str]) -> list[Comparison]:
    """The difference to several variants, under the names given, on one dataset."""
    found = [(name, evidence.difference(dataset, n, variant, other)) for other, name in others.items()]
    return [(name, difference) for name, difference in found if difference is not None]


# ------------------------------------------------------------------ findings


def sala_without(evidence: Evidence) -> str | None:
    text = _compared("SALA", _everywhere(evidence, WITHOUT, "sala", "soft-kmeans"), "Soft k-Means")
    return f"without distractors, {text}" if text else None


def sala_with(evidence: Evidence) -> str | None:
    text = _compared("SALA", _everywhere(evidence, WITH, "sala", "soft-kmeans"), "Soft k-Means")
    return f"with distractors, {text}" if text else None


def keeping_distractors_out(evidence: Evidence) -> str | None:
    """SALA's selection against the other ways to keep distractors out."""
    others = {key: VARIANTS[key].label for key in ("soft-kmeans-cluster", "masked-soft-kmeans", "tpn")}
    dataset = _strongest(evidence, WITH, [("sala", other) for other in others])
    if dataset is None:
        return None
    text = _compared("SALA", _against(evidence, dataset, WITH, "sala", others))
    return f"among methods that keep distractors out, on {LABELS.get(dataset, dataset)}, {text}"


def unlabeled_images(evidence: Evidence) -> str | None:
    """All unlabeled images against none."""
    dataset = _strongest(evidence, WITHOUT, [("soft-kmeans", "protonet")])
    if dataset is None:
        return None
    found = [
        *_against(evidence, dataset, WITHOUT, "soft-kmeans", {"protonet": "ProtoNet without distractors"}),
        *_against(evidence, dataset, WITH, "soft-kmeans", {"protonet": "ProtoNet with distractors"}),
    ]
    return f"on {LABELS.get(dataset, dataset)}, {_compared('Soft k-Means, which lets all unlabeled images in,', found)}"


def one_step_at_test(evidence: Evidence) -> str | None:
    found = _everywhere(evidence, WITHOUT, "semi-inference", "soft-kmeans")
    text = _compared("ProtoNet with one soft k-means step at test", found, "Soft k-Means")
    return f"without distractors, {text}" if text else None


def selected_distractors(evidence: Evidence) -> str | None:
    """How much of the half that SALA selects is distractors."""
    shares = []
    for dataset in evidence.datasets:
        for variant, note in (("sala", ""), ("sala-printed", ", distances as printed")):
            entry = evidence.entry(dataset, WITH, variant)
            if entry is not None:
                found = [result.pseudo_labels["distractors"] for result in entry.results().values()]
                seeds = "one seed" if len(found) == 1 else f"{len(found)} seeds"
                shares.append(f"{np.mean(found):.0f} % on {LABELS.get(dataset, dataset)} ({seeds}{note})")
    if not shares:
        return None
    return f"of the half that SALA selects, distractors are {_listed(shares)}; by chance it would be 50 %"


def modules(evidence: Evidence) -> str | None:
    """SALA against each of its modules alone, and neither."""
    others = {
        "sala-metric": "its metric alone",
        "sala-selection": "its selection alone",
        "soft-kmeans-flow": "neither module",
    }
    return _sala_against(evidence, others)


def controls(evidence: Evidence) -> str | None:
    """SALA against itself without the adaptation to the task."""
    others = {
        "sala-constant": "itself with weights held at one half",
        "sala-shared": "itself with one learned vector of weights",
    }
    return _sala_against(evidence, others)


def _sala_against(evidence: Evidence, others: Mapping[str, str]) -> str | None:
    dataset = _strongest(evidence, WITHOUT, [("sala", other) for other in others])
    if dataset is None:
        return None
    text = _compared("SALA", _against(evidence, dataset, WITHOUT, "sala", others))
    return f"without distractors, on {LABELS.get(dataset, dataset)}, {text}"


def published_numbers(evidence: Evidence) -> str | None:
    """How far SALA and Soft k-Means are from the paper, without distractors, with every budget."""
    clauses = []
    for budget in DATASETS:
        one = replace(evidence, budget=budget)
        for dataset in one.datasets:
            clauses += _gaps(one, dataset)
    return f"against published numbers, each in its own test setting, {'; '.join(clauses)}" if clauses else None


def _gaps(evidence: Evidence, dataset: str) -> list[str]:
    gaps = []
    for variant in ("sala", "soft-kmeans"):
        for setting in PROTOCOLS[dataset].test:
            entry = evidence.entry(dataset, WITHOUT, variant, setting)
            if entry is None or entry.published is None or entry.interval is None:
                continue
            gap = entry.interval.mean - entry.published
            place = f"{abs(gap):.2f} {'above' if gap > 0 else 'below'}"
            gaps.append(f"{VARIANTS[variant].label} is {place} ({len(entry.seeds)} seed{'s' * (len(entry.seeds) > 1)})")
    if not gaps:
        return []
    n_trained = PROTOCOLS[dataset].budget(evidence.budget).n_episodes
    return [f"on {LABELS.get(dataset, dataset)} after {n_trained:,} episodes {_listed(gaps)}"]


def printed_distances(evidence: Evidence) -> str | None:
    """What the protocol's scale does to each method, and to the difference between the two."""
    clauses = [
        _compared(label, _everywhere(evidence, WITHOUT, key, f"{key}-printed"), "itself with distances as printed")
        for key, label in (("soft-kmeans", "Soft k-Means"), ("sala", "SALA"))
    ]
    between = _everywhere(evidence, WITHOUT, "sala-printed", "soft-kmeans-printed")
    clauses.append(_compared("SALA", between, "Soft k-Means, both with distances as printed,"))
    return "; ".join(clause for clause in clauses if clause) or None


FINDINGS: dict[str, Callable[[Evidence], str | None]] = {
    "sala-without": sala_without,
    "sala-with": sala_with,
    "keeping-distractors-out": keeping_distractors_out,
    "published": published_numbers,
    "unlabeled-images": unlabeled_images,
    "one-step-at-test": one_step_at_test,
    "selected-distractors": selected_distractors,
    "modules": modules,
    "controls": controls,
    "printed-distances": printed_distances,
}

"""Tables as text: accuracies with their intervals over episodes and seeds, Markdown, LaTeX."""

from __future__ import annotations

import re

from sala.evaluation.results import Interval
from sala.evaluation.seeds import SeedInterval, SeedResults

Row = list[str]
Rows = list[tuple[Row, set[int]]]  # texts, and the numbers of those that are bold
ONE_SEED = "†"
ONE_SEED_NOTE = f"{ONE_SEED} One training: another seed may move it by more than its interval. Shown, not a claim."
_TEX = {
    "±": r"$\pm$", "†": r"$\dagger$", "%": r"\%", "_": r"\_", "&": r"\&", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
}  # fmt: skip


def accuracy_text(found: SeedResults | None) -> str:
    """The accuracy with its intervals over episodes and over seeds."""
    if found is None or found.interval is None or found.over_seeds is None:
        return "-"
    return _both(f"{found.interval.mean:.2f}", found.interval, found.over_seeds)


def difference_text(found: SeedResults, base: SeedResults) -> str:
    """The paired difference, with both intervals; empty where there is no seed that both have."""
    over_episodes, over_seeds = found.minus(base), found.minus_over_seeds(base)
    if over_episodes is None or over_seeds is None:
        return ""
    return _both(f"{over_episodes.mean:+.2f}", over_episodes, over_seeds)


def _both(mean: str, over_episodes: Interval, over_seeds: SeedInterval) -> str:
    seeds = ONE_SEED if over_seeds.ci95 is None else f"({over_seeds.n} seeds: ± {over_seeds.ci95:.2f})"
    return f"{mean} ± {over_episodes.ci95:.2f} {seeds}"


def has_one_seed(rows: Rows) -> bool:
    """Whether a row is marked as one training, so that the mark wants a note."""
    return any(ONE_SEED in text for texts, _ in rows for text in texts)


def markdown(header: Row, rows: Rows) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += [
        "| " + " | ".join(f"**{t}**" if i in bold else t for i, t in enumerate(texts)) + " |" for texts, bold in rows
    ]
    return "\n".join(lines) + "\n"


def latex(header: Row, rows: Rows) -> str:
    """A booktabs table."""
    lines = [r"\begin{tabular}{l" + "r" * (len(header) - 1) + "}", r"\toprule"]
    lines += [" & ".join(map(_escaped, header)) + r" \\", r"\midrule"]
    for texts, bold in rows:
        cells = [rf"\textbf{{{_escaped(t)}}}" if i in bold else _escaped(t) for i, t in enumerate(texts)]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _escaped(text: str) -> str:
    text = "".join(_TEX.get(c, c) for c in text)
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", text)  # a minus, not a hyphen

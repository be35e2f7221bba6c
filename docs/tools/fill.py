"""Puts the tables of results/ into README.md and docs/results/, between the marks that name them:

    <!-- table: table1 omniglot -->
    <!-- end -->
    <!-- both: omniglot large -->
    <!-- end -->
    <!-- labeling: goals -->
    <!-- end -->

`python docs/tools/fill.py` writes, `python docs/tools/fill.py --check` fails if a page does not show what results/ has.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from labeling_tables import labeling_table

from sala.reproduction import tables

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))
MARK = re.compile(r"(<!-- table: (\w+) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
BOTH_MARK = re.compile(r"(<!-- both: ([\w-]+) (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
LABELING_MARK = re.compile(r"(<!-- labeling: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(name: str, dataset: str) -> str:
    columns = tables.columns_of(name, [dataset], "cpu", ROOT / "results")
    if not columns:
        return "Not yet run.\n"
    return tables.markdown(*tables.rows_of(columns, tables.bases_of(name, [dataset], "cpu", ROOT / "results")))


def both(dataset: str, setting: str) -> str:
    """Without and with distractors side by side, in one test setting."""
    halves = []
    for name in ("table1", "table2"):
        columns = [c for c in tables.columns_of(name, [dataset], "cpu", ROOT / "results") if c.setting == setting]
        halves.append(tables.rows_of(columns, tables.bases_of(name, [dataset], "cpu", ROOT / "results")))
    header = ["method", "without distractors", *halves[0][0][2:], "with five distractor classes", *halves[1][0][2:]]
    rest = {texts[0]: (texts, bold) for texts, bold in halves[1][1]}
    rows = []
    for texts, bold in halves[0][1]:
        others, their_bold = rest[texts[0]]
        rows.append(([*texts, *others[1:]], bold | {len(texts) - 1 + i for i in their_bold}))
    return tables.markdown(header, rows)


def filled(text: str) -> str:
    text = MARK.sub(lambda m: m[1] + table(m[2], m[3]) + m[4], text)
    text = BOTH_MARK.sub(lambda m: m[1] + both(m[2], m[3]) + m[4], text)
    return LABELING_MARK.sub(lambda m: m[1] + labeling_table(m[2]) + m[3], text)


if __name__ == "__main__":
    for path in PAGES:
        before = path.read_text(encoding="utf-8")
        after = filled(before)
        if "--check" in sys.argv and before != after:
            sys.exit(f"{path} does not show what results/ has; run `python docs/tools/fill.py`")
        if before != after:
            path.write_text(after, encoding="utf-8")

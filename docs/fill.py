"""Puts the tables of results/ into README.md, docs/results.md and docs/practice.md, between the marks that name them:

    <!-- table: table1 omniglot -->
    <!-- end -->
    <!-- practice: goals -->
    <!-- end -->

`python docs/fill.py` writes, `python docs/fill.py --check` fails if a page does not show what results/ has.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from practice_tables import practice_table

from sala import tables

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md", ROOT / "docs" / "practice.md")
MARK = re.compile(r"(<!-- table: (\w+) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
PRACTICE_MARK = re.compile(r"(<!-- practice: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(name: str, dataset: str) -> str:
    columns = tables.columns_of(name, [dataset], "cpu", ROOT / "results")
    if not columns:
        return "Not yet run.\n"
    return tables.markdown(*tables.rows_of(columns, tables.bases_of(name, [dataset], "cpu", ROOT / "results")))


def filled(text: str) -> str:
    text = MARK.sub(lambda m: m[1] + table(m[2], m[3]) + m[4], text)
    return PRACTICE_MARK.sub(lambda m: m[1] + practice_table(m[2]) + m[3], text)


if __name__ == "__main__":
    for path in PAGES:
        before = path.read_text(encoding="utf-8")
        after = filled(before)
        if "--check" in sys.argv and before != after:
            sys.exit(f"{path} does not show what results/ has; run `python docs/fill.py`")
        path.write_text(after, encoding="utf-8")

"""Puts the tables of results/ into README.md and docs/results.md, between the marks that name them:

    <!-- table: table1 omniglot -->
    <!-- end -->

`python docs/fill.py` writes, `python docs/fill.py --check` fails if a page does not show what results/ has.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sala import tables

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "docs" / "results.md")
MARK = re.compile(r"(<!-- table: (\w+) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(name: str, dataset: str) -> str:
    columns = tables.columns_of(name, [dataset], "cpu", ROOT / "results")
    if not columns:
        return "Not yet run.\n"
    return tables.markdown(*tables.rows_of(columns, tables.bases_of(name, [dataset], "cpu", ROOT / "results")))


def filled(text: str) -> str:
    return MARK.sub(lambda m: m[1] + table(m[2], m[3]) + m[4], text)


if __name__ == "__main__":
    for path in PAGES:
        before = path.read_text(encoding="utf-8")
        after = filled(before)
        if "--check" in sys.argv and before != after:
            sys.exit(f"{path} does not show what results/ has; run `python docs/fill.py`")
        path.write_text(after, encoding="utf-8")

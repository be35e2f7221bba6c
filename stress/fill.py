"""`python -m stress.fill stress/here.json`: make a run the last one, in stress/last.json and docs/results/stress.md."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from stress.report import table

ROOT = Path(__file__).parent.parent
MARK = re.compile(r"(<!-- stress -->\n).*?(<!-- end -->)", re.DOTALL)


def shown(last: dict[str, Any]) -> str:
    """The table, its command and circumstances."""
    versions = ", ".join(f"{name} {number}" for name, number in last["versions"].items())
    n_late = last["rows"][-1]["not_tried"]
    late = f" {n_late:,} trials were not reached within the time." if n_late else ""
    place = f"{last['machine']}, load {last['load_at_the_end']} at the end"
    when = f"{last['date'][:10]}, {last['seconds'] / 60:.0f} minutes"
    return f"{table(last['rows'])}\n`{last['command']}`, {when}; {place}; {versions}.{late}\n"


def main() -> None:
    last = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    del last["failed"]  # of that run's own folders
    (ROOT / "stress" / "last.json").write_text(json.dumps(last, indent=1) + "\n", encoding="utf-8")
    page = ROOT / "docs" / "results" / "stress.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(MARK.sub(lambda mark: mark[1] + shown(last) + mark[2], text), encoding="utf-8")


if __name__ == "__main__":
    main()

"""What was tried and what failed, by kind: a table for people, and a JSON file with the circumstances."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from stress.trials import Outcome

EXPECTED: dict[str, str] = {}  # trials that are known to fail, by name, with the reason


def rows_of(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """A row for each kind, and one for all."""
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    rows = [_row(kind, [outcome for outcome in outcomes if outcome.kind == kind]) for kind in sorted(kinds)]
    return [*rows, _row("all", outcomes)]


def _row(kind: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    tried = [outcome for outcome in outcomes if outcome.was_tried]
    failed = [outcome for outcome in tried if outcome.problem is not None]
    return {
        "kind": kind,
        "tried": len(tried),
        "failed": len([outcome for outcome in failed if outcome.name not in EXPECTED]),
        "expected_to_fail": len([outcome for outcome in failed if outcome.name in EXPECTED]),
        "not_tried": len(outcomes) - len(tried),
        "seconds": round(sum(outcome.seconds for outcome in tried), 1),
    }


def unexpected(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [o for o in outcomes if o.was_tried and o.problem is not None and o.name not in EXPECTED]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown, as docs/results/stress.md shows it."""
    lines = ["| kind | tried | failed | known to fail |", "|---|---|---|---|"]
    lines += [f"| {r['kind']} | {r['tried']:,} | {r['failed']:,} | {r['expected_to_fail']:,} |" for r in rows]
    return "\n".join(lines) + "\n"


def to_json(outcomes: Sequence[Outcome], seed: int, seconds: float) -> dict[str, Any]:
    return {
        "command": " ".join(["python -m stress", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seed": seed,
        "seconds": round(seconds, 1),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load_at_the_end": round(os.getloadavg()[0], 1),
        "versions": {name: version(name) for name in ("sala", "torch", "numpy", "pillow", "safetensors")}
        | {"python": platform.python_version()},
        "rows": rows_of(outcomes),
        "failed": [asdict(outcome) for outcome in unexpected(outcomes)],
        "expected": [asdict(o) | {"reason": EXPECTED[o.name]} for o in outcomes if o.name in EXPECTED],
    }


def tell(outcomes: Sequence[Outcome], n_shown: int = 60) -> None:
    """On stdout: the failures, what was expected to fail, and the table."""
    for outcome in unexpected(outcomes)[:n_shown]:
        print(
            f"FAILED {outcome.kind} | {outcome.name} | {outcome.problem}"
            + (f" | {outcome.again}" if outcome.again else "")
        )
    for outcome in outcomes:
        if outcome.name in EXPECTED and outcome.was_tried:
            state = (
                "as expected"
                if outcome.problem
                else "but PASSED: take it off the list in stress/report.py if it always does"
            )
            print(f"known to fail: {outcome.name}, {state} ({EXPECTED[outcome.name]})")
    print(table(rows_of(outcomes)), end="")
    if n := sum(not outcome.was_tried for outcome in outcomes):
        print(f"not tried, because the time was over: {n:,}")


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")

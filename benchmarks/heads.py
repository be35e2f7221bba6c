"""Every head on the embeddings of trained runs, and the run's own method, without and with distractors in the pool.

All rows of a run meet the same test episodes, so the differences to its own method are paired. Queries are classified one by
one; with --transductive they join the pool of the heads.

    SALA_DATA=FILES python benchmarks/heads.py omniglot-sala omniglot-sala-distractors --out results/heads.json
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from sala.evaluation.evaluate import evaluate
from sala.evaluation.heads import evaluate_heads
from sala.evaluation.results import Result
from sala.heads import HEADS, head_named
from sala.training.loading import Again, open_run

N_DISTRACTORS = (0, 5)
OWN = "own method"


def measure(
    run: str,
    heads: Iterable[str],
    n_episodes: int,
    *,
    setting: str | None = None,
    root: Path | None = None,
    transductive: bool = False,
) -> list[dict[str, Any]]:
    """A row for the run's own method and for each head, at each number of distractor classes in the test."""
    opened = open_run(run, again=Again(root=root))
    trained = opened.embeddings.method
    rows = []
    for n in N_DISTRACTORS:
        shape = replace(opened.config.protocol.test_shape(setting), n_distractor=n)
        began = time.perf_counter()
        trained.selection_share = shape.selection_share
        own = evaluate(trained, opened.sampler(shape, "test"), n_episodes, embeddings=opened.embeddings)
        rows.append(row_of(run, OWN, opened.config.method, own, own, time.perf_counter() - began))
        for name in heads:
            began = time.perf_counter()
            found = evaluate_heads(
                {name: head_named(name)},
                opened.sampler(shape, "test"),
                n_episodes,
                transductive=transductive,
                embeddings=opened.embeddings,
            )[name]
            rows.append(row_of(run, name, name, found, own, time.perf_counter() - began))
            print(f"{run}, {n} distractor classes, {name}: {found.interval}", file=sys.stderr, flush=True)
    return rows


def row_of(run: str, head: str, method: str, result: Result, own: Result, seconds: float) -> dict[str, Any]:
    return {
        "run": Path(run).name,
        "head": head,
        "method": method,
        **asdict(result.interval),
        "against_own": None if head == OWN else asdict(result.minus(own)),
        "pseudo_labels": result.pseudo_labels,
        "diagnostics": result.diagnostics,
        "shape": asdict(result.shape),
        "n_episodes": len(result.accuracies),
        "episodes": result.episodes,
        "seconds": round(seconds, 1),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: a row for each head, a column for each run and number of distractor classes."""
    columns = list(dict.fromkeys((row["run"], row["shape"]["n_distractor"]) for row in rows))
    cells = {(row["head"], row["run"], row["shape"]["n_distractor"]): row for row in rows}
    names = [f"{run}, {n} distractor classes" for run, n in columns]
    lines = [f"| head | {' | '.join(names)} |", f"|---|{'---|' * len(columns)}"]
    for head in dict.fromkeys(row["head"] for row in rows):
        shown = (cell_of(cells.get((head, *column))) for column in columns)
        lines.append(f"| {head} | {' | '.join(shown)} |")
    return "\n".join(lines)


def cell_of(row: dict[str, Any] | None) -> str:
    """Accuracy with its interval; in brackets the paired difference to the run's own method."""
    if row is None:
        return ""
    gain = row["against_own"]
    difference = f" ({row['method']})" if gain is None else f" ({gain['mean']:+.2f} ± {gain['ci95']:.2f})"
    return f"{row['mean']:.2f} ± {row['ci95']:.2f}{difference}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", default=["omniglot-sala"], help="run folders, or runs that come with sala")
    parser.add_argument("--head", action="append", help="only this one; repeatable")
    parser.add_argument("--episodes", type=int, default=600)
    parser.add_argument("--setting", help="a test setting of the dataset; the first by default")
    parser.add_argument("--transductive", action="store_true", help="queries join the pool of the heads")
    parser.add_argument("--root", type=Path, help="where the data of the runs is, if not in $SALA_DATA")
    parser.add_argument("--out", type=Path, help="a JSON file for the rows; the table goes beside it as .md")
    args = parser.parse_args()
    torch.set_num_threads(1)
    options = {"setting": args.setting, "root": args.root, "transductive": args.transductive}
    rows = [row for run in args.runs for row in measure(run, args.head or HEADS, args.episodes, **options)]
    print(table(rows))
    if args.out:
        command = shlex.join(["python", "benchmarks/heads.py", *sys.argv[1:]])
        record = {"command": command, "split": "test", "transductive": args.transductive, "torch": torch.__version__}
        args.out.write_text(json.dumps(record | {"rows": rows}, indent=1) + "\n", encoding="utf-8")
        args.out.with_suffix(".md").write_text(table(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

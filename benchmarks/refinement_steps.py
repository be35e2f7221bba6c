"""What more refinement steps at test do to a trained run, on validation classes: no training, the same weights.

Each number of steps meets the same episodes, so the differences to one step are paired.

    SALA_DATA=FILES python benchmarks/refinement_steps.py omniglot-sala --out results/refinement-steps.json
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import sala
from sala.episodes.sampler import fixed_sampler
from sala.errors import SalaError
from sala.evaluation.embeddings import Embeddings
from sala.evaluation.results import Result
from sala.methods import Method
from sala.training.config import read_config, run_folder
from sala.training.loading import open_data

N_STEPS = (1, 2, 3)


def refining(run: str) -> Method:
    """The method of a run, if it has refinement steps."""
    method = sala.load(run)
    if not hasattr(method, "n_refinement_steps"):
        raise SalaError(f"refinement steps need a method that refines prototypes; {run} is {type(method).__name__}")
    return method


def measure(run: str, n_episodes: int, root: Path | None = None) -> list[dict[str, Any]]:
    """A row for each test setting and number of steps."""
    folder, method = run_folder(run), refining(run)
    config = read_config(folder)
    embeddings = Embeddings(method, open_data(folder, config, root))
    rows = []
    for setting, shape in config.protocol.test.items():
        sampler = fixed_sampler(embeddings.store, shape, "val", config.protocol)
        method.selection_share = shape.selection_share
        results: dict[int, Result] = {}
        for n in N_STEPS:
            method.n_refinement_steps = n
            results[n] = sala.evaluate(method, sampler, n_episodes, embeddings=embeddings)
            rows.append(row_of(setting, n, results))
    return rows


def row_of(setting: str, n: int, results: dict[int, Result]) -> dict[str, Any]:
    result = results[n]
    return {
        "setting": setting,
        "n_refinement_steps": n,
        **asdict(result.interval),
        "against_one_step": None if n == 1 else asdict(result.minus(results[1])),
        "pseudo_labels": result.pseudo_labels,
        "shape": asdict(result.shape),
        "n_episodes": len(result.accuracies),
        "episodes": result.episodes,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    lines = ["| setting | steps | accuracy | against one step | pseudo-labels right |", "|---|---|---|---|---|"]
    for row in rows:
        gain = row["against_one_step"]
        difference = "" if gain is None else f"{gain['mean']:+.2f} ± {gain['ci95']:.2f}"
        accuracy = f"{row['mean']:.2f} ± {row['ci95']:.2f}"
        right = f"{row['pseudo_labels'].get('accuracy', float('nan')):.2f}"  # nan: none was selected
        lines.append(f"| {row['setting']} | {row['n_refinement_steps']} | {accuracy} | {difference} | {right} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="omniglot-sala", help="a run folder, or a run that comes with sala")
    parser.add_argument("--episodes", type=int, default=600)
    parser.add_argument("--root", type=Path, help="where the data of the run is, if not in $SALA_DATA")
    parser.add_argument("--out", type=Path, help="a JSON file for the rows")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = measure(args.run, args.episodes, args.root)
    print(table(rows))
    if args.out:
        command = shlex.join(["python", "benchmarks/refinement_steps.py", *sys.argv[1:]])
        record = {"command": command, "run": args.run, "split": "val", "torch": torch.__version__, "rows": rows}
        args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

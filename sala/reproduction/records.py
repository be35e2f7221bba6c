"""What is kept of a finished run when its folder is gone: one small JSON file with its configuration, circumstances,
validation curve and the number of right queries in every test episode. Tables are made from these files alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sala.atomic import write_json
from sala.data.files import read_bounded, read_text
from sala.episodes.protocol import EpisodeShape
from sala.errors import SalaError
from sala.evaluation.results import Result
from sala.methods import METHODS, Method
from sala.reproduction.plan import Run
from sala.reproduction.published import variant_named
from sala.training.config import RunConfig, read_config
from sala.training.log import read_metrics
from sala.training.measured import evaluate_run


@dataclass(frozen=True)
class Record:
    """A finished run as the tables see it."""

    run: Run
    results: dict[str, Result]  # by test setting
    metrics: list[dict[str, Any]]
    manifest: dict[str, Any]
    command: str
    n_trained: int
    best_episode: int

    def to_json(self) -> dict[str, Any]:
        cell, variant = self.run.cell, variant_named(self.run.cell.variant)
        return {
            "name": self.run.name,
            "dataset": cell.dataset,
            "shots": cell.shots,
            "distractors": cell.n_distractor,
            "variant": cell.variant,
            "method": variant.method,
            "options": variant.options,
            "budget": self.run.budget,
            "seed": self.run.seed,
            "command": self.command,
            "episodes_trained": self.n_trained,
            "best_episode": self.best_episode,
            "config": self.run.config.to_json(),
            "manifest": self.manifest,
            "results": {setting: _counts(result) for setting, result in self.results.items()},
            "metrics": self.metrics,
        }


def _counts(result: Result) -> dict[str, Any]:
    """A result with whole numbers in place of shares."""
    n_queries = result.shape.n_way * result.shape.n_query
    content = result.to_json()
    del content["accuracies"]
    return {**content, "n_queries": n_queries, "n_right": [round(share * n_queries) for share in result.accuracies]}


def _result(content: Mapping[str, Any]) -> Result:
    accuracies = tuple(n / content["n_queries"] for n in content["n_right"])
    return Result.from_json({**content, "accuracies": accuracies})


def record_path(out: Path, run: Run) -> Path:
    return out / "runs" / f"{run.name}.json"


def record_run(
    run: Run, folder: Path, out: Path, *, root: Path | None = None, progress: Callable[[int, int], None] | None = None
) -> Record:
    """The record of a finished training, which is measured on the cell's test episodes where it has not been yet.

    `root` is where the data is now, if it has moved.
    """
    config = read_config(folder)
    check_same(folder / "config.json", config, run)
    metrics = read_metrics(folder)
    if not metrics or metrics[-1]["episode"] < config.budget.n_episodes:
        raise SalaError(f"{folder} is not finished; `sala train --resume {folder}` goes on with it")
    shapes: dict[str, EpisodeShape] = dict(run.cell.protocol.test)
    n_episodes = config.protocol.n_test_episodes
    results = evaluate_run(folder, shapes, n_episodes=n_episodes, root=root, progress=progress)
    manifest = json.loads(read_text(folder / "manifest.json"))
    best = max(metrics, key=lambda line: float(line["val_accuracy"]))
    record = Record(run, results, metrics, manifest, run.command, config.budget.n_episodes, int(best["episode"]))
    path = record_path(out, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record.to_json())
    return record


def read_record(out: Path, run: Run) -> Record | None:
    """The record of a run, if it is finished."""
    path = record_path(out, run)
    if not path.is_file():
        return None
    try:
        content = json.loads(read_bounded(path))
        check_same(path, RunConfig.from_json(content["config"]), run)
        results = {setting: _result(content["results"][setting]) for setting in run.cell.protocol.test}
        return Record(
            run, results, content["metrics"], content["manifest"], content["command"], content["episodes_trained"],
            content["best_episode"],
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"  # its repr may hold the whole file
        raise SalaError(f"{path} is damaged ({reason}); remove it, and the run is done again") from None


def check_same(path: Path, config: RunConfig, run: Run) -> None:
    """Refuse a configuration other than the run would be asked for today, but for machine and place of the data."""
    wanted, found = (asdict(_essence(c)) for c in (run.config, config))
    if different := [name for name in wanted if wanted[name] != found[name]]:
        raise SalaError(
            f"{path} is of a run with another {', '.join(different)} than {run.name} has now; move it away to do the run again"
        )


def _essence(config: RunConfig) -> RunConfig:
    is_scaled = METHODS.get(config.method, Method).sums_distances
    scale = config.protocol.distance_scale if is_scaled else None
    protocol = replace(config.protocol, budgets={}, distance_scale=scale)
    options = {
        name: str(value).lower() for name, value in config.options.items()
    }  # true, and "true" from a command line
    return replace(
        config,
        protocol=protocol,
        options=options,
        threads=0,
        device="auto",
        precision="auto",
        root=None,
        data_options={},
    )

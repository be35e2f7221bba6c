"""`sala evaluate` and `sala compare`: accuracies of runs on fixed episodes, with their intervals."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from sala.cli import asked, console
from sala.cli import options as opt
from sala.errors import SalaError

if TYPE_CHECKING:
    from sala.episodes.protocol import EpisodeShape
    from sala.evaluation.results import Result


def evaluate(
    run: opt.Run,
    split: opt.Split = "test",
    setting: opt.Setting = None,
    episodes: opt.FixedEpisodes = 1_000,
    ways: opt.Ways = None,
    shots: opt.Shots = None,
    distractors: opt.Distractors = None,
    unlabeled: opt.Unlabeled = None,
    queries: opt.Queries = None,
    weights: opt.Weights = "best",
    method: opt.MethodAgain = None,
    root: opt.MovedRoot = None,
    as_json: opt.Json = False,
) -> None:
    """Test a run: mean accuracy with its 95 % interval on fixed episodes, and how good the pseudo-labels were.

    Without --setting every test setting of the dataset is measured.

    Example: `sala evaluate runs/glyphs-sala-5way1shot-s0 --setting large --distractors 5`
    """
    from sala.data.memory import keep_freed_memory
    from sala.training.config import read_config
    from sala.training.loading import evaluate_run

    keep_freed_memory()
    numbers = {
        "n_way": ways,
        "n_shot": shots,
        "n_distractor": distractors,
        "n_unlabeled": unlabeled,
        "n_query": queries,
    }
    shapes = asked.evaluation_shapes(read_config(run).protocol, setting, **numbers)
    with console.counting("reading and embedding") as progress:
        results = evaluate_run(
            run, shapes, split=split, n_episodes=episodes, weights=weights, method=method, root=root, progress=progress
        )
    _print(results, as_json)


def _print(results: dict[str, Result], as_json: bool) -> None:
    """Of each test setting; as JSON the first one's fields also stand alone."""
    from sala.evaluation.report import protocol_note, pseudo_label_note

    if as_json:
        everything = {name: result.to_json() for name, result in results.items()}
        print(json.dumps(next(iter(everything.values())) | {"settings": everything}))
        return
    for name, result in results.items():
        console.out.print(f"[bold]{result.interval}[/]  {escape(name)}: {protocol_note(result)}")
        if note := pseudo_label_note(result):
            console.out.print(f"  {note}")


def compare(
    runs: opt.Runs,
    split: opt.Split = "test",
    setting: opt.Setting = None,
    episodes: opt.FixedEpisodes = 1_000,
    distractors: opt.Distractors = None,
    unlabeled: opt.Unlabeled = None,
    queries: opt.Queries = None,
    root: opt.MovedRoot = None,
    as_json: opt.Json = False,
) -> None:
    """Test several runs on the same episodes: a table with the paired difference of each against the first.

    Without --setting the first test setting of the dataset is measured.

    Example: `sala compare sala-demo/protonet sala-demo/sala --distractors 5`
    """
    from sala.evaluation.report import comparison_table
    from sala.training.config import read_config

    configs = {str(run): read_config(run) for run in runs}
    _check_one_dataset({run: config.protocol.dataset for run, config in configs.items()})
    shape = asked.with_numbers(
        configs[str(runs[0])].protocol.test_shape(setting),
        n_distractor=distractors,
        n_unlabeled=unlabeled,
        n_query=queries,
    )
    results = {str(run): _result(run, shape, split, episodes, root) for run in runs}
    methods = {run: config.method for run, config in configs.items()}
    if as_json:
        print(json.dumps(_rows(results, methods)))
    else:
        console.out.print(comparison_table(results, methods))


def _result(run: Path, shape: EpisodeShape, split: str, n_episodes: int, root: Path | None) -> Result:
    """What was measured before, or is now."""
    from sala.data.memory import keep_freed_memory
    from sala.training.loading import evaluate_run, stored_result

    keep_freed_memory()
    if (stored := stored_result(run, shape, split, n_episodes)) is not None:
        return stored
    with console.counting(f"reading and embedding for {escape(str(run))}") as progress:
        return evaluate_run(run, {"": shape}, split=split, n_episodes=n_episodes, root=root, progress=progress)[""]


def _rows(results: dict[str, Result], methods: dict[str, str]) -> list[dict[str, object]]:
    base = next(iter(results.values()))
    return [
        {"run": run, "method": methods[run], **asdict(result.interval), "difference": asdict(result.minus(base))}
        for run, result in results.items()
    ]


def _check_one_dataset(datasets: dict[str, str]) -> None:
    """Refuse runs on several datasets: they have no episodes in common."""
    (first, one), *others = datasets.items()
    for run, dataset in others:
        if dataset != one:
            raise SalaError(
                f"runs are compared on the same episodes, and {run} is a run on {dataset}, {first} on {one}; "
                "compare runs on one dataset, or test each alone with `sala evaluate`"
            )

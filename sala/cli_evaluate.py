"""`sala evaluate` and `sala compare`: accuracies of runs on fixed episodes, with their intervals."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sala import console
from sala.cli_data import MovedRoot
from sala.cli_train import Distractors, Shots, Ways, with_numbers
from sala.errors import SalaError


def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder, or a run that comes with sala: omniglot-sala.")],
    split: Annotated[str, typer.Option(help="test, val or train.")] = "test",
    setting: Annotated[str | None, typer.Option(help="One of the test settings, e.g. large; all by default.")] = None,
    episodes: Annotated[int, typer.Option(help="How many fixed episodes.")] = 1_000,
    ways: Ways = None,
    shots: Shots = None,
    distractors: Distractors = None,
    unlabeled: Annotated[int | None, typer.Option(help="Unlabelled images per class (H).")] = None,
    queries: Annotated[int | None, typer.Option(help="Query images per class.")] = None,
    weights: Annotated[str, typer.Option(help="best (by validation) or last.")] = "best",
    method: Annotated[
        str | None, typer.Option(help="path/to/file.py:Class again, for a run of your own method.")
    ] = None,
    root: MovedRoot = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON, with per-episode accuracies.")
    ] = False,
) -> None:
    """Test a run: mean accuracy with its 95 % interval on fixed episodes, and how good the pseudo-labels were.

    Example: `sala evaluate runs/glyphs-sala-5way1shot-s0 --setting large --distractors 5`
    """
    from sala.report import protocol_note, pseudo_label_note
    from sala.runconfig import read_config
    from sala.trained import evaluate_run

    protocol = read_config(run).protocol
    settings = {setting: protocol.test_shape(setting)} if setting else protocol.test
    shapes = {
        name: with_numbers(
            shape, n_way=ways, n_shot=shots, n_distractor=distractors, n_unlabeled=unlabeled, n_query=queries
        )
        for name, shape in settings.items()
    }
    shapes = dict(list(shapes.items())[:1]) if len(set(shapes.values())) == 1 else shapes  # all overridden: one is left
    with console.counting("embedding") as progress:
        results = evaluate_run(
            run, shapes, split=split, n_episodes=episodes, weights=weights, method=method, root=root, progress=progress
        )
    if as_json:
        everything = {name: result.to_json() for name, result in results.items()}
        print(json.dumps(next(iter(everything.values())) | {"settings": everything}))
        return
    for name, result in results.items():
        console.out.print(f"[bold]{result.interval}[/]  {escape(name)}: {protocol_note(result)}")
        if note := pseudo_label_note(result):
            console.out.print(f"  {note}")


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; the others are compared with the first.")],
    split: Annotated[str, typer.Option(help="test, val or train.")] = "test",
    setting: Annotated[str | None, typer.Option(help="The dataset's test setting by name.")] = None,
    episodes: Annotated[int, typer.Option(help="How many fixed episodes.")] = 1_000,
    distractors: Distractors = None,
    unlabeled: Annotated[int | None, typer.Option(help="Unlabelled images per class (H).")] = None,
    queries: Annotated[int | None, typer.Option(help="Query images per class.")] = None,
    root: MovedRoot = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Test several runs on the same episodes: a table with the paired difference of each against the first.

    Example: `sala compare sala-demo/protonet sala-demo/sala --distractors 5`
    """
    from sala.report import comparison_table
    from sala.runconfig import read_config
    from sala.trained import evaluate_run, stored_result

    _check_one_dataset(runs)
    first = read_config(runs[0]).protocol
    shape = with_numbers(first.test_shape(setting), n_distractor=distractors, n_unlabeled=unlabeled, n_query=queries)
    results = {}
    for run in runs:
        stored = stored_result(run, shape, split, episodes)
        with console.counting(f"embedding for {run}") as progress:
            results[str(run)] = (
                stored
                or evaluate_run(run, {"": shape}, split=split, n_episodes=episodes, root=root, progress=progress)[""]
            )
    names = {run: read_config(run).method for run in results}
    if as_json:
        base = next(iter(results.values()))
        rows = [
            {"run": run, "method": names[run], **asdict(r.interval), "difference": asdict(r.minus(base))}
            for run, r in results.items()
        ]
        print(json.dumps(rows))
        return
    console.out.print(comparison_table(results, names))


def _check_one_dataset(runs: list[Path]) -> None:
    from sala.runconfig import read_config

    datasets = [read_config(run).protocol.dataset for run in runs]
    for run, dataset in zip(runs, datasets, strict=True):
        if dataset != datasets[0]:
            raise SalaError(
                f"runs are compared on the same episodes, and {run} is a run on {dataset}, {runs[0]} on {datasets[0]}; "
                "compare runs on one dataset, or test each alone with `sala evaluate`"
            )

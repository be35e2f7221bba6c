"""`sala evaluate` and `sala compare`: accuracies of runs and heads on fixed episodes, with their intervals."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from sala.cli import asked, console, heads
from sala.cli import options as opt
from sala.errors import SalaError

if TYPE_CHECKING:
    from sala.episodes.protocol import EpisodeShape
    from sala.evaluation.results import Result
    from sala.heads import Head


def evaluate(
    run: opt.RunOrNone = None,
    head: opt.Heads = None,
    transductive: opt.TransductiveHeads = False,
    encoder: opt.HeadEncoder = None,
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
    root: opt.RunOrFolderRoot = None,
    as_json: opt.Json = False,
) -> None:
    """Test a run: mean accuracy with its 95 % interval on fixed episodes, and how good the pseudo-labels were.

    Without --setting every test setting of the dataset is measured.

    With --head, other classifiers are tested on the embeddings of the run, on the same episodes; with --encoder and --root, on
    features of a folder of class folders.

    Example: `sala evaluate runs/glyphs-sala-5way1shot-s0 --setting large --distractors 5`

    Example: `sala evaluate --encoder lite0 --root photos --head simpleshot --head oslo --ways 5 --shots 1`
    """
    numbers = {
        "n_way": ways,
        "n_shot": shots,
        "n_distractor": distractors,
        "n_unlabeled": unlabeled,
        "n_query": queries,
    }
    heads.check([run] if run else [], encoder, root, head or [], transductive, split, setting)
    chosen = heads.opened(head) if head else {}
    if encoder is not None and root is not None:
        shape = heads.folder_shape(**numbers)
        _print_heads({"": heads.on_folder(encoder, root, shape, chosen, episodes, transductive)}, as_json)
        return
    assert run is not None
    by_setting = _of_run(run, setting, numbers, chosen, transductive, split, episodes, weights, method, root)
    if chosen:
        _print_heads(by_setting, as_json)
    else:
        _print({name: results[""] for name, results in by_setting.items()}, as_json)


def _of_run(
    run: Path,
    setting: str | None,
    numbers: dict[str, int | None],
    chosen: dict[str, Head],
    transductive: bool,
    split: str,
    episodes: int,
    weights: str,
    method: str | None,
    root: Path | None,
) -> dict[str, dict[str, Result]]:
    """By name of the setting: results of the heads, or of the run's own method under the name ""."""
    from sala.data.memory import keep_freed_memory
    from sala.training.config import read_config
    from sala.training.loading import evaluate_opened, open_run

    keep_freed_memory()
    shapes = asked.evaluation_shapes(read_config(run).protocol, setting, **numbers)
    with console.counting("reading and embedding") as progress:
        opened = open_run(run, weights=weights, method=method, root=root, progress=progress)
        if not chosen:
            own = evaluate_opened(opened, shapes, split=split, n_episodes=episodes, progress=progress)
            return {name: {"": result} for name, result in own.items()}
    return {name: heads.on_run(opened, shape, chosen, split, episodes, transductive) for name, shape in shapes.items()}


def _print_heads(by_setting: dict[str, dict[str, Result]], as_json: bool) -> None:
    """Of each test setting and head."""
    from sala.evaluation.report import inlier_note, protocol_note, pseudo_label_note

    if as_json:
        everything = {
            setting: {head: result.to_json() for head, result in results.items()}
            for setting, results in by_setting.items()
        }
        print(json.dumps({"heads": everything}))
        return
    for setting, results in by_setting.items():
        note = protocol_note(next(iter(results.values())))
        console.out.print(f"{escape(setting)}: {note}" if setting else note)
        for head, result in results.items():
            console.out.print(f"[bold]{result.interval}[/]  {head}")
            for sentence in filter(None, (pseudo_label_note(result), inlier_note(result))):
                console.out.print(f"  {sentence}")


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
    runs: opt.Runs = None,
    head: opt.Heads = None,
    transductive: opt.TransductiveHeads = False,
    encoder: opt.HeadEncoder = None,
    split: opt.Split = "test",
    setting: opt.Setting = None,
    episodes: opt.FixedEpisodes = 1_000,
    ways: opt.Ways = None,
    shots: opt.Shots = None,
    distractors: opt.Distractors = None,
    unlabeled: opt.Unlabeled = None,
    queries: opt.Queries = None,
    root: opt.RunOrFolderRoot = None,
    as_json: opt.Json = False,
) -> None:
    """Test several runs on the same episodes: a table with the paired difference of each against the first.

    Without --setting the first test setting of the dataset is measured.

    With --head, each run also has a row for each head on its embeddings. With --encoder and --root, heads are compared on
    features of a folder of class folders.

    Example: `sala compare sala-demo/protonet sala-demo/sala --distractors 5`

    Example: `sala compare omniglot-sala --head simpleshot --head tim --setting large`
    """
    from sala.evaluation.report import comparison_table

    heads.check(runs or [], encoder, root, head or [], transductive, split, setting)
    chosen = heads.opened(head) if head else {}
    numbers = {
        "n_way": ways,
        "n_shot": shots,
        "n_distractor": distractors,
        "n_unlabeled": unlabeled,
        "n_query": queries,
    }
    if encoder is not None and root is not None:
        found = heads.on_folder(encoder, root, heads.folder_shape(**numbers), chosen, episodes, transductive)
        results = {f"{encoder} + {name}": result for name, result in found.items()}
        methods = {f"{encoder} + {name}": name for name in found}
    else:
        results, methods = _of_runs(runs or [], setting, numbers, chosen, transductive, split, episodes, root)
    if as_json:
        print(json.dumps(_rows(results, methods)))
    else:
        console.out.print(comparison_table(results, methods))


def _of_runs(
    runs: list[Path],
    setting: str | None,
    numbers: dict[str, int | None],
    chosen: dict[str, Head],
    transductive: bool,
    split: str,
    episodes: int,
    root: Path | None,
) -> tuple[dict[str, Result], dict[str, str]]:
    """Results and names of methods and heads, by row of the table."""
    from sala.training.config import read_config

    configs = {str(run): read_config(run) for run in runs}
    _check_one_dataset({run: config.protocol.dataset for run, config in configs.items()})
    shape = asked.with_numbers(configs[str(runs[0])].protocol.test_shape(setting), **numbers)
    results: dict[str, Result] = {}
    methods: dict[str, str] = {}
    for run in runs:
        own, found = _result(run, shape, split, episodes, root, chosen, transductive)
        results |= {str(run): own, **{f"{run} + {name}": result for name, result in found.items()}}
        methods |= {str(run): configs[str(run)].method, **{f"{run} + {name}": name for name in found}}
    return results, methods


def _result(
    run: Path,
    shape: EpisodeShape,
    split: str,
    n_episodes: int,
    root: Path | None,
    chosen: dict[str, Head],
    transductive: bool,
) -> tuple[Result, dict[str, Result]]:
    """Of the run's own method, as measured before or now, and of the heads."""
    from sala.data.memory import keep_freed_memory
    from sala.training.loading import evaluate_opened, open_run, stored_result

    keep_freed_memory()
    own = stored_result(run, shape, split, n_episodes)
    if own is not None and not chosen:
        return own, {}
    with console.counting(f"reading and embedding for {escape(str(run))}") as progress:
        opened = open_run(run, root=root, progress=progress)
        own = own or evaluate_opened(opened, {"": shape}, split=split, n_episodes=n_episodes, progress=progress)[""]
    return own, heads.on_run(opened, shape, chosen, split, n_episodes, transductive) if chosen else {}


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

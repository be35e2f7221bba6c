"""The command line: parse, call the library, print."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import sys
import warnings
from dataclasses import asdict, replace
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from sala import cli_bench, cli_data, cli_label, cli_methods, cli_reproduce, cli_serve, console
from sala.cli_data import ImageSize, Root, SplitFile, SplitSeed, data_options
from sala.data import DATASETS
from sala.demo import demo_configs, demo_rows, run_demo
from sala.errors import SalaError
from sala.heap import keep_freed_memory
from sala.methods import plugins
from sala.protocol import PROTOCOLS, EpisodeShape, Protocol
from sala.ranks import Ranks, joined
from sala.report import comparison_table, protocol_note, pseudo_label_note
from sala.runconfig import RunConfig, read_config
from sala.runs import resume_run, start_run
from sala.train import TrainState
from sala.trained import evaluate_run, stored_result

app = typer.Typer(
    help="Semi-supervised few-shot image classification: a few labelled images, many unlabelled ones, some of them junk.\n\n"
    "Start with `sala demo`. Then `sala train`, `sala evaluate` and `sala compare`.\n\n"
    "For a folder of images of your own: `sala label`, `sala predict` and `sala serve`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.add_typer(cli_data.app, name="data")

Ways = Annotated[int | None, typer.Option(help="Classes in an episode (N).", show_default="5")]
Shots = Annotated[int | None, typer.Option(help="Labelled images per class (K).", show_default="1")]
Distractors = Annotated[
    int | None, typer.Option(help="Classes whose images are in the unlabelled set but belong to no way (C).")
]
Seed = Annotated[int, typer.Option(help="Of initial weights, training episodes and label split.")]


def main() -> None:
    keep_freed_memory()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no ± shows a question mark
    warnings.showwarning = lambda message, *_, **__: console.warn(str(message))
    try:
        app()
    except SalaError as error:
        console.fail(str(error))
    except BrokenPipeError:  # the reader has seen enough, as in `sala methods | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        place = error.filename2 or error.filename
        what = f"{place}: {error.strerror}" if place else str(error)
        console.fail(f"{what}; look whether that place exists, has room and may be written by you")


def _tell_version(wanted: bool) -> None:
    if wanted:
        console.out.print(f"sala {package_version('sala')}", markup=False, highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None:
    pass


@app.command()
def train(
    context: typer.Context,
    method: Annotated[str, typer.Option(help="A name from `sala methods`, or path/to/file.py:Class.")] = "sala",
    dataset: Annotated[str, typer.Option(help="A name from `sala data list`.")] = "glyphs",
    root: Root = None,
    image_size: ImageSize = None,
    ways: Ways = None,
    shots: Shots = None,
    distractors: Distractors = None,
    unlabeled: Annotated[int | None, typer.Option(help="Unlabelled images per class in training (H).")] = None,
    queries: Annotated[int | None, typer.Option(help="Query images per class in training.")] = None,
    labeled_share: Annotated[float | None, typer.Option(help="Labelled share of each training class.")] = None,
    episodes: Annotated[int | None, typer.Option(help="Training episodes; the default is the budget's.")] = None,
    budget: Annotated[str, typer.Option(help="cpu or paper: episodes, how often to validate, on how many.")] = "cpu",
    validate_every: Annotated[int | None, typer.Option(help="Episodes between validations.")] = None,
    seed: Seed = 0,
    backbone: Annotated[str, typer.Option(help="conv4 or resnet12.")] = "conv4",
    option: Annotated[
        list[str] | None, typer.Option("--set", help="An option of the method, name=value; repeatable.")
    ] = None,
    transductive: Annotated[
        bool, typer.Option("--transductive", help="tpn: queries see each other; the same as --set transductive=true.")
    ] = False,
    split_file: SplitFile = None,
    split_seed: SplitSeed = None,
    threads: Annotated[int, typer.Option(help="CPU threads; 0 leaves it to PyTorch.")] = 0,
    episodes_per_step: Annotated[
        int | None,
        typer.Option(
            help="Episodes whose gradients are averaged in a step.", show_default="1, or torchrun's processes"
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16 in the backbone, or auto: bfloat16 on cuda alone.")
    ] = "auto",
    out: Annotated[Path | None, typer.Option(help="Run folder; default runs/DATASET-METHOD-...")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue this run; all other options come from it.")] = None,
) -> None:
    """Train a method on a dataset. Writes a run folder; prints its path.

    Example: `sala train --dataset omniglot --root DOWNLOADS --method sala --distractors 5`
    """
    if resume is not None:
        _check_resume(resume, _said(context), method)
        with joined() as ranks, console.view(config := read_config(resume), ranks) as watch:
            state = resume_run(resume, watch, ranks)
        return _tell_end(resume, config, state, ranks)
    protocol = _protocol(dataset, ways, shots, distractors, unlabeled, queries, labeled_share)
    config = RunConfig(
        method=method,
        protocol=replace(protocol, label_split_seed=seed),
        budget=_budget(protocol, budget, episodes, validate_every),
        seed=seed,
        backbone=backbone,
        options=_options([*(option or []), *(["transductive=true"] if transductive else [])]),
        root=str(root.resolve()) if root else None,
        image_size=image_size,
        data_options=data_options(split_file, split_seed),
        threads=threads,
        device=device,
        precision=precision,
    )
    with joined() as ranks:
        config = replace(config, episodes_per_step=_given(episodes_per_step, ranks.world))
        folder = out or Path("runs") / _run_name(config)
        with console.view(config, ranks) as watch:
            state = start_run(folder, config, watch, ranks)
    return _tell_end(folder, config, state, ranks)


def _said(context: typer.Context) -> set[str]:
    """The options that the user gave, by their parameters' names."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def _check_resume(run: Path, said: set[str], method: str) -> None:
    """A run goes on as it was begun; naming its method again says that its file is trusted."""
    if others := sorted(said - {"resume", "method"}):
        word = "set" if others[0] == "option" else others[0].replace("_", "-")
        raise SalaError(f"--resume takes everything from the run; leave out --{word}, or start a new run with --out")
    if "method" in said:
        name = plugins.absolute(method) if plugins.is_file(method) else method
        if name != read_config(run).method:
            raise SalaError(f"{run} is a run of {read_config(run).method}, not of {name}; leave out --method")
        if plugins.is_file(method):
            plugins.remember(method)


def _tell_end(folder: Path, config: RunConfig, state: TrainState, ranks: Ranks) -> None:
    if state.episode < config.budget.n_episodes:
        if ranks.is_first:
            console.err.print(
                f"stopped at episode {state.episode:,}; continue with: sala train --resume {_quoted(folder)}"
            )
        raise typer.Exit(130)
    if ranks.is_first:
        console.err.print(
            f"best validation accuracy {state.best_accuracy:.2f} % at episode {state.best_episode:,}; "
            f"test it with: sala evaluate {_quoted(folder)}"
        )
        print(folder)


def _quoted(folder: Path) -> str:
    """As a shell wants it, and without markup."""
    return escape(shlex.quote(str(folder)))


def _protocol(
    dataset: str,
    ways: int | None,
    shots: int | None,
    distractors: int | None,
    unlabeled: int | None,
    queries: int | None,
    labeled_share: float | None,
) -> Protocol:
    if dataset not in PROTOCOLS:
        raise SalaError(f"there is no dataset {dataset!r}; the datasets are {', '.join(DATASETS)}")
    protocol = PROTOCOLS[dataset].with_shape(n_way=ways, n_shot=shots, n_distractor=distractors)
    training = _override(protocol.train, n_unlabeled=unlabeled, n_query=queries)
    return replace(protocol, train=training, labeled_share=_given(labeled_share, protocol.labeled_share))


def _override(shape: EpisodeShape, **numbers: int | None) -> EpisodeShape:
    return replace(shape, **{name: number for name, number in numbers.items() if number is not None})


def _budget(protocol: Protocol, name: str, episodes: int | None, validate_every: int | None) -> Any:
    budget = protocol.budget(name, episodes)
    return replace(budget, validate_every=_given(validate_every, budget.validate_every))


def _given(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _options(pairs: list[str]) -> dict[str, Any]:
    options = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            raise SalaError(f"--set wants name=value; got {pair!r}")
        options[name] = value
    return options


def _run_name(config: RunConfig) -> str:
    shape, method = config.protocol.train, Path(config.method.rpartition(":")[2]).name
    junk = f"-d{shape.n_distractor}" if shape.n_distractor else ""
    options = "".join(f"-{key}_{value}" for key, value in sorted(config.options.items()))
    steps = f"-b{config.episodes_per_step}" if config.episodes_per_step > 1 else ""
    return f"{config.protocol.dataset}-{method}-{shape.n_way}way{shape.n_shot}shot{junk}{options}{steps}-s{config.seed}"


@app.command()
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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON, with per-episode accuracies.")
    ] = False,
) -> None:
    """Test a run: mean accuracy with its 95 % interval on fixed episodes, and how good the pseudo-labels were.

    Example: `sala evaluate runs/glyphs-sala-5way1shot-s0 --setting large --distractors 5`
    """
    protocol = read_config(run).protocol
    settings = {setting: protocol.test_shape(setting)} if setting else protocol.test
    shapes = {
        name: _override(
            shape, n_way=ways, n_shot=shots, n_distractor=distractors, n_unlabeled=unlabeled, n_query=queries
        )
        for name, shape in settings.items()
    }
    shapes = dict(list(shapes.items())[:1]) if len(set(shapes.values())) == 1 else shapes  # all overridden: one is left
    with console.counting("embedding") as progress:
        results = evaluate_run(
            run, shapes, split=split, n_episodes=episodes, weights=weights, method=method, progress=progress
        )
    if as_json:
        everything = {name: result.to_json() for name, result in results.items()}
        print(json.dumps(next(iter(everything.values())) | {"settings": everything}))
        return
    for name, result in results.items():
        console.out.print(f"[bold]{result.interval}[/]  {escape(name)}: {protocol_note(result)}")
        if note := pseudo_label_note(result):
            console.out.print(f"  {note}")


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; the others are compared with the first.")],
    split: Annotated[str, typer.Option(help="test, val or train.")] = "test",
    setting: Annotated[str | None, typer.Option(help="The dataset's test setting by name.")] = None,
    episodes: Annotated[int, typer.Option(help="How many fixed episodes.")] = 1_000,
    distractors: Distractors = None,
    unlabeled: Annotated[int | None, typer.Option(help="Unlabelled images per class (H).")] = None,
    queries: Annotated[int | None, typer.Option(help="Query images per class.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Test several runs on the same episodes: a table with the paired difference of each against the first.

    Example: `sala compare sala-demo/protonet sala-demo/sala --distractors 5`
    """
    first = read_config(runs[0]).protocol
    shape = _override(first.test_shape(setting), n_distractor=distractors, n_unlabeled=unlabeled, n_query=queries)
    results = {}
    for run in runs:
        if read_config(run).protocol.dataset != first.dataset:
            raise SalaError(
                f"{run} is a run on {read_config(run).protocol.dataset}, {runs[0]} on {first.dataset}: no pairs"
            )
        stored = stored_result(run, shape, split, episodes)
        with console.counting(f"embedding for {run}") as progress:
            results[str(run)] = (
                stored or evaluate_run(run, {"": shape}, split=split, n_episodes=episodes, progress=progress)[""]
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


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where runs and report go; an earlier demo there is replaced.")] = Path(
        "sala-demo"
    ),
    episodes: Annotated[int, typer.Option(help="Training episodes of each method.")] = 2_000,
    seed: Seed = 0,
) -> None:
    """Train ProtoNet and SALA on the built-in letters, test both, write a report. About two minutes on two cores."""
    demo_configs(episodes, seed)  # numbers that cannot be are refused before an earlier demo is removed
    _make_room_for_demo(out)
    console.err.print("1. letters of many scripts (built in)   2. train two methods   3. test them   4. write a report")
    outcome = run_demo(out, episodes, seed, console.watching)
    header, rows = demo_rows(outcome.results)
    table = Table(box=None, pad_edge=False)
    for i, column in enumerate(header):
        table.add_column(column, justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    console.out.print(table)
    console.out.print(f"report with plots and pictures: {escape(str(outcome.report))}")


def _make_room_for_demo(folder: Path) -> None:
    """Remove an earlier demo, and nothing else."""
    ours = {"protonet", "sala", "report.html"}
    if folder.is_dir() and (others := {p.name for p in folder.iterdir()} - ours):
        raise SalaError(f"{folder} holds other things than a demo ({min(others)}); choose another --out")
    for method in sorted(ours - {"report.html"}):
        if (run := folder / method).exists() and not (run / "config.json").is_file():
            raise SalaError(f"{run} is not a run of an earlier demo; choose another --out")
    for method in ours - {"report.html"}:
        shutil.rmtree(folder / method, ignore_errors=True)


app.command()(cli_methods.methods)
app.command()(cli_methods.samples)
app.command()(cli_bench.bench)
app.command()(cli_reproduce.reproduce)
app.command()(cli_label.label)
app.command()(cli_label.predict)
app.command()(cli_serve.serve)

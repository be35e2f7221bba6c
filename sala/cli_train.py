"""`sala train`: a run folder from a dataset, a method and a budget."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from sala import console
from sala.cli_data import ImageSize, Root, SplitFile, SplitSeed, data_options
from sala.errors import SalaError
from sala.protocol import PROTOCOLS, EpisodeShape, Protocol

if TYPE_CHECKING:
    from sala.ranks import Ranks
    from sala.runconfig import RunConfig
    from sala.train import TrainState

Ways = Annotated[int | None, typer.Option(help="Classes in an episode (N).", show_default="5")]
Shots = Annotated[int | None, typer.Option(help="Labelled images per class (K).", show_default="1")]
Distractors = Annotated[
    int | None, typer.Option(help="Classes whose images are in the unlabelled set but belong to no way (C).")
]
Seed = Annotated[int, typer.Option(help="Of initial weights, training episodes and label split.")]


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
    resume: Annotated[
        Path | None,
        typer.Option(help="Continue this run; all other options come from it, but for --root if its data has moved."),
    ] = None,
) -> None:
    """Train a method on a dataset. Writes a run folder; prints its path.

    Example: `sala train --dataset omniglot --root DOWNLOADS --method sala --distractors 5`
    """
    from sala import watching
    from sala.ranks import joined
    from sala.runconfig import RunConfig, read_config
    from sala.runs import resume_run, start_run

    if resume is not None:
        _check_resume(resume, _said(context), method)
        with joined() as ranks, watching.view(config := read_config(resume), ranks) as watch:
            state = resume_run(resume, watch, ranks, root=root)
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
        with watching.view(config, ranks) as watch:
            state = start_run(folder, config, watch, ranks)
    return _tell_end(folder, config, state, ranks)


def _said(context: typer.Context) -> set[str]:
    """The options that the user gave, by their parameters' names."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def _check_resume(run: Path, said: set[str], method: str) -> None:
    """A run goes on as it was begun; naming its method again says that its file is trusted."""
    from sala.methods import plugins
    from sala.runconfig import read_config

    if others := sorted(said - {"resume", "method", "root"}):
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
    from sala.data import dataset_named

    protocol = PROTOCOLS[dataset_named(dataset).name].with_shape(n_way=ways, n_shot=shots, n_distractor=distractors)
    training = with_numbers(protocol.train, n_unlabeled=unlabeled, n_query=queries)
    return replace(protocol, train=training, labeled_share=_given(labeled_share, protocol.labeled_share))


def with_numbers(shape: EpisodeShape, **numbers: int | None) -> EpisodeShape:
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

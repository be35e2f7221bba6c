"""`sala train`: a run folder from a dataset, a method and a budget."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from sala.cli import asked, console
from sala.cli import options as opt
from sala.errors import SalaError

if TYPE_CHECKING:
    from sala.nn.distributed import Ranks
    from sala.training.config import RunConfig
    from sala.training.loop import TrainState


def train(
    context: typer.Context,
    method: opt.MethodName = "sala",
    dataset: opt.Dataset = "glyphs",
    root: opt.Root = None,
    image_size: opt.ImageSize = None,
    ways: opt.Ways = None,
    shots: opt.Shots = None,
    distractors: opt.Distractors = None,
    unlabeled: opt.Unlabeled = None,
    queries: opt.Queries = None,
    labeled_share: opt.LabeledShare = None,
    distance_scale: opt.DistanceScale = None,
    episodes: opt.Episodes = None,
    budget: opt.Budget = "cpu",
    validate_every: opt.ValidateEvery = None,
    seed: opt.Seed = 0,
    backbone: opt.Backbone = "conv4",
    option: opt.MethodOptions = None,
    transductive: opt.Transductive = False,
    split_file: opt.SplitFile = None,
    split_seed: opt.SplitSeed = None,
    threads: opt.Threads = 0,
    episodes_per_step: opt.EpisodesPerStep = None,
    device: opt.Device = "auto",
    precision: opt.Precision = "auto",
    out: opt.RunOut = None,
    resume: opt.Resume = None,
) -> None:
    """Train a method on a dataset. Writes a run folder; prints its path.

    Examples: `sala train --dataset omniglot --root DOWNLOADS --method sala --distractors 5`, `sala train --resume RUN`
    """
    if resume is not None:
        return _resume(resume, context, method, root)
    from sala.training.config import RunConfig

    shape = {"n_way": ways, "n_shot": shots, "n_distractor": distractors, "n_unlabeled": unlabeled, "n_query": queries}
    protocol = asked.scaled(asked.protocol(dataset, labeled_share, seed, **shape), distance_scale)
    length = asked.budget(protocol, budget, episodes, validate_every)
    options = asked.method_options(option or [], transductive)
    place = asked.data(root, image_size, split_file, split_seed)
    config = RunConfig(method, protocol, length, seed, backbone, options, threads=threads, device=device, **place)
    return _start(replace(config, precision=precision), out, episodes_per_step)


def _start(config: RunConfig, out: Path | None, episodes_per_step: int | None) -> None:
    from sala.cli.training_view import view
    from sala.nn.distributed import joined
    from sala.training.run import start_run

    with joined() as ranks:
        config = replace(config, episodes_per_step=asked.given(episodes_per_step, ranks.world))
        folder = out or Path("runs") / _run_name(config)
        with view(config, ranks) as watch:
            state = start_run(folder, config, watch, ranks)
    _tell_end(folder, config, state, ranks)


def _resume(run: Path, context: typer.Context, method: str, root: Path | None) -> None:
    from sala.cli.training_view import view
    from sala.nn.distributed import joined
    from sala.training.config import read_config
    from sala.training.run import resume_run

    _check_resume(run, _said(context), method)
    config = read_config(run)
    with joined() as ranks, view(config, ranks) as watch:
        state = resume_run(run, watch, ranks, root=root)
    _tell_end(run, config, state, ranks)


def _said(context: typer.Context) -> set[str]:
    """The options that the user gave, by their parameters' names."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def _check_resume(run: Path, said: set[str], method: str) -> None:
    """A run goes on as it was begun; naming its method again says that its file is trusted."""
    from sala.methods import plugins
    from sala.training.config import read_config

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
    is_finished, place = state.episode >= config.budget.n_episodes, escape(shlex.quote(str(folder)))
    if ranks.is_first and is_finished:
        console.err.print(
            f"best validation accuracy {state.best_accuracy:.2f} % at episode {state.best_episode:,}; "
            f"test it with: sala evaluate {place}"
        )
        print(folder)
    elif ranks.is_first:
        console.err.print(f"stopped at episode {state.episode:,}; continue with: sala train --resume {place}")
    if not is_finished:
        raise typer.Exit(130)


def _run_name(config: RunConfig) -> str:
    shape, method = config.protocol.train, Path(config.method.rpartition(":")[2]).name
    distractors = f"-d{shape.n_distractor}" if shape.n_distractor else ""
    options = "".join(f"-{key}_{value}" for key, value in sorted(config.options.items()))
    steps = f"-b{config.episodes_per_step}" if config.episodes_per_step > 1 else ""
    name = f"{config.protocol.dataset}-{method}-{shape.n_way}way{shape.n_shot}shot"
    return f"{name}{distractors}{options}{steps}-s{config.seed}"

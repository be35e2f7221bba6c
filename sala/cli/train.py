"""`sala train`: a run folder from a dataset, a method and a budget."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
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
    test_queries: opt.TestQueries = None,
    test_unlabeled: opt.TestUnlabeled = None,
    labeled_share: opt.LabeledShare = None,
    distance_scale: opt.DistanceScale = None,
    episodes: opt.Episodes = None,
    budget: opt.Budget = "cpu",
    validate_every: opt.ValidateEvery = None,
    learning_rate: opt.LearningRate = None,
    weight_decay: opt.WeightDecay = None,
    optimizer: opt.Optimizer = None,
    schedule: opt.Schedule = None,
    seed: opt.Seed = 0,
    backbone: opt.Backbone = "conv4",
    init: opt.Init = None,
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

    Examples: `sala train --dataset omniglot --root DOWNLOADS --method sala --distractors 5`, `sala train --resume RUN`,
    `sala train --resume RUN --episodes 40000`, `sala train --backbone resnet12 --optimizer sgd --learning-rate 0.05
    --schedule cosine`
    """
    if resume is not None:
        return _resume(resume, context, method, backbone, root, episodes)
    shape = asked.numbers(ways, shots, queries, unlabeled, distractors)
    protocol = asked.protocol(dataset, seed, labeled_share, distance_scale, shape)
    protocol = asked.optimized(protocol, learning_rate, weight_decay, optimizer, schedule)
    length = asked.budget(protocol, budget, episodes, validate_every)
    rest = asked.data(root, image_size, split_file, split_seed) | asked.machine(threads, device, precision)
    config = asked.run(method, option or [], transductive, protocol, length, seed, backbone, init, rest)
    return _start(config, out, episodes_per_step, (queries, unlabeled), (test_queries, test_unlabeled))


def _start(
    config: RunConfig,
    out: Path | None,
    episodes_per_step: int | None,
    train: Sequence[int | None],
    test: Sequence[int | None],
) -> None:
    """Train into a new folder. Episodes shrink to fit small classes, unless the user gives queries or unlabeled images."""
    from sala.cli.training_view import view
    from sala.nn.distributed import joined
    from sala.training.run import start_run

    with joined() as ranks:
        protocol = asked.tested_on(config.protocol, *test)
        config = replace(config, protocol=protocol, episodes_per_step=asked.given(episodes_per_step, ranks.world))
        folder = out or Path("runs") / _run_name(config)
        with view(config, ranks) as watch:
            free = [name for name, given in (("train", train), ("test", test)) if set(given) == {None}]
            state = start_run(folder, config, watch, ranks, fit=free)
    _tell_end(folder, config, state, ranks)


def _resume(
    run: Path, context: typer.Context, method: str, backbone: str, root: Path | None, episodes: int | None
) -> None:
    from sala.cli.training_view import view
    from sala.nn.distributed import joined
    from sala.training.beginning import extended
    from sala.training.config import read_config
    from sala.training.run import resume_run

    _check_resume(run, _said(context), {"method": method, "backbone": backbone})
    config = extended(read_config(run), episodes)
    with joined() as ranks, view(config, ranks) as watch:
        state = resume_run(run, watch, ranks, root=root, n_episodes=episodes)
    _tell_end(run, config, state, ranks)


def _said(context: typer.Context) -> set[str]:
    """The options that the user gave, by their parameters' names."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def _check_resume(run: Path, said: set[str], code: dict[str, str]) -> None:
    """A run goes on as it was begun; naming its method or backbone again says that the file is trusted."""
    from sala.nn import plugins
    from sala.training.config import read_config

    if others := sorted(said - {"resume", "method", "backbone", "root", "episodes"}):
        word = "set" if others[0] == "option" else others[0].replace("_", "-")
        raise SalaError(f"--resume takes everything from the run; leave out --{word}, or start a new run with --out")
    for kind in sorted(said & set(code)):
        name, own = plugins.absolute(code[kind], kind), getattr(read_config(run), kind)
        if name != own:
            raise SalaError(f"{run} is a run of {own}, not of {name}; leave out --{kind}")
        plugins.remember(name, kind)


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
    """By the decisions that differ from the defaults, so that two runs have two folders."""
    from sala.episodes.protocol import PROTOCOLS

    p, method = config.protocol, Path(config.method.rpartition(":")[2]).name
    shape, usual = p.train, PROTOCOLS[p.dataset]
    distractors = f"-d{shape.n_distractor}" if shape.n_distractor else ""
    backbone = "" if config.backbone == "conv4" else f"-{Path(config.backbone.rpartition(':')[2]).name}"
    options = "".join(f"-{key}_{value}" for key, value in sorted(config.options.items()))
    names = {"learning_rate": "lr", "weight_decay": "wd", "optimizer": "", "schedule": ""}
    changed = [name for name in names if getattr(p, name) != getattr(usual, name)]
    optimized = "".join(f"-{names[name]}{getattr(p, name)}" for name in changed)
    init = f"-from_{Path(config.init).name}" if config.init else ""
    steps = f"-b{config.episodes_per_step}" if config.episodes_per_step > 1 else ""
    name = f"{p.dataset}-{method}-{shape.n_way}way{shape.n_shot}shot"
    return f"{name}{distractors}{backbone}{options}{optimized}{init}{steps}-s{config.seed}"

"""What `sala evaluate` and `sala compare` are asked for, and the rows that come out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from sala.cli import asked, console, heads
from sala.errors import SalaError

if TYPE_CHECKING:
    from sala.episodes.protocol import EpisodeShape
    from sala.evaluation.comparison import Row
    from sala.training.config import RunConfig
    from sala.training.measured import Found, Measurement

MAX_THREADS = 1024


@dataclass(frozen=True)
class Question:
    """The options of a measurement, as they were given."""

    runs: Sequence[Path]
    heads: Sequence[str]
    transductive: bool
    encoder: str | None
    split: str
    setting: str | None
    n_episodes: int
    numbers: asked.Numbers
    seed: int | None  # of the episodes
    threads: int
    weights: str
    method: str | None
    backbone: str | None
    root: Path | None
    is_fresh: bool
    is_grouped: bool
    has_own: bool  # whether the own method of each run is measured beside the heads

    def check(self) -> None:
        """Refuse what does not go together."""
        heads.check(self.runs, self.encoder, self.root, self.heads, self.transductive, self.split, self.setting)
        if not 0 <= self.threads <= MAX_THREADS:
            raise SalaError(
                f"threads are a number from 0 (PyTorch's choice) to {MAX_THREADS}; got {self.threads} in --threads"
            )


def measure(question: Question) -> list[Row]:
    """A row for each method, or group of seeds, and head in each test setting."""
    import torch

    from sala.data.memory import keep_freed_memory

    question.check()
    keep_freed_memory()
    if question.threads:
        torch.set_num_threads(question.threads)
    return _on_folder(question) if question.encoder is not None else _on_runs(question)


def _on_folder(question: Question) -> list[Row]:
    from sala.evaluation.comparison import Row
    from sala.evaluation.seeds import SeedResults

    assert question.encoder is not None and question.root is not None
    shape, chosen = heads.folder_shape(**question.numbers), heads.opened(question.heads)
    found = heads.on_folder(
        question.encoder,
        question.root,
        shape,
        chosen,
        question.n_episodes,
        question.transductive,
        question.seed,
    )
    where = {name: f"{question.encoder} + {name}" for name in found}
    return [
        Row(where[name], name, "", SeedResults({0: result}), {0: question.encoder}, name)
        for name, result in found.items()
    ]


def _on_runs(question: Question) -> list[Row]:
    from sala.training.config import read_config

    configs = {str(run): read_config(run) for run in question.runs}
    _check_one_dataset({run: config.protocol.dataset for run, config in configs.items()})
    wanted = _wanted(question, next(iter(configs.values())))
    found = {run: _found(run, question, wanted) for run in configs}
    groups = _groups(configs, question)
    return [
        _row(group, setting, name, configs, found)
        for setting in wanted.shapes
        for group in groups
        for name in wanted.names
    ]


def _wanted(question: Question, config: RunConfig) -> Measurement:
    """What every run goes through: the test settings are those of the first one."""
    from sala.training.measured import Measurement

    shapes = asked.evaluation_shapes(config.protocol, question.setting, **question.numbers)
    return Measurement(
        _fitted(shapes, question, config),
        question.split,
        question.n_episodes,
        question.seed,
        question.weights,
        heads.opened(question.heads),
        question.transductive,
        question.has_own or not question.heads,
    )


def _fitted(shapes: dict[str, EpisodeShape], question: Question, config: RunConfig) -> dict[str, EpisodeShape]:
    """With fewer of what was not asked for, where the smallest class has too few images for the numbers that were."""
    from sala.episodes.fit import fit_rest, note_of
    from sala.training.loading import open_data

    given = [name for name, number in question.numbers.items() if number is not None]
    if not given or question.split == "train":  # a class there has a labeled and an unlabeled part
        return shapes
    try:
        store = open_data(question.runs[0], config, question.root)
    except SalaError:
        return shapes  # results may be stored; what has to be measured says what is wrong
    smallest = min(store.split(question.split), key=lambda entry: entry.count)
    fitted = {name: fit_rest(shape, smallest.count, given) for name, shape in shapes.items()}
    for name, shape in fitted.items():
        for note in note_of(f"{question.split} ({name})", "--queries and --unlabeled", shapes[name], shape, smallest):
            console.err.print(note, markup=False)
    return asked.together(fitted)


def _found(run: str, question: Question, wanted: Measurement) -> Found:
    """The results of a run; those that were stored are said to be."""
    from sala.training.loading import Again
    from sala.training.measured import measured

    def tell(n_stored: int, n_wanted: int) -> None:
        console.err.print(f"{run}: {n_stored} of {n_wanted} results were stored; --again measures anew", markup=False)

    with console.progress_bar("{task.fields[unit]}") as bar:
        return measured(
            run,
            wanted,
            again=Again(question.method, question.backbone, question.root),
            is_fresh=question.is_fresh,
            stored=tell,
            progress=heads.counter(bar, f"reading and embedding for {escape(run)}", "images"),
            episode_progress=heads.counter(bar, "classifying", "episodes"),
        )


def _groups(configs: dict[str, RunConfig], question: Question) -> list[list[str]]:
    """The runs that differ in the seed alone, together; two with one seed are apart."""
    if not question.is_grouped:
        return [[run] for run in configs]
    groups: list[list[str]] = []
    for run, config in configs.items():
        for group in groups:
            is_same = _essence(configs[group[0]], question.split) == _essence(config, question.split)
            if is_same and config.seed not in {configs[other].seed for other in group}:
                group.append(run)
                break
        else:
            groups.append([run])
    return groups


def _essence(config: RunConfig, split: str) -> RunConfig:
    """A run but for its seed, machine and the place of its data. Episodes of training classes keep their label split."""
    labels = config.protocol.label_split_seed if split == "train" else 0
    protocol = replace(config.protocol, label_split_seed=labels, budgets={})
    return replace(config, protocol=protocol, seed=0, root=None, threads=0, device="auto", precision="auto")


def _row(group: list[str], setting: str, name: str, configs: dict[str, RunConfig], found: dict[str, Found]) -> Row:
    from sala.evaluation.comparison import Row
    from sala.evaluation.seeds import SeedResults

    runs = {configs[run].seed: run for run in sorted(group, key=lambda run: configs[run].seed)}
    results = SeedResults({seed: found[run][setting][name] for seed, run in runs.items()})
    shown = together(list(runs.values()))
    return Row(f"{shown} + {name}" if name else shown, name or configs[group[0]].method, setting, results, runs, name)


def together(names: Sequence[str]) -> str:
    """Several names as one, in the way of a shell: run-s{0,1,2}."""
    if len(names) == 1:
        return names[0]
    start = _common_start(names)
    end = _common_start([name[len(start) :][::-1] for name in names])[::-1]
    middles = [name[len(start) : len(name) - len(end)] for name in names]
    return f"{start}{{{','.join(middles)}}}{end}"


def _common_start(names: Sequence[str]) -> str:
    letters = takewhile(lambda some: len(set(some)) == 1, zip(*names, strict=False))
    return "".join(some[0] for some in letters)


def _check_one_dataset(datasets: dict[str, str]) -> None:
    """Refuse runs on several datasets: they have no episodes in common."""
    (first, one), *others = datasets.items()
    for run, dataset in others:
        if dataset != one:
            raise SalaError(
                f"runs are compared on the same episodes, and {run} is a run on {dataset}, {first} on {one}; "
                "compare runs on one dataset, or test each alone with `sala evaluate`"
            )

"""Heads on the command line: where their embeddings come from, and their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.progress import Progress, TaskID

from sala.cli import asked, console
from sala.errors import SalaError

if TYPE_CHECKING:
    from sala.episodes.protocol import EpisodeShape
    from sala.evaluation.results import Result
    from sala.heads import Head


def check(
    runs: Sequence[Path],
    encoder: str | None,
    root: Path | None,
    heads: Sequence[str],
    transductive: bool,
    split: str,
    setting: str | None,
) -> None:
    """Refuse what does not go together."""
    if bool(runs) == (encoder is not None):
        raise SalaError(
            "give the folder of a run, or --encoder and --root for heads on images without one; "
            f"got {'both' if runs else 'neither'}"
        )
    if encoder is not None and root is None:
        raise SalaError("--encoder wants --root FOLDER, a folder with a folder of images for each class")
    if encoder is not None and (split != "test" or setting is not None):
        raise SalaError(
            "--encoder draws from all classes in --root, by the numbers given; leave out --split and --setting"
        )
    if not heads and (encoder is not None or transductive):
        option = "--transductive" if encoder is None else "--encoder"
        raise SalaError(f"{option} is for heads; name one with --head, from `sala methods`")


def opened(names: Sequence[str]) -> dict[str, Head]:
    """Heads by name."""
    from sala.heads import head_named

    return {name: head_named(name) for name in names}


def folder_shape(**numbers: int | None) -> EpisodeShape:
    """Of episodes from class folders: as the protocol of `folder` tests, with the numbers that are given."""
    from sala.episodes.protocol import PROTOCOLS

    return asked.with_numbers(PROTOCOLS["folder"].validation, **numbers)


def on_folder(
    which: str,
    root: Path,
    shape: EpisodeShape,
    heads: Mapping[str, Head],
    n_episodes: int,
    transductive: bool,
    seed: int | None = None,
) -> dict[str, Result]:
    """Results on features of class folders, by name of the head; `seed` draws other episodes than the fixed ones."""
    from sala.encoders import open_encoder
    from sala.encoders.folders import embed_class_folders
    from sala.episodes.protocol import TEST_SEED
    from sala.episodes.sampler import EpisodeSampler
    from sala.evaluation.heads import evaluate_heads

    with console.embedding("embedding") as progress:
        store = embed_class_folders(root, open_encoder(which), progress=progress)
    sampler = EpisodeSampler(store, shape, split="test", seed=TEST_SEED if seed is None else seed)
    with console.progress_bar("{task.fields[unit]}") as bar:
        return evaluate_heads(
            heads,
            sampler,
            n_episodes,
            transductive=transductive,
            progress=counter(bar, f"embedding for {escape(which)}", "images"),
            episode_progress=counter(bar, "classifying", "episodes"),
        )


def counter(bar: Progress, description: str, unit: str) -> Callable[[int, int], None]:
    """A line of the bar that appears when there is something to count."""
    tasks: list[TaskID] = []

    def report(done: int, total: int) -> None:
        if not tasks:
            tasks.append(bar.add_task(description, total=total or None, unit=unit))
        bar.update(tasks[0], completed=done, total=total or None)

    return report

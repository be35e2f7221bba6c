"""Results of runs, kept in their folders: what was measured before, with all that matters the same, is read."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sala.atomic import write_json
from sala.cache import cache_folder
from sala.data.files import read_text
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler
from sala.errors import SalaError
from sala.evaluation.evaluate import evaluate
from sala.evaluation.heads import evaluate_heads
from sala.evaluation.results import Result
from sala.heads import Head
from sala.methods import METHODS, plugins
from sala.nn.own import GROUP as BACKBONES
from sala.nn.plugins import code_hash
from sala.training.config import is_shipped, read_config, run_folder
from sala.training.loading import NOTHING, Again, OpenedRun, open_data, open_run
from sala.training.log import recorded_hash

Progress = Callable[[int, int], None]
Found = dict[str, dict[str, Result]]  # by name of the setting and of the head; OWN is the run's own method
OWN = ""


@dataclass(frozen=True)
class Measurement:
    """What is measured of a run: its own method, and heads on its embeddings, on episodes of each shape."""

    shapes: Mapping[str, EpisodeShape]  # by name of the test setting
    split: str = "test"
    n_episodes: int = 1_000
    seed: int | None = None  # draws the episodes; None: the fixed ones, the same for all
    weights: str = "best"
    heads: Mapping[str, Head] = field(default_factory=dict)
    transductive: bool = False  # heads: queries join the unlabeled images
    has_own: bool = True  # whether the run's own method is measured

    @property
    def names(self) -> list[str]:
        """OWN and the heads."""
        return [*([OWN] if self.has_own else []), *self.heads]


def measured(
    folder: Path | str,
    asked: Measurement,
    *,
    again: Again = NOTHING,
    is_fresh: bool = False,
    stored: Progress | None = None,
    progress: Progress | None = None,
    episode_progress: Progress | None = None,
) -> Found:
    """The results of a run. Those that are stored are read, unless they must be fresh; the others are stored.

    Each image is embedded once for all shapes and heads. `stored` is told how many results were read, and of how many.
    """
    folder = run_folder(folder)
    again.check(folder, read_config(folder))
    known: Found = {} if is_fresh else _stored(folder, asked, again, progress)
    if stored and known:
        stored(sum(map(len, known.values())), len(asked.shapes) * len(asked.names))
    if all(len(known.get(name, {})) == len(asked.names) for name in asked.shapes):
        return known
    opened = open_run(folder, weights=asked.weights, again=again, progress=progress)
    samplers = {name: opened.sampler(shape, asked.split, asked.seed) for name, shape in asked.shapes.items()}
    found = {}
    for setting, sampler in samplers.items():
        results = known.get(setting, {})
        missing = [name for name in asked.names if name not in results]
        fresh = _fresh(opened, sampler, asked, missing, progress, episode_progress)
        for name, result in fresh.items():
            key = _key(folder, asked, name, again, sampler.store.content_hash)
            _keep(_path(folder, asked, sampler.shape, name), result.to_json() | key)
        found[setting] = {name: (results | fresh)[name] for name in asked.names}
    return found


def evaluate_run(
    folder: Path | str,
    shapes: Mapping[str, EpisodeShape],
    *,
    split: str = "test",
    n_episodes: int = 1_000,
    root: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Result]:
    """The results of a run's own method on the fixed episodes of a split, by name of the shape."""
    found = measured(folder, Measurement(shapes, split, n_episodes), again=Again(root=root), progress=progress)
    return {setting: results[OWN] for setting, results in found.items()}


def _fresh(
    run: OpenedRun,
    sampler: EpisodeSampler,
    asked: Measurement,
    names: list[str],
    progress: Progress | None,
    episode_progress: Progress | None,
) -> dict[str, Result]:
    """Measured now, on one list of episodes."""
    trained, results = run.embeddings.method, {}
    # the test's: with distractors half of the unlabeled images
    trained.selection_share = sampler.shape.selection_share
    with nullcontext() if run.method in METHODS else plugins.blaming(trained, run.method):
        if OWN in names:
            results[OWN] = evaluate(trained, sampler, asked.n_episodes, progress=progress, embeddings=run.embeddings)
        heads = {name: asked.heads[name] for name in names if name != OWN}
        if heads:
            results |= evaluate_heads(
                heads,
                sampler,
                asked.n_episodes,
                transductive=asked.transductive,
                progress=progress,
                episode_progress=episode_progress,
                embeddings=run.embeddings,
            )
    return results


def _stored(folder: Path, asked: Measurement, again: Again, progress: Progress | None) -> Found:
    """What the folder has of it, measured with the same weights, data, code and settings."""
    paths = {
        (setting, name): path
        for setting, shape in asked.shapes.items()
        for name in asked.names
        if (path := _path(folder, asked, shape, name)).is_file()
    }
    if not paths:
        return {}
    data_hash, found = _data_hash(folder, again.root, progress), Found()
    for (setting, name), path in paths.items():
        key = _key(folder, asked, name, again, data_hash)
        result = _read(path, key, asked.shapes[setting], asked)
        if result is not None:
            found.setdefault(setting, {})[name] = result
    return found


def _read(path: Path, key: Mapping[str, Any], shape: EpisodeShape, asked: Measurement) -> Result | None:
    try:
        content = json.loads(read_text(path))
        result = Result.from_json(content)
        is_whole = len(result.accuracies) == asked.n_episodes and all(0 <= share <= 1 for share in result.accuracies)
        is_same = all(content.get(name) == value for name, value in key.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SalaError):
        return None  # damaged, or of another version: it is measured again
    return result if is_whole and is_same and (result.shape, result.split) == (shape, asked.split) else None


def _key(folder: Path, asked: Measurement, name: str, again: Again, data_hash: str) -> dict[str, Any]:
    """All that a result depends on beside shape, split and number of episodes; kept with it."""
    config = read_config(folder)
    return {
        "weights": asked.weights,
        "weights_hash": _digest(folder / f"{asked.weights}.safetensors"),
        "config_hash": _digest(folder / "config.json"),
        "method": config.method,
        "method_hash": code_hash(again.method or config.method, plugins.GROUP),
        "backbone_hash": code_hash(again.backbone or config.backbone, BACKBONES),
        "head": repr(asked.heads[name]) if name != OWN else None,
        "transductive": asked.transductive and name != OWN,
        "data_hash": data_hash,
        "seed": asked.seed,
        "version": version("sala"),
    }


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _data_hash(folder: Path, root: Path | None, progress: Progress | None) -> str:
    """Of the data as it is now; where it is not at hand, of that which the run was started on."""
    try:
        return open_data(folder, read_config(folder), root, progress).content_hash
    except SalaError:
        if root is not None:
            raise
        return recorded_hash(folder)


def _path(folder: Path, asked: Measurement, shape: EpisodeShape, name: str) -> Path:
    s, seed = shape, "" if asked.seed is None else f"-s{asked.seed}"
    numbers = f"{asked.split}-N{s.n_way}-K{s.n_shot}-Q{s.n_query}-H{s.n_unlabeled}-C{s.n_distractor}-{asked.n_episodes}"
    head = f"-{name}{'-transductive' * asked.transductive}" if name != OWN else ""
    place = cache_folder() / "results" / folder.name if is_shipped(folder) else folder / "results"
    return place / f"{numbers}{seed}-{asked.weights}{head}.json"


def _keep(path: Path, content: dict[str, Any]) -> None:
    """A run of someone else, or on a read-only disk, is measured all the same."""
    with suppress(PermissionError):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, content)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise

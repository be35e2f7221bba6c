"""Finished runs: the trained method, and its results kept in the run folder."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any

from sala.atomic import write_json
from sala.data import ImageStore
from sala.data.files import read_text
from sala.episodes.protocol import EpisodeShape
from sala.episodes.sampler import EpisodeSampler, fixed_sampler
from sala.errors import SalaError
from sala.evaluation.embeddings import Embeddings
from sala.evaluation.evaluate import evaluate
from sala.evaluation.results import Result
from sala.methods import METHODS, Method, method_class, method_options, plugins
from sala.training.checkpoint import load_checkpoint, load_weights
from sala.training.config import RunConfig, is_shipped, read_config, run_folder
from sala.training.log import recorded_hash


def load(folder: Path | str, *, weights: str = "best", method: type[Method] | str | None = None) -> Method:
    """The trained method of a run, in evaluation mode.

    Parameters
    ----------
    folder : path or str
        A run folder, or the name of a run that comes with the package.
    weights : {"best", "last"}, default "best"
        Those of the best validation, or of the last checkpoint.
    method : class or str, optional
        The method again, where it is a file that has not been used on this machine before.

    Returns
    -------
    Method
        On the CPU; `method.classify(task)` gives class scores.

    Raises
    ------
    SalaError
        If the folder is not a run, has no such weights, or is of another version.

    Examples
    --------
    >>> import sala, torch
    >>> method = sala.load("omniglot-sala")
    >>> method.embed_images(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 64])
    """
    folder = run_folder(folder)
    config = read_config(folder)
    if weights not in ("best", "last"):
        raise SalaError(f"weights are best (by validation) or last; got {weights!r}")
    path = Path(folder) / f"{weights}.safetensors"
    if weights == "best" and not path.is_file():
        path = Path(folder) / "last.safetensors"
    tensors, note = load_checkpoint(path)
    if path.stem != weights and note.get("best_episode"):
        raise SalaError(
            f"{folder} has lost its best.safetensors; restore it, or take the last weights with --weights last"
        )
    cls = _trusted_class(config, method)
    _check_options(folder, config, cls)
    built = config.build_method(_image_shape(path, note), cls)
    load_weights(path, built, tensors)
    return built.eval()


def _check_options(folder: Path, config: RunConfig, cls: type[Method]) -> None:
    if unknown := sorted(set(config.options) - set(method_options(cls))):
        raise SalaError(
            f"{folder}/config.json was made by another version of {cls.__name__}: the method has no option "
            f"{', '.join(unknown)} now; use the version of sala that manifest.json names, or train again"
        )


def _image_shape(path: Path, note: Mapping[str, Any]) -> tuple[int, int, int]:
    try:
        height, width, channels = (range(1, 1025)[index(n) - 1] for n in note["image_shape"])
    except (KeyError, ValueError, TypeError, IndexError):
        raise SalaError(f"{path} does not say for which images it is; it was not written by `sala train`") from None
    return height, width, channels


def _trusted_class(config: RunConfig, method: type[Method] | str | None) -> type[Method]:
    if isinstance(method, str):
        if plugins.is_file(method):
            plugins.remember(method)
        return method_class(method)
    if method is not None:
        return method
    if plugins.is_file(config.method):
        plugins.check_known(config.method)
    return method_class(config.method)


def _check_same_method(folder: Path, config: RunConfig, method: str | None) -> None:
    """Results are kept as the run's own: a file may have moved or changed, but it is not another method's."""
    if method and method.rpartition(":")[2] != config.method.rpartition(":")[2]:
        raise SalaError(f"{folder} is a run of {config.method}, not of {method}; leave out --method")


def evaluate_run(
    folder: Path | str,
    shapes: Mapping[str, EpisodeShape],
    *,
    split: str = "test",
    n_episodes: int = 1_000,
    weights: str = "best",
    method: str | None = None,
    root: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Result]:
    """The results of a run on the fixed episodes of a split, by name of the shape; they are kept in its folder too.

    Each image is embedded once for all shapes. `root` is where the run's data is now, if it has moved.
    """
    opened = open_run(folder, weights=weights, method=method, root=root, progress=progress)
    return evaluate_opened(opened, shapes, split=split, n_episodes=n_episodes, progress=progress)


@dataclass(frozen=True)
class OpenedRun:
    """A trained run and its data, with what is embedded already."""

    folder: Path
    config: RunConfig
    weights: str
    method: str  # what the user calls it
    embeddings: Embeddings

    def sampler(self, shape: EpisodeShape, split: str) -> EpisodeSampler:
        """Of the fixed episodes of a split."""
        return fixed_sampler(self.embeddings.store, shape, split, self.config.protocol)


def open_run(
    folder: Path | str,
    *,
    weights: str = "best",
    method: str | None = None,
    root: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> OpenedRun:
    """A run and its images, of which none is embedded yet."""
    folder = run_folder(folder)
    config = read_config(folder)
    _check_same_method(folder, config, method)
    trained = load(folder, weights=weights, method=method)
    store = open_data(folder, config, root, progress)
    if store.image_shape != trained.backbone.image_shape:
        raise SalaError(
            f"{folder} was trained on images of {trained.backbone.image_shape}, and {store.name} has {store.image_shape}"
        )
    return OpenedRun(folder, config, weights, method or config.method, Embeddings(trained, store))


def evaluate_opened(
    run: OpenedRun,
    shapes: Mapping[str, EpisodeShape],
    *,
    split: str = "test",
    n_episodes: int = 1_000,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Result]:
    """The results of the run's own method, by name of the shape, kept in its folder."""
    trained, samplers = run.embeddings.method, {name: run.sampler(shape, split) for name, shape in shapes.items()}
    results = {}
    for name, sampler in samplers.items():
        trained.selection_share = (
            sampler.shape.selection_share
        )  # the test's: with distractors half of the unlabeled images
        with nullcontext() if run.method in METHODS else plugins.blaming(trained, run.method):
            results[name] = evaluate(trained, sampler, n_episodes, progress=progress, embeddings=run.embeddings)
        note = {"weights": run.weights, "method": run.config.method, "data_hash": sampler.store.content_hash}
        path = result_path(run.folder, sampler.shape, split, n_episodes, run.weights)
        with suppress(PermissionError):  # someone else's run: it is measured, and not written to
            if not is_shipped(run.folder):
                _keep(path, results[name].to_json() | note)
    return results


def open_data(
    folder: Path, config: RunConfig, root: Path | None, progress: Callable[[int, int], None] | None = None
) -> ImageStore:
    """The images of a run; those of another `root` must be the same ones. `progress` is told where they are read anew."""
    if root is None:
        return config.open_store(progress)
    store = replace(config, root=str(root.resolve())).open_store(progress)
    if store.content_hash != (recorded := recorded_hash(folder)):
        raise SalaError(
            f"{root} holds other data than {folder} was trained on (hash {store.content_hash[:12]}, recorded "
            f"{recorded[:12]}); give the folder with the data of the run"
        )
    return store


def stored_result(
    folder: Path, shape: EpisodeShape, split: str, n_episodes: int, weights: str = "best"
) -> Result | None:
    """An earlier evaluation of the run's present weights on these very episodes."""
    path = result_path(folder, shape, split, n_episodes, weights)
    trained = folder / f"{weights}.safetensors"
    if not path.is_file() or not trained.is_file() or path.stat().st_mtime < trained.stat().st_mtime:
        return None
    try:
        result = Result.from_json(json.loads(read_text(path)))
        is_whole = len(result.accuracies) == n_episodes and all(0 <= share <= 1 for share in result.accuracies)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SalaError):
        return None  # damaged, or of another version: it is measured again
    return result if is_whole and (result.shape, result.split) == (shape, split) else None


def result_path(folder: Path, shape: EpisodeShape, split: str, n_episodes: int, weights: str) -> Path:
    s = shape
    name = f"{split}-N{s.n_way}-K{s.n_shot}-Q{s.n_query}-H{s.n_unlabeled}-C{s.n_distractor}-{n_episodes}-{weights}.json"
    return folder / "results" / name


def _keep(path: Path, content: dict[str, Any]) -> None:
    """A run on a read-only disk is measured all the same."""
    try:
        path.parent.mkdir(exist_ok=True)
        write_json(path, content)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise

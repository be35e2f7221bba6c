"""Finished runs: the trained method, and its results kept in the run folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from sala.backbones import build_backbone
from sala.checkpoint import load_checkpoint, write_json
from sala.evaluate import Embeddings, Result, evaluate
from sala.methods import Method, build_method, method_class, plugins
from sala.protocol import EpisodeShape
from sala.runs import OPTIMIZER, RunConfig, read_config
from sala.sampler import fixed_sampler


def load(folder: Path | str, *, weights: str = "best", method: type[Method] | str | None = None) -> Method:
    """The trained method of a run, in evaluation mode. `method` names the class again where the run's own is a file
    that has not been used on this machine before."""
    config = read_config(folder)
    path = Path(folder) / f"{weights}.safetensors"
    if weights == "best" and not path.is_file():
        path = Path(folder) / "last.safetensors"
    tensors, note = load_checkpoint(path)
    built = build_method(
        _trusted_class(config, method),
        build_backbone(config.backbone, tuple(note["image_shape"])),
        config.options,
        selection_share=config.protocol.train.selection_share,
    )
    built.load_state_dict({name: tensor for name, tensor in tensors.items() if not name.startswith(OPTIMIZER)})
    return built.eval()


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


def evaluate_run(
    folder: Path | str,
    shapes: Mapping[str, EpisodeShape],
    *,
    split: str = "test",
    n_episodes: int = 1_000,
    weights: str = "best",
    method: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Result]:
    """Measure a run on the fixed episodes of a split, in one or more shapes, and keep the results in its folder. Each
    image is embedded once for all of them."""
    folder, config = Path(folder), read_config(folder)
    trained = load(folder, weights=weights, method=method)
    samplers = {
        name: fixed_sampler(config.open_store(), shape, split, config.protocol) for name, shape in shapes.items()
    }
    embeddings = Embeddings(trained, config.open_store())
    results = {}
    for name, sampler in samplers.items():
        trained.selection_share = (
            sampler.shape.selection_share
        )  # the test's: with distractors half of the unlabelled set
        results[name] = evaluate(trained, sampler, n_episodes, progress=progress, embeddings=embeddings)
        note = {"weights": weights, "method": config.method, "data_hash": sampler.store.content_hash}
        path = result_path(folder, sampler.shape, split, n_episodes, weights)
        path.parent.mkdir(exist_ok=True)
        write_json(path, results[name].to_json() | note)
    return results


def stored_result(
    folder: Path, shape: EpisodeShape, split: str, n_episodes: int, weights: str = "best"
) -> Result | None:
    """An earlier evaluation of the run's present weights on these very episodes."""
    path = result_path(folder, shape, split, n_episodes, weights)
    trained = folder / f"{weights}.safetensors"
    if not path.is_file() or not trained.is_file() or path.stat().st_mtime < trained.stat().st_mtime:
        return None
    try:
        return Result.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (json.JSONDecodeError, KeyError, TypeError):
        return None  # damaged, or of another version: it is measured again


def result_path(folder: Path, shape: EpisodeShape, split: str, n_episodes: int, weights: str) -> Path:
    s = shape
    name = f"{split}-N{s.n_way}-K{s.n_shot}-Q{s.n_query}-H{s.n_unlabeled}-C{s.n_distractor}-{n_episodes}-{weights}.json"
    return folder / "results" / name

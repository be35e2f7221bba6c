"""Measurement: a method and a sampler in, a `Result` out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sala.data import FeatureStore, ImageStore
from sala.episodes.sampler import EpisodeSampler
from sala.episodes.source import Episodes
from sala.episodes.task import Episode
from sala.errors import SalaError, at_least
from sala.evaluation.batching import answers_of, in_parts
from sala.evaluation.embeddings import Embeddings, embedded_episodes
from sala.evaluation.own_episodes import OwnEpisodes
from sala.evaluation.results import Result
from sala.methods import Method
from sala.methods.base import image_shape_of
from sala.methods.entry import trusted
from sala.nn.backbones import Identity

Array = NDArray[Any]


def evaluate(
    method: Method,
    sampler: EpisodeSampler | Episodes,
    n_episodes: int = 1_000,
    *,
    progress: Callable[[int, int], None] | None = None,
    embeddings: Embeddings | None = None,
) -> Result:
    """The accuracy of a method on episodes 0 .. n - 1 of a sampler. Every image is embedded once.

    Parameters
    ----------
    method : Method
        Trained or not; `sala.load` opens a trained one.
    sampler : EpisodeSampler or object with `episode(i)`
        Draws the episodes: the same ones for every method. An object of your own returns an `Episode` for each number; its
        images are embedded episode by episode.
    n_episodes : int, default 1000
        More episodes make a narrower interval.
    progress : callable, optional
        Called with the number of images embedded so far and in all; of episodes, where they are of an object of your own.
    embeddings : Embeddings, optional
        Of this method and store; several calls that are handed the same one share what is embedded already.

    Returns
    -------
    Result
        One accuracy per episode, the quality of the pseudo-labels, and the method's diagnostics.

    Examples
    --------
    >>> import sala
    >>> store = sala.load_dataset("glyphs")
    >>> sampler = sala.EpisodeSampler(store, sala.EpisodeShape(n_query=5), split="test", seed=0)
    >>> method = sala.build_method("protonet", sala.build_backbone("conv4", store.image_shape))
    >>> len(sala.evaluate(method, sampler, n_episodes=4).accuracies)
    4
    """
    at_least(1, n_episodes, "the number of episodes")
    if isinstance(sampler, EpisodeSampler):
        _check_fits(method, sampler.store)
        known = embeddings or Embeddings(method, sampler.store)
        batches = embedded_episodes(known, sampler, n_episodes, progress=progress)
        return _result(_columns(method, in_parts(method, batches)), sampler)
    own = OwnEpisodes(method, sampler, n_episodes)
    return _result(_columns(method, own.embedded(progress)), own)


def _result(columns: dict[str, Array], drawn: EpisodeSampler | OwnEpisodes) -> Result:
    accuracies = tuple(map(float, columns.pop("accuracy")))
    diagnostics = {key[1:]: float(np.mean(columns.pop(key))) for key in list(columns) if key.startswith("@")}
    return Result(accuracies, drawn.shape, drawn.split, drawn.identity, pseudo_label_quality(columns), diagnostics)


def _columns(method: Method, parts: Iterable[Episode]) -> dict[str, Array]:
    """What `_measure` finds, over all episodes. The method is in evaluation mode meanwhile."""
    was_training = method.training
    method.eval()
    try:
        with torch.inference_mode(), trusted(method):  # a sampler's tasks are right by construction
            measured = [_measure(method, part) for part in parts]
    finally:
        method.train(was_training)
    return {key: np.concatenate([m[key] for m in measured]) for key in measured[0]}


def _check_fits(method: Method, store: ImageStore | FeatureStore) -> None:
    takes: tuple[int, ...] | None = image_shape_of(method)
    if takes is None and isinstance(method.backbone, Identity):
        takes = (method.backbone.out_dim,)
    has = store.item_shape
    if takes is not None and takes != has:
        repair = "sala.Identity(store.width)"
        if len(has) > 1:
            repair = "sala.build_backbone(..., store.image_shape), or load the dataset in that size"
        raise SalaError(
            f"{type(method).__name__} takes {_kind(takes)}, and {store.name} has {_kind(has)}; build it on {repair}"
        )


def _kind(shape: tuple[int, ...]) -> str:
    return f"features [d] = {list(shape)}" if len(shape) == 1 else f"images [H, W, C] = {list(shape)}"


def _measure(method: Method, episodes: Episode) -> dict[str, Array]:
    """One number an episode: the accuracy, and counts of what was selected; `@` marks a batch's diagnostics."""
    task = episodes.task
    logits, labels = answers_of(method, task)
    if bool(logits.isnan().any()):
        raise SalaError(
            f"{type(method).__name__} gave class scores that are not a number; look at its options, or train it with a lower "
            "learning rate"
        )
    right = logits.argmax(-1) == episodes.query_labels
    measured = {"accuracy": right.double().mean(-1)}
    if labels is not None:
        truth, selected = episodes.unlabeled_labels, labels.selected
        correct = labels.probabilities.argmax(-1) == truth
        measured["unlabeled"] = torch.full_like(measured["accuracy"], truth.shape[-1])
        measured["selected"] = selected.sum(-1)
        measured["correct"] = (correct & selected).sum(-1)
        measured["distractors"] = ((truth < 0) & selected).sum(-1)
    numbers = {key: value.cpu().numpy().reshape(-1) for key, value in measured.items()}  # also of a single episode
    diagnostics = method.diagnostics(task)
    if method.n_extra:  # as if there were no "none of them"
        among = logits[..., : task.n_way].argmax(-1) == episodes.query_labels
        diagnostics["accuracy_among_classes"] = 100 * among.double().mean().item()
    return numbers | {f"@{key}": np.array([value]) for key, value in diagnostics.items()}


def pseudo_label_quality(counts: dict[str, Array]) -> dict[str, float]:
    """How good the pseudo-labels were, over all selected images of all episodes, in percent.

    `accuracy` counts a selected distractor as wrong: there is no right label for it.
    """
    if not counts or not counts["selected"].sum():
        return {}
    selected = counts["selected"].sum()
    return {
        "selected": float(100 * selected / counts["unlabeled"].sum()),
        "accuracy": float(100 * counts["correct"].sum() / selected),
        "distractors": float(100 * counts["distractors"].sum() / selected),
    }

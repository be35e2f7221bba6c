"""Measurement: a method and a sampler in, a `Result` out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sala.data import FeatureStore, ImageStore
from sala.episodes.sampler import EpisodeSampler
from sala.episodes.task import Episode
from sala.errors import SalaError, at_least
from sala.evaluation.batching import answers_of, in_parts
from sala.evaluation.embeddings import Embeddings, embedded_episodes
from sala.evaluation.results import Result
from sala.methods import Method
from sala.methods.base import image_shape_of
from sala.methods.entry import trusted

Array = NDArray[Any]


def evaluate(
    method: Method,
    sampler: EpisodeSampler,
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
    sampler : EpisodeSampler
        Draws the episodes: the same ones for every method.
    n_episodes : int, default 1000
        More episodes make a narrower interval.
    progress : callable, optional
        Called with the number of images embedded so far and in all.
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
    _check_fits(method, sampler.store)
    batches = embedded_episodes(embeddings or Embeddings(method, sampler.store), sampler, n_episodes, progress=progress)
    columns = _columns(method, batches)
    accuracies = tuple(map(float, columns.pop("accuracy")))
    diagnostics = {key[1:]: float(np.mean(columns.pop(key))) for key in list(columns) if key.startswith("@")}
    return Result(
        accuracies, sampler.shape, sampler.split, sampler.identity, pseudo_label_quality(columns), diagnostics
    )


def _columns(method: Method, batches: Iterator[Episode]) -> dict[str, Array]:
    """What `_measure` finds, over all episodes. The method is in evaluation mode meanwhile."""
    was_training = method.training
    method.eval()
    try:
        with torch.inference_mode(), trusted(method):  # a sampler's tasks are right by construction
            measured = [_measure(method, part) for part in in_parts(method, batches)]
    finally:
        method.train(was_training)
    return {key: np.concatenate([m[key] for m in measured]) for key in measured[0]}


def _check_fits(method: Method, store: ImageStore | FeatureStore) -> None:
    shape = image_shape_of(method)
    if shape is not None and shape != store.image_shape:
        has, repair = "features", "build it on sala.Identity"
        if store.image_shape is not None:
            has = str(list(store.image_shape))
            repair = "build its backbone for store.image_shape, or load the dataset in that size"
        raise SalaError(
            f"{type(method).__name__} takes images [H, W, C] = {list(shape)}, and {store.name} has {has}; {repair}"
        )


def _measure(method: Method, episodes: Episode) -> dict[str, Array]:
    """One number an episode: the accuracy, and counts of what was selected; `@` marks a batch's diagnostics."""
    task = episodes.task
    logits, labels = answers_of(method, task)
    if bool(logits.isnan().any()):
        raise SalaError(
            f"{type(method).__name__} gave class scores that are not a number; look at its weights and options"
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

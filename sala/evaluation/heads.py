"""Measurement of heads: each on the same embedded episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sala.data import FeatureStore
from sala.episodes.sampler import EpisodeSampler
from sala.episodes.task import Episode
from sala.errors import SalaError, at_least
from sala.evaluation.batching import episode_of
from sala.evaluation.embeddings import Embeddings, embedded_episodes
from sala.evaluation.evaluate import pseudo_label_quality
from sala.evaluation.results import Result
from sala.heads import Head
from sala.methods import Method, build_method
from sala.nn.backbones import Identity

Progress = Callable[[int, int], None]


def evaluate_heads(
    heads: Mapping[str, Head],
    sampler: EpisodeSampler,
    n_episodes: int = 1_000,
    *,
    method: Method | None = None,
    transductive: bool = False,
    progress: Progress | None = None,
    episode_progress: Progress | None = None,
    embeddings: Embeddings | None = None,
) -> dict[str, Result]:
    """The accuracies of heads on episodes 0 .. n - 1 of a sampler, on the embeddings of one network.

    Every image is embedded once for all heads. The results compare, pair by pair, with those of `sala.evaluate` on the same
    sampler.

    Parameters
    ----------
    heads : mapping of str to Head
        By any name.
    sampler : EpisodeSampler
        Draws the episodes, from images or from features (`sala.FeatureStore`).
    n_episodes : int, default 1000
        More episodes make a narrower interval.
    method : Method, optional
        Whose backbone embeds the images; left out where the store has features.
    transductive : bool, default False
        Whether the queries of an episode join its unlabeled images. By default each query is classified on its own.
    progress : callable, optional
        Called with the number of images embedded so far and in all.
    episode_progress : callable, optional
        Called with the number of episodes classified so far and in all.
    embeddings : Embeddings, optional
        Of this method and store, shared with other calls.

    Returns
    -------
    dict of str to Result
        By name of the head. A head with inlier scores has the diagnostic `inlier_auroc`, in percent, where there are
        distractors.

    Examples
    --------
    >>> import sala
    >>> store = sala.load_dataset("glyphs")
    >>> sampler = sala.EpisodeSampler(store, sala.EpisodeShape(n_query=5), split="test", seed=0)
    >>> heads = {name: sala.HEADS[name]() for name in ("simpleshot", "tim")}
    >>> results = sala.evaluate_heads(heads, sampler, n_episodes=4, method=sala.load("omniglot-sala"))
    >>> {name: len(result.accuracies) for name, result in results.items()}
    {'simpleshot': 4, 'tim': 4}
    """
    at_least(1, n_episodes, "the number of episodes")
    embeddings = embeddings or Embeddings(method or _identity(sampler), sampler.store)
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in heads}
    for i, episode in enumerate(_episodes(embeddings, sampler, n_episodes, progress)):
        for name, head in heads.items():
            measured[name].append(_measure(head, name, episode, transductive))
        if episode_progress:
            episode_progress(i + 1, n_episodes)
    return {name: _result(rows, sampler) for name, rows in measured.items()}


def _identity(sampler: EpisodeSampler) -> Method:
    if not isinstance(sampler.store, FeatureStore):
        raise SalaError(f"{sampler.store.name} has images; say whose backbone embeds them, with `method`")
    return build_method("protonet", Identity(sampler.store.width))


def _episodes(
    embeddings: Embeddings, sampler: EpisodeSampler, n_episodes: int, progress: Progress | None
) -> Iterator[Episode]:
    """Embedded episodes, one by one. The method is in evaluation mode meanwhile."""
    method, was_training = embeddings.method, embeddings.method.training
    method.eval()
    try:
        with torch.inference_mode():
            for batch in embedded_episodes(embeddings, sampler, n_episodes, progress=progress):
                yield from (episode_of(batch, i) for i in range(len(batch.query_labels)))
    finally:
        method.train(was_training)


def _measure(head: Head, name: str, episode: Episode, transductive: bool) -> dict[str, float]:
    """The accuracy, and counts of pseudo-labels as of a method: those of images that the head takes for inliers."""
    queries, unlabeled = head.answers(episode.task, transductive=transductive)
    if bool(queries.log_probabilities.isnan().any()):
        raise SalaError(f"the head {name} gave class scores that are not a number; look at the embeddings")
    right = queries.log_probabilities.argmax(-1) == episode.query_labels
    measured = {"accuracy": float(right.double().mean())}
    truth = episode.unlabeled_labels
    if not head.uses_unlabeled or not len(truth):
        return measured
    selected = torch.ones_like(truth, dtype=torch.bool) if unlabeled.inlier is None else unlabeled.inlier > 0.5
    correct = unlabeled.log_probabilities.argmax(-1) == truth
    counts = {"selected": selected, "correct": correct & selected, "distractors": (truth < 0) & selected}
    measured |= {"unlabeled": float(len(truth)), **{key: float(which.sum()) for key, which in counts.items()}}
    if unlabeled.inlier is not None and bool((truth < 0).any()):
        measured["@inlier_auroc"] = 100 * auroc(unlabeled.inlier.cpu().numpy(), (truth >= 0).cpu().numpy())
    return measured


def auroc(scores: NDArray[Any], is_positive: NDArray[np.bool_]) -> float:  # [n], [n]
    """The probability that a positive has a higher score than a negative; ties count half."""
    difference = scores[is_positive][:, None] - scores[~is_positive]
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


def _result(rows: list[dict[str, float]], sampler: EpisodeSampler) -> Result:
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    accuracies = tuple(columns.pop("accuracy").tolist())
    diagnostics = {key[1:]: float(columns.pop(key).mean()) for key in list(columns) if key.startswith("@")}
    return Result(
        accuracies, sampler.shape, sampler.split, sampler.identity, pseudo_label_quality(columns), diagnostics
    )

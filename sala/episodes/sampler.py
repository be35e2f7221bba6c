"""Episodes from a store: episode i is a pure function of (seed, i)."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sala.data.features import FeatureStore
from sala.data.store import ClassEntry, ImageStore
from sala.episodes.protocol import TEST_SEED, VALIDATION_SEED, EpisodeShape, Protocol
from sala.episodes.task import Episode, Task
from sala.errors import SalaError, at_least

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class EpisodeRows:
    """An episode, or a batch of them, as rows of the store: what is drawn before any image is touched."""

    support: Rows  # [..., S]
    labels: Rows  # [..., S]
    unlabeled: Rows  # [..., M]
    unlabeled_labels: Rows  # [..., M]; -1 marks a distractor
    query: Rows  # [..., Q]
    query_labels: Rows  # [..., Q]

    def __getitem__(self, which: int | slice) -> EpisodeRows:
        """One episode of a batch, or some."""
        return EpisodeRows(**{field.name: getattr(self, field.name)[which] for field in fields(self)})

    @property
    def images(self) -> Rows:
        """The rows of all images: support, query, unlabeled, `[..., S + Q + M]`."""
        return np.concatenate([self.support, self.query, self.unlabeled], axis=-1)


class EpisodeSampler:
    """Draws N-way K-shot episodes with unlabeled images and distractor classes from one split of a store.

    Episode i is a pure function of the seed and i. With a `labeled_share` (training classes), each class is divided once, by
    `label_split_seed`: support and query come from the labeled part, unlabeled images from the rest. Without one (validation
    and test classes), an episode's three sets are drawn from all images of a class. They never share an image.

    Parameters
    ----------
    store : ImageStore or FeatureStore
        The dataset, from `sala.load_dataset`; or features by class.
    shape : EpisodeShape
        Ways, shots, queries, unlabeled images and distractors of an episode.
    split : str
        The split of the classes: "train", "val" or "test".
    seed : int
        Which list of episodes.
    labeled_share : float, optional
        The share of each class that has labels.
    label_split_seed : int, default 0
        Which images of a class have labels, where there is a `labeled_share`.

    Raises
    ------
    SalaError
        If the split has too few classes, or a class too few images, for the shape.

    Examples
    --------
    >>> import sala
    >>> store = sala.load_dataset("glyphs")
    >>> shape = sala.EpisodeShape(n_way=5, n_shot=1, n_query=3, n_unlabeled=4)
    >>> sampler = sala.EpisodeSampler(store, shape, split="test", seed=7)
    >>> task = sampler[0].task
    >>> task.support.shape, task.unlabeled.shape
    (torch.Size([5, 1, 28, 28]), torch.Size([20, 1, 28, 28]))
    """

    def __init__(
        self,
        store: ImageStore | FeatureStore,
        shape: EpisodeShape,
        *,
        split: str,
        seed: int,
        labeled_share: float | None = None,
        label_split_seed: int = 0,
    ):
        self.store, self.shape, self.seed, self.split = store, shape, seed, split
        self._label_split = None if labeled_share is None else (labeled_share, label_split_seed)
        classes = store.split(split)
        if labeled_share is None:
            everything = [np.arange(entry.start, entry.start + entry.count) for entry in classes]
            self._labeled = self._unlabeled = everything
        else:
            self._labeled, self._unlabeled = split_labels(classes, labeled_share, label_split_seed)
        _check_feasible(classes, self._labeled, self._unlabeled, shape, split, labeled_share)

    @property
    def identity(self) -> str:
        """A hash of this list of episodes: the same where data, split, shape and seeds are the same."""
        parts = (self.store.content_hash, self.split, asdict(self.shape), self.seed, self._label_split)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def rows(self, i: int) -> EpisodeRows:
        """Which images make up episode i. The ways are drawn before the distractors, so that an episode with distractors
        is the one without them, plus the distractors."""
        return self.batch(i, 1)[0]

    def batch(self, first: int, n: int) -> EpisodeRows:
        """Episodes first .. first + n - 1, drawn together."""
        shape = self.shape
        support = np.empty((n, shape.n_way, shape.n_shot), np.int64)
        query = np.empty((n, shape.n_way, shape.n_query), np.int64)
        unlabeled = np.empty((n, shape.n_way + shape.n_distractor, shape.n_unlabeled), np.int64)
        for i in range(n):
            self._draw_one(np.random.default_rng([self.seed, first + i]), support[i], query[i], unlabeled[i])
        labels, unlabeled_labels, query_labels = (np.repeat(names[None], n, axis=0) for names in self._names)
        rows = (support.reshape(n, -1), labels, unlabeled.reshape(n, -1), unlabeled_labels)
        return EpisodeRows(*rows, query.reshape(n, -1), query_labels)

    def _draw_one(self, rng: np.random.Generator, support: Rows, query: Rows, unlabeled: Rows) -> None:
        """Fill one episode: ways first, then distractor classes."""
        shape = self.shape
        ways = rng.choice(len(self._labeled), shape.n_way, replace=False)
        for w, c in enumerate(ways):
            labeled, unlabeled[w] = self._draw(rng, c)
            support[w], query[w] = np.split(labeled, [shape.n_shot])
        if shape.n_distractor:
            others = np.delete(np.arange(len(self._labeled)), ways)
            distractors = others[rng.choice(len(others), shape.n_distractor, replace=False)]
            for j, c in enumerate(distractors, shape.n_way):
                unlabeled[j] = _chosen(rng, self._unlabeled[c], shape.n_unlabeled)

    @cached_property
    def _names(self) -> tuple[Rows, Rows, Rows]:
        """Labels of support, unlabeled and query images: the same in every episode."""
        shape, names = self.shape, np.arange(self.shape.n_way)
        with_distractors = np.concatenate([names, np.full(shape.n_distractor, -1)])
        return names.repeat(shape.n_shot), with_distractors.repeat(shape.n_unlabeled), names.repeat(shape.n_query)

    def _draw(self, rng: np.random.Generator, c: int) -> tuple[Rows, Rows]:
        """Of class c: rows for support and query, then unlabeled ones. No image is in both."""
        n_labeled, n_unlabeled = self.shape.n_shot + self.shape.n_query, self.shape.n_unlabeled
        if self._labeled is self._unlabeled:
            drawn = _chosen(rng, self._labeled[c], n_labeled + n_unlabeled)
            return drawn[:n_labeled], drawn[n_labeled:]
        return _chosen(rng, self._labeled[c], n_labeled), _chosen(rng, self._unlabeled[c], n_unlabeled)

    def episode(self, i: int, *, with_unlabeled: bool = True) -> Episode:
        """Episode i with its images, uint8. Without unlabeled images none of them is read; the rest is the same."""
        rows = self.rows(i)
        if not with_unlabeled:
            rows = replace(rows, unlabeled=rows.unlabeled[:0], unlabeled_labels=rows.unlabeled_labels[:0])
        return build_episode(rows, images_of(self.store, rows.images), self.shape.n_way)

    __getitem__ = episode


def _chosen(rng: np.random.Generator, rows: Rows, n: int) -> Rows:
    drawn: Rows = rows[rng.choice(len(rows), n, replace=False)]
    return drawn


def fixed_sampler(
    store: ImageStore | FeatureStore, shape: EpisodeShape, split: str, protocol: Protocol, seed: int | None = None
) -> EpisodeSampler:
    """The fixed episodes of a split, or those of a `seed`. Training classes keep their label split, others have none."""
    share = protocol.labeled_share if split == "train" else None
    if seed is None:
        seed = {"train": TEST_SEED + 1, "val": VALIDATION_SEED, "test": TEST_SEED}.get(split, TEST_SEED)
    at_least(0, seed, "a seed")
    return EpisodeSampler(
        store, shape, split=split, seed=seed, labeled_share=share, label_split_seed=protocol.label_split_seed
    )


def images_of(store: ImageStore | FeatureStore, rows: Rows) -> Tensor:
    """[n, C, H, W] uint8, in channels-last memory as the store has them; [n, d] of features."""
    images = torch.from_numpy(store.images[rows])
    return images if isinstance(store, FeatureStore) else images.permute(0, 3, 1, 2)


def build_episode(rows: EpisodeRows, content: Tensor, n_way: int) -> Episode:
    """An episode, or a batch of them, from the images or embeddings of its rows: `content [..., S + Q + M, *x]`."""
    sizes = [part.shape[-1] for part in (rows.support, rows.query, rows.unlabeled)]
    support, query, unlabeled = torch.split(content, sizes, dim=rows.support.ndim - 1)
    labels, query_labels, unlabeled_labels = (
        torch.from_numpy(names).to(content.device) for names in (rows.labels, rows.query_labels, rows.unlabeled_labels)
    )
    return Episode(Task(support, labels, unlabeled, query, n_way), query_labels, unlabeled_labels)


def split_labels(classes: list[ClassEntry], share: float, seed: int) -> tuple[list[Rows], list[Rows]]:
    """The labeled and the unlabeled rows of each class: floor(share * count) labeled ones, drawn class by class."""
    rng = np.random.default_rng([seed, 0, 0xA11])  # three words: never the key [seed, i] of an episode
    labeled, unlabeled = [], []
    for entry in classes:
        rows = entry.start + rng.permutation(entry.count)
        n_labeled = n_labeled_of(entry.count, share)
        labeled.append(rows[:n_labeled])
        unlabeled.append(rows[n_labeled:])
    return labeled, unlabeled


def n_labeled_of(count: int, share: float) -> int:
    """floor(share * count)"""
    return int(count * share + 1e-9)  # 1e-9: 0.29 * 100 is 28.999...


def _check_feasible(
    classes: list[ClassEntry],
    labeled: list[Rows],
    unlabeled: list[Rows],
    shape: EpisodeShape,
    split: str,
    share: float | None,
) -> None:
    n_classes = shape.n_way + shape.n_distractor
    if len(classes) < n_classes:
        raise SalaError(
            f"an episode needs {shape.n_way} ways + {shape.n_distractor} distractor classes = {n_classes} classes, and the "
            f"{split} split has {len(classes)}; lower the ways or the distractors"
        )
    n_labeled = shape.n_shot + shape.n_query
    for entry, in_labeled, in_unlabeled in zip(classes, labeled, unlabeled, strict=True):
        if share is None:
            needed = n_labeled + shape.n_unlabeled
            if entry.count < needed:
                raise SalaError(
                    f"{shape.n_shot} shots + {shape.n_query} queries + {shape.n_unlabeled} unlabeled = {needed} images must "
                    f"fit every {split} class, and {entry.name!r} has {entry.count}; lower the unlabeled or the queries"
                )
        elif len(in_labeled) < n_labeled:
            raise SalaError(
                f"{shape.n_shot} shots + {shape.n_query} queries must fit the labeled part of every {split} class, and "
                f"{entry.name!r} has {len(in_labeled)} labeled of {entry.count} (share {share:g}); lower the shots or the "
                "queries, or raise the labeled share"
            )
        elif len(in_unlabeled) < shape.n_unlabeled:
            raise SalaError(
                f"{shape.n_unlabeled} unlabeled images must fit the unlabeled part of every {split} class, and "
                f"{entry.name!r} has {len(in_unlabeled)} of {entry.count} (labeled share {share:g}); lower the unlabeled "
                "or the labeled share"
            )

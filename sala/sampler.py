"""Episodes from a store: episode i is a pure function of (seed, i)."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sala import kernels
from sala.data.store import ClassEntry, ImageStore
from sala.episode import Episode, Task
from sala.errors import SalaError
from sala.protocol import TEST_SEED, VALIDATION_SEED, EpisodeShape, Protocol

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
    def points(self) -> Rows:
        """[..., S + Q + M]"""
        return np.concatenate([self.support, self.query, self.unlabeled], axis=-1)


class EpisodeSampler:
    """Draws N-way K-shot episodes with unlabelled images and distractor classes from one split of a store.

    With a `labeled_share` (training classes), each class is divided once, by `label_split_seed`: support and query come
    from the labelled part, unlabelled images from the rest. Without one (validation and test classes), an episode's
    three sets are drawn from all images of a class. They never share an image.
    """

    def __init__(
        self,
        store: ImageStore,
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
        """A short name of this very list of episodes: the same where data, split, shape and seeds are the same."""
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
        if self._lists is None or first + n > 1 << 32:
            for i in range(n):
                self._draw_one(np.random.default_rng([self.seed, first + i]), support[i], query[i], unlabeled[i])
        else:
            from sala.jit_draw import draw

            words = np.array([*_words(self.seed), first], np.uint64)
            at_once = self._labeled is self._unlabeled
            draw(words, *self._lists, shape.n_shot, shape.n_query, at_once, support, query, unlabeled)
        labels, unlabeled_labels, query_labels = (np.repeat(names[None], n, axis=0) for names in self._names)
        rows = (support.reshape(n, -1), labels, unlabeled.reshape(n, -1), unlabeled_labels)
        return EpisodeRows(*rows, query.reshape(n, -1), query_labels)

    def _draw_one(self, rng: np.random.Generator, support: Rows, query: Rows, unlabeled: Rows) -> None:
        """What `jit_draw.draw` does for one episode, by numpy."""
        shape = self.shape
        ways = rng.choice(len(self._labeled), shape.n_way, replace=False)
        for w, c in enumerate(ways):
            labeled, unlabeled[w] = self._draw(rng, c)
            support[w], query[w] = np.split(labeled, [shape.n_shot])
        if shape.n_distractor:
            others = np.delete(np.arange(len(self._labeled)), ways)
            junk = others[rng.choice(len(others), shape.n_distractor, replace=False)]
            for j, c in enumerate(junk, shape.n_way):
                unlabeled[j] = _chosen(rng, self._unlabeled[c], shape.n_unlabeled)

    @cached_property
    def _lists(self) -> tuple[Rows, Rows, Rows, Rows] | None:
        """The labelled and the unlabelled rows of all classes, and where each class begins, for compiled code; None where
        numpy has to draw."""
        if kernels.chosen() != "numba":
            return None
        from sala.jit_draw import MOST

        lists = []
        for classes in (self._labeled, self._unlabeled):
            counts = [len(rows) for rows in classes]
            if max(len(counts), *counts) > MOST:
                return None
            lists += [np.concatenate(classes), np.cumsum([0, *counts])]
        labeled, starts, unlabeled, unlabeled_starts = lists
        return labeled, starts, unlabeled, unlabeled_starts

    @cached_property
    def _names(self) -> tuple[Rows, Rows, Rows]:
        """Labels of support, unlabelled and query points: the same in every episode."""
        shape, names = self.shape, np.arange(self.shape.n_way)
        with_junk = np.concatenate([names, np.full(shape.n_distractor, -1)])
        return names.repeat(shape.n_shot), with_junk.repeat(shape.n_unlabeled), names.repeat(shape.n_query)

    def _draw(self, rng: np.random.Generator, c: int) -> tuple[Rows, Rows]:
        """Of class c: rows for support and query, then unlabelled ones. No image is in both."""
        n_labeled, n_unlabeled = self.shape.n_shot + self.shape.n_query, self.shape.n_unlabeled
        if self._labeled is self._unlabeled:
            drawn = _chosen(rng, self._labeled[c], n_labeled + n_unlabeled)
            return drawn[:n_labeled], drawn[n_labeled:]
        return _chosen(rng, self._labeled[c], n_labeled), _chosen(rng, self._unlabeled[c], n_unlabeled)

    def episode(self, i: int, *, with_unlabeled: bool = True) -> Episode:
        """Episode i with its images, uint8. Without unlabelled images none of them is read; the rest is the same."""
        rows = self.rows(i)
        if not with_unlabeled:
            rows = replace(rows, unlabeled=rows.unlabeled[:0], unlabeled_labels=rows.unlabeled_labels[:0])
        return build_episode(rows, images_of(self.store, rows.points), self.shape.n_way)

    __getitem__ = episode


def _words(seed: int) -> list[int]:
    """A seed in words of 32 bits, the lowest first, as numpy cuts it."""
    return [seed & 0xFFFFFFFF, *(_words(seed >> 32) if seed >> 32 else [])]


def _chosen(rng: np.random.Generator, rows: Rows, n: int) -> Rows:
    drawn: Rows = rows[rng.choice(len(rows), n, replace=False)]
    return drawn


def fixed_sampler(store: ImageStore, shape: EpisodeShape, split: str, protocol: Protocol) -> EpisodeSampler:
    """The fixed episodes of a split. Training classes keep their label split, the others have none."""
    share = protocol.labeled_share if split == "train" else None
    seed = {"train": TEST_SEED + 1, "val": VALIDATION_SEED, "test": TEST_SEED}.get(split, TEST_SEED)
    return EpisodeSampler(
        store, shape, split=split, seed=seed, labeled_share=share, label_split_seed=protocol.label_split_seed
    )


def images_of(store: ImageStore, rows: Rows) -> Tensor:
    """[n, C, H, W] uint8, in channels-last memory as the store has them."""
    return torch.from_numpy(store.images[rows]).permute(0, 3, 1, 2)


def build_episode(rows: EpisodeRows, points: Tensor, n_way: int) -> Episode:
    """An episode, or a batch of them, from `points [..., S + Q + M, *x]`: support, query and unlabelled points of each."""
    sizes = [part.shape[-1] for part in (rows.support, rows.query, rows.unlabeled)]
    support, query, unlabeled = torch.split(points, sizes, dim=rows.support.ndim - 1)
    labels, query_labels, unlabeled_labels = (
        torch.from_numpy(names).to(points.device) for names in (rows.labels, rows.query_labels, rows.unlabeled_labels)
    )
    return Episode(Task(support, labels, unlabeled, query, n_way), query_labels, unlabeled_labels)


def split_labels(classes: list[ClassEntry], share: float, seed: int) -> tuple[list[Rows], list[Rows]]:
    """The labelled and the unlabelled rows of each class: floor(share * count) labelled ones, drawn class by class."""
    rng = np.random.default_rng([seed, 0, 0xA11])  # three words: never the key [seed, i] of an episode
    labeled, unlabeled = [], []
    for entry in classes:
        rows = entry.start + rng.permutation(entry.count)
        n_labeled = int(entry.count * share + 1e-9)  # 1e-9: 0.29 * 100 is 28.999...
        labeled.append(rows[:n_labeled])
        unlabeled.append(rows[n_labeled:])
    return labeled, unlabeled


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
                    f"{shape.n_shot} shots + {shape.n_query} queries + {shape.n_unlabeled} unlabelled = {needed} images must "
                    f"fit every {split} class, and {entry.name!r} has {entry.count}; lower the unlabelled or the queries"
                )
        elif len(in_labeled) < n_labeled:
            raise SalaError(
                f"{shape.n_shot} shots + {shape.n_query} queries must fit the labelled part of every {split} class, and "
                f"{entry.name!r} has {len(in_labeled)} labelled of {entry.count} (share {share:g}); lower the shots or the "
                "queries, or raise the labelled share"
            )
        elif len(in_unlabeled) < shape.n_unlabeled:
            raise SalaError(
                f"{shape.n_unlabeled} unlabelled images must fit the unlabelled part of every {split} class, and "
                f"{entry.name!r} has {len(in_unlabeled)} of {entry.count} (labelled share {share:g}); lower the unlabelled "
                "or the labelled share"
            )

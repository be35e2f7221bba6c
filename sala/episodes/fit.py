"""Episodes that fit small classes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sala.data.features import FeatureStore
from sala.data.store import ClassEntry, ImageStore
from sala.episodes.protocol import EpisodeShape, Protocol
from sala.episodes.sampler import n_labeled_of

TRAINED, MEASURED = ("train",), ("val", "test")
FITTED = ("train", "test")  # shapes that may shrink


def fit_to_classes(
    protocol: Protocol, store: ImageStore | FeatureStore, shapes: Collection[str] = FITTED
) -> tuple[Protocol, list[str]]:
    """The protocol with episodes that fit the smallest class, and a note for each shape that was changed.

    `shapes` may name "train", "test" (and with it validation), or both.
    """
    notes: list[str] = []
    if "train" in shapes and (smallest := _smallest(store, TRAINED)):
        train = fit_training_shape(protocol.train, smallest.count, protocol.labeled_share)
        notes += note_of("training", "--queries and --unlabeled", protocol.train, train, smallest)
        protocol = replace(protocol, train=train)
    if "test" in shapes and (smallest := _smallest(store, MEASURED)):
        test = {name: fit_shape(shape, smallest.count) for name, shape in protocol.test.items()}
        for name, shape in test.items():
            options = "--test-queries and --test-unlabeled"
            notes += note_of(f"validation and test ({name})", options, protocol.test[name], shape, smallest)
        protocol = replace(protocol, test=test)
    return protocol, notes


def _smallest(store: ImageStore | FeatureStore, splits: Collection[str]) -> ClassEntry | None:
    classes = [entry for entry in store.classes if entry.split in splits]
    return min(classes, key=lambda entry: entry.count, default=None)


def fit_training_shape(shape: EpisodeShape, n_images: int, labeled_share: float) -> EpisodeShape:
    """The shape with as many queries as the labeled part of a class has, and unlabeled images as the unlabeled part.

    >>> fit_training_shape(EpisodeShape(n_shot=1, n_query=5, n_unlabeled=15), 12, 0.4)
    EpisodeShape(n_way=5, n_shot=1, n_query=3, n_unlabeled=8, n_distractor=0)
    """
    n_labeled = n_labeled_of(n_images, labeled_share)
    n_query = min(shape.n_query, max(1, n_labeled - shape.n_shot))
    return replace(shape, n_query=n_query, n_unlabeled=min(shape.n_unlabeled, n_images - n_labeled))


def fit_shape(shape: EpisodeShape, n_images: int) -> EpisodeShape:
    """The shape with fewer queries and unlabeled images, in about their proportion, so that a class of `n_images` suffices.

    It stays as it is where a class has no image left for a query.

    >>> fit_shape(EpisodeShape(n_shot=1, n_query=15, n_unlabeled=20), 15)
    EpisodeShape(n_way=5, n_shot=1, n_query=6, n_unlabeled=8, n_distractor=0)
    """
    left, wanted = n_images - shape.n_shot, shape.n_query + shape.n_unlabeled
    if left >= wanted or left < 1:
        return shape
    n_query = max(1, left * shape.n_query // wanted)
    return replace(shape, n_query=n_query, n_unlabeled=min(shape.n_unlabeled, left - n_query))


def fit_rest(shape: EpisodeShape, n_images: int, given: Collection[str]) -> EpisodeShape:
    """The shape with fewer of what was not `given` ("n_query", "n_unlabeled"), so that a class of `n_images` suffices.

    It stays as it is where what was given does not fit.

    >>> fit_rest(EpisodeShape(n_shot=5, n_query=3, n_unlabeled=15), 20, ["n_shot", "n_query"])
    EpisodeShape(n_way=5, n_shot=5, n_query=3, n_unlabeled=12, n_distractor=0)
    """
    fixed = {name: getattr(shape, name) for name in ("n_query", "n_unlabeled") if name in given}
    left = n_images - shape.n_shot - sum(fixed.values())
    if not fixed:
        return fit_shape(shape, n_images)
    if "n_query" not in fixed and left >= 1:
        return replace(shape, n_query=min(shape.n_query, left))
    if "n_unlabeled" not in fixed and left >= 0:
        return replace(shape, n_unlabeled=min(shape.n_unlabeled, left))
    return shape


def note_of(what: str, options: str, before: EpisodeShape, now: EpisodeShape, smallest: ClassEntry) -> list[str]:
    """A sentence, where the shape is another one now."""
    if now == before:
        return []
    return [
        f"class {smallest.name!r} has {smallest.count} images: episodes of {what} have {_numbers(now)} instead of "
        f"{_numbers(before)} a class; {options} set them"
    ]


def _numbers(shape: EpisodeShape) -> str:
    queries = "1 query" if shape.n_query == 1 else f"{shape.n_query} queries"
    return f"{queries} and {shape.n_unlabeled} unlabeled images"

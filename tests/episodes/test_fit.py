"""Episodes shrink to what small classes have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sala.data import ImageStore
from sala.episodes.fit import fit_shape, fit_to_classes
from sala.episodes.protocol import PROTOCOLS, EpisodeShape
from sala.episodes.sampler import EpisodeSampler

FOLDER = PROTOCOLS["folder"]


@pytest.mark.parametrize("n_images", range(2, 40))
@pytest.mark.parametrize(("n_query", "n_unlabeled"), [(15, 20), (1, 5), (14, 0), (4, 15)])
def test_a_fitted_shape_fits_and_is_never_larger(n_images: int, n_query: int, n_unlabeled: int) -> None:
    shape = EpisodeShape(n_query=n_query, n_unlabeled=n_unlabeled)
    found = fit_shape(shape, n_images)
    assert found.n_shot + found.n_query + found.n_unlabeled <= n_images
    assert 1 <= found.n_query <= n_query
    assert found.n_unlabeled <= n_unlabeled
    if n_images > n_query + n_unlabeled:
        assert found == shape
    elif n_unlabeled:  # nothing is left over
        assert found.n_shot + found.n_query + found.n_unlabeled == n_images


def test_a_class_that_is_too_small_for_the_shots_changes_nothing() -> None:
    assert fit_shape(EpisodeShape(n_shot=5), 5) == EpisodeShape(n_shot=5)


def test_the_smallest_class_of_validation_and_test_decides(make_store: Callable[..., ImageStore]) -> None:
    store = make_store({"train": [3, 3], "val": [15, 40], "test": [40, 40]})
    two_way = FOLDER.with_shape(n_way=2)
    fitted, notes = fit_to_classes(two_way, store, ["test"])
    assert fitted == replace(two_way, test={"standard": fit_shape(two_way.validation, 15)})
    assert len(notes) == 1
    assert "val0" in notes[0]
    for split in ("val", "test"):
        assert EpisodeSampler(store, fitted.validation, split=split, seed=0)[0].query_labels.shape == (12,)


def test_classes_that_are_large_enough_leave_the_protocol_alone(make_store: Callable[..., ImageStore]) -> None:
    store = make_store({"val": [36], "test": [36]})
    assert fit_to_classes(FOLDER, store) == (FOLDER, [])


@pytest.mark.parametrize("labeled_share", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("n_images", [7, 12, 30])
def test_training_episodes_shrink_too(
    labeled_share: float, n_images: int, make_store: Callable[..., ImageStore]
) -> None:
    store = make_store({"train": [n_images, 40], "val": [40], "test": [40]})
    asked = replace(FOLDER.with_shape(n_way=2), labeled_share=labeled_share)
    fitted, notes = fit_to_classes(asked, store)
    assert len(notes) == (fitted != asked)
    assert fitted.test == asked.test
    sampler = EpisodeSampler(store, fitted.train, split="train", seed=0, labeled_share=labeled_share)
    assert sampler[0].query_labels.shape == (2 * fitted.train.n_query,)
    assert fit_to_classes(asked, store, ["test"]) == (asked, [])

"""Near-duplicates by features: planted ones are found, others are not, and none vouches for another."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sala.classifier.fit import HeldOut, fit_pool
from sala.encoders import Encoder, embed_files
from sala.labeling import near_duplicates as module
from sala.labeling.held_out import assign_folds, held_out_apart
from sala.labeling.near_duplicates import near_duplicates
from sala.labeling.suspects import find_suspects
from tests.helpers.pools import blobs


def with_near_duplicates(n: int, d: int = 64, seed: int = 0) -> np.ndarray:
    """Random rows; 5 and 9 are nearly row 2, and the last is nearly the first."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)).astype(np.float32)
    x[[5, 9]] = x[2] + 0.1 * rng.normal(size=(2, d))
    x[-1] = x[0] + 0.1 * rng.normal(size=d)
    return x


def test_planted_near_duplicates_are_groups() -> None:
    assert near_duplicates(with_near_duplicates(60)) == [[0, 59], [2, 5, 9]]


def test_random_features_of_few_dimensions_are_hardly_ever_near_duplicates() -> None:
    x = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    assert sum(map(len, near_duplicates(x))) <= 40  # an image has 0.05 neighbors by chance, and each pair has two


def test_images_of_one_class_are_not_near_duplicates() -> None:
    x, _ = blobs([40, 40, 40], noise=0.1)
    assert near_duplicates(x) == []


@pytest.mark.parametrize("n", [0, 1, 5, 19])
def test_a_few_images_are_in_no_group(n: int) -> None:
    assert near_duplicates(np.ones((n, 8), np.float32)) == []


def test_what_leaders_find_is_what_comparing_all_pairs_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.concatenate([with_near_duplicates(300, seed=seed) for seed in range(4)])
    expected = near_duplicates(x)
    monkeypatch.setattr(module, "EXACT", 10)
    monkeypatch.setattr(module, "ROWS", 64)
    assert near_duplicates(x) == expected
    assert len(expected) == 8


def test_equal_features_of_a_whole_pool_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of a camera that saw nothing: all are one group, and no block is larger than the limit."""
    monkeypatch.setattr(module, "EXACT", 10)
    monkeypatch.setattr(module, "ROWS", 64)
    x = np.concatenate([np.random.default_rng(0).normal(size=(20, 16)), np.ones((500, 16))]).astype(np.float32)
    assert near_duplicates(x) == [list(range(20, 520))]


def test_near_duplicates_with_one_label_are_in_one_fold() -> None:
    labels = np.array([0, 0, 0, 0, 1, 1, 1])
    assert assign_folds(labels, [[0, 2], [1, 3], [4, 5], [3, 6]]).tolist() == [0, 1, 0, 1, 0, 0, -1]


def test_two_pictures_of_one_scene_in_the_wrong_class_do_not_vouch_for_each_other() -> None:
    """Rows 0 and 1 are nearly the same image of class 0, and both are called class 1."""
    x, truth = blobs([6, 6, 6], noise=0.15, seed=5)
    pool, _ = blobs([25, 25, 25], noise=0.15, seed=6)
    x[1] = x[0] + 0.001
    given = truth.copy()
    given[:2] = 1
    held_out = fit_pool(x, given, pool).held_out
    apart = held_out_apart(held_out, x, given, pool, [[0, 1]])
    own = apart.probabilities[np.arange(len(given)), given]
    assert own[:2].max() < held_out.probabilities[:2, 1].max()
    assert {s.row for s in find_suspects(apart, rejected_from=0.95)[:2]} == {0, 1}
    np.testing.assert_array_equal(apart.probabilities[2:], held_out.probabilities[2:])


def test_a_class_of_one_scene_only_has_no_evidence() -> None:
    x, labels = blobs([2, 4, 4])
    held_out = fit_pool(x, labels, x[:0]).held_out
    apart = held_out_apart(held_out, x, labels, x[:0], [[0, 1]])
    assert apart.rows.tolist() == list(range(2, 10))


def test_without_near_duplicates_the_evidence_stays_as_it_is() -> None:
    held_out = HeldOut(np.eye(2, dtype=np.float32), np.array([0, 1]), np.zeros(2, np.float32), np.array([0, 1]))
    features = np.eye(2, dtype=np.float32)
    assert held_out_apart(held_out, features, np.array([0, 1]), features, []) is held_out


@pytest.mark.slow
def test_copies_of_photos_are_found_and_other_photos_are_not(lite0: Encoder, real_data: Path, tmp_path: Path) -> None:
    """Recompressed and slightly cropped copies of ten of 200 photos of groceries."""
    folder = real_data / "groceries"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    paths = sorted(folder.rglob("*.jpg"))[::13][:200]
    copies = []
    for i in range(0, 200, 20):
        with Image.open(paths[i]) as image:
            image = image.convert("RGB")
        w, h = image.size
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=40)
        for name, content in (("small", Image.open(buffer)), ("crop", image.crop((w // 40, 0, w, h - h // 40)))):
            copies.append(tmp_path / f"{i}-{name}.jpg")
            content.save(copies[-1], quality=90)
    groups = near_duplicates(embed_files([*paths, *copies], lite0).features)
    together = {frozenset(group) for group in groups}
    found = sum(any({20 * i, 200 + 2 * i} <= group for group in together) for i in range(10))
    assert found >= 9 and sum(any({20 * i, 201 + 2 * i} <= group for group in together) for i in range(10)) >= 8
    assert sum(len([row for row in group if row < 200]) - 1 for group in groups) <= 4  # groups of originals

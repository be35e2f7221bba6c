"""Descriptions of classes in words: their texts, where prior examples lie, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sala.classifier.fit import Fitted, HeldOut, LabelModel, fit_pool
from sala.errors import SalaError
from sala.labeling.descriptions import (
    NUMBERS,
    UNCHOSEN,
    Descriptions,
    chosen_number,
    fit_described,
    fit_with_prior,
    prior_features,
    texts_of,
)
from tests.helpers.painted import folders_painted, painted, refusal, sala  # noqa: F401


@pytest.mark.parametrize("value", ["dog=a dog", "owl=", "an owl", ""])
def test_a_description_of_no_class_is_refused(value: str) -> None:
    with pytest.raises(SalaError, match="--describe"):
        texts_of([value], ["owl", "cat"])


def test_a_class_may_have_an_equals_sign_in_its_name() -> None:
    assert texts_of(["a=b=a letter"], ["a", "a=b"]) == {"a": ["a"], "a=b": ["a letter"]}


@pytest.mark.parametrize("gap", [(0.0, 0.0), (0.3, -0.7)])
def test_prior_examples_lie_among_the_images_whatever_the_modality_gap(gap: tuple[float, float]) -> None:
    labeled, labels = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 2.0]]), np.array([0, 1, 1])
    texts = np.array([[0.8, 0.2], [0.2, 0.8]]) + gap
    np.testing.assert_allclose(prior_features(texts, labeled, labels), [[1.6, 0.4], [0.4, 1.6]], atol=1e-6)


def held_out(*probabilities: float, rows: Sequence[int] | None = None) -> HeldOut:
    """Images of class 0 of two, with the probabilities of it."""
    p, n = np.array(probabilities, np.float32), len(probabilities)
    rows = range(n) if rows is None else rows
    return HeldOut(np.stack([p, 1 - p], 1), np.zeros(n, np.int64), np.zeros(n, np.float32), np.array(rows, np.int64))


def test_the_number_of_prior_examples_has_the_least_log_loss() -> None:
    assert chosen_number({0: held_out(0.5, 0.5), 1: held_out(0.8, 0.8), 2: held_out(0.99, 0.1)}) == 1


def test_of_equal_numbers_the_smallest_is_chosen() -> None:
    assert chosen_number({0: held_out(0.5), 4: held_out(0.7), 8: held_out(0.7)}) == 4


def test_only_images_that_all_fits_have_held_out_are_compared() -> None:
    assert chosen_number({0: held_out(0.6, rows=[3]), 1: held_out(0.9, 0.5, rows=[0, 3])}) == 0


def test_where_nothing_can_be_held_out_the_number_is_fixed() -> None:
    assert chosen_number({0: held_out(), 1: held_out(0.9)}) == UNCHOSEN


class Images:
    """Two noisy labeled images for each of four classes, and a pool; class c is around the c-th axis."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.centers = np.eye(4, 32, dtype=np.float32)
        self.labels, self.truth = np.repeat(np.arange(4), 2), np.repeat(np.arange(4), 50)
        self.labeled, self.pool = (
            (self.centers[y] + 0.35 * rng.standard_normal((len(y), 32))).astype(np.float32)
            for y in (self.labels, self.truth)
        )
        self.rows = np.arange(len(self.truth))

    def fit(self, rows: np.ndarray, examples: np.ndarray, labels: np.ndarray) -> Fitted:
        return fit_pool(examples, labels, self.pool[rows])

    def described(self, prototypes: np.ndarray) -> tuple[Fitted, int]:
        about = Descriptions({str(c): [""] for c in range(4)}, prototypes)
        return fit_described(self.fit, self.rows, about, self.labeled, self.labels)

    def accuracy(self, fitted: Fitted) -> float:
        return float((fitted.pool.label == self.truth).mean())


def test_texts_that_tell_the_classes_help() -> None:
    images = Images()
    fitted, n = images.described(images.centers)
    plain = images.fit(images.rows, images.labeled, images.labels)
    assert n > 0 and images.accuracy(fitted) > images.accuracy(plain)


def test_texts_that_mislead_are_left_out() -> None:
    images = Images()
    fitted, n = images.described(np.roll(images.centers, 1, axis=0))
    plain = images.fit(images.rows, images.labeled, images.labels)
    assert n == 0
    np.testing.assert_array_equal(fitted.pool.probabilities, plain.pool.probabilities)


@pytest.mark.parametrize("n", NUMBERS)
def test_held_out_are_images_and_no_prior_examples(n: int) -> None:
    images = Images()
    with_prior = partial(fit_with_prior, images.fit, images.rows, images.centers)
    rows = with_prior(images.labeled, images.labels, n).held_out.rows
    assert sorted(rows.tolist()) == list(range(8))


def test_classes_of_folders_are_described(folders: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.helpers.vision_models import saved_model, saved_tokenizer

    labeled, pool = folders
    saved_model("clip", tmp_path / "clip")
    saved_tokenizer(tmp_path / "clip")
    words = ["label", labeled, pool, "--encoder", f"hf:{tmp_path / 'clip'}", "--out", tmp_path / "out"]
    sala(*words, "--describe", "a photo of a {}")
    note = LabelModel.load(tmp_path / "out" / "model.safetensors").note
    assert note["descriptions"] == {path.name: [f"a photo of a {path.name}"] for path in sorted(labeled.iterdir())}
    assert note["n_prior_examples"] in NUMBERS


def test_an_encoder_without_texts_is_refused(folders: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.helpers.vision_models import saved_model

    labeled, pool = folders
    saved_model("vit", tmp_path / "vit")
    for encoder in (f"hf:{tmp_path / 'vit'}", "lite0"):
        said = refusal("label", labeled, pool, "--encoder", encoder, "--out", tmp_path / "out", "--describe", "a {}")
        assert "--describe" in said and "embedding" not in said  # before the work

"""The model of a labelling: what it says of new images and of what to label next, its file, and files that are none."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from pools import blobs, directions, task

from sala.checkpoint import load_checkpoint, save_checkpoint
from sala.engine import (
    EngineConfig,
    LabelModel,
    fit_labels,
)
from sala.errors import SalaError
from sala.labelmodel import label_next
from sala.points import normalised


@pytest.mark.parametrize(
    "wrong", [{"none_share": 1.0}, {"n_way": 0}, {"high": "x"}, {"low": None}, {"trust": float("nan")}, {"x": 1}]
)
def test_a_model_file_with_nonsense_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    support, labels, pool, _ = task()
    fit_labels(support, labels, pool).model.save(tmp_path / "m.safetensors")
    tensors, note = load_checkpoint(tmp_path / "m.safetensors")
    save_checkpoint(tmp_path / "m.safetensors", tensors, note | {"belonging": note["belonging"] | wrong})
    with pytest.raises(SalaError, match="changed or damaged"):
        LabelModel.load(tmp_path / "m.safetensors")


def test_what_to_label_next_is_doubtful_and_no_repetition() -> None:
    (pool, truth), (support, labels) = blobs([100, 100]), blobs([1, 1], seed=1)
    between = directions(64)[:2].sum(0).astype(np.float32)
    pool = np.vstack([pool, np.tile(between, (3, 1))])
    first, second = fit_labels(support, labels, pool).pool.label_next[:2]
    assert first >= len(truth) > second  # one of the three that are between two classes, then another kind


def test_what_is_rather_junk_is_not_to_be_labelled_next_unless_there_is_nothing_else() -> None:
    pool, _ = blobs([20, 20], noise=0.5)
    points, p, known = (
        normalised(torch.from_numpy(pool), torch.zeros(64), torch.ones(64)),
        torch.full((40, 2), 0.5),
        torch.ones(40),
    )
    known[::2] = 0.49
    assert sorted(label_next(points, p, known, 50).tolist()) == list(range(1, 40, 2))
    assert len(label_next(points, p, torch.full((40,), 0.3), 50)) == 40


def test_a_model_that_was_saved_predicts_the_same(tmp_path: Path) -> None:
    support, labels, pool, _ = task(noise=0.3)
    fitted = fit_labels(support, labels, pool, classes=["a", "<b>", "c 'd'", "é"])
    replace(fitted.model, note={"encoder": "lite0"}).save(tmp_path / "model.safetensors")
    loaded = LabelModel.load(tmp_path / "model.safetensors")
    assert loaded.classes == ("a", "<b>", "c 'd'", "é") and loaded.note == {"encoder": "lite0"}
    assert loaded.config == fitted.model.config and loaded.anchor == fitted.model.anchor
    for one, other in zip(vars(loaded.predict(pool)).values(), vars(fitted.model.predict(pool)).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_fitted_pool_and_a_prediction_agree_but_for_an_images_own_part() -> None:
    support, labels, pool, _ = task(noise=0.3)
    plain = fit_labels(support, labels, pool, config=EngineConfig(n_steps=0))
    np.testing.assert_allclose(plain.model.predict(pool).probabilities, plain.pool.probabilities, atol=1e-5)
    np.testing.assert_allclose(plain.model.predict(pool).none_score, plain.pool.none_score, atol=1e-5)
    fitted = fit_labels(support, labels, pool, config=EngineConfig(linear_weight=0.0))
    as_new = fitted.model.predict(pool)
    assert (as_new.label == fitted.pool.label)[fitted.pool.probabilities.max(1) > 0.8].all()
    assert (as_new.probabilities.max(1) >= fitted.pool.probabilities.max(1) - 1e-5)[fitted.pool.used].mean() > 0.95


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0{}      ", b"x" * 100])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(SalaError):
        LabelModel.load(tmp_path / "model.safetensors")


def test_features_of_another_encoder_are_refused() -> None:
    support, labels, pool, _ = task()
    with pytest.raises(SalaError, match=r"features \[n, 64\]"):
        fit_labels(support, labels, pool).model.predict(np.ones((2, 5), np.float32))


@pytest.mark.parametrize(
    "name",
    ["centre", "spread", "directions", "removed", "first", "hubs", "refined", "known_first", "known_refined", "others"],
)
@pytest.mark.parametrize("wrong", ["nan", "double", "shape"])
def test_a_model_file_whose_numbers_are_wrong_is_refused(tmp_path: Path, name: str, wrong: str) -> None:
    support, labels, pool, _ = task()
    fit_labels(support, labels, pool).model.save(tmp_path / "m.safetensors")
    tensors, note = load_checkpoint(tmp_path / "m.safetensors")
    x = tensors[name]
    changed = {"nan": torch.full_like(x, math.nan), "double": x.double(), "shape": x[..., None].contiguous()}[wrong]
    save_checkpoint(tmp_path / "m.safetensors", tensors | {name: changed}, note)
    with pytest.raises(SalaError, match="changed or damaged"):
        LabelModel.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("wrong", [{"anchor": 7.0}, {"inverse_temperature": -3.0}, {"inverse_temperature": math.nan}])
def test_a_model_file_out_of_range_is_refused(tmp_path: Path, wrong: dict[str, float]) -> None:
    support, labels, pool, _ = task()
    fit_labels(support, labels, pool).model.save(tmp_path / "m.safetensors")
    tensors, note = load_checkpoint(tmp_path / "m.safetensors")
    save_checkpoint(tmp_path / "m.safetensors", tensors, note | wrong)
    with pytest.raises(SalaError, match=r"out of range|where a number should be"):
        LabelModel.load(tmp_path / "m.safetensors")

"""The fitted model: its predictions, its file, and files that are no model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sala.classifier.fit import ClassifierConfig, LabelModel, fit_pool
from sala.classifier.model_file import FORMAT
from sala.errors import SalaError
from sala.training.checkpoint import load_checkpoint, save_checkpoint
from tests.helpers.pools import task


@pytest.mark.parametrize(
    "wrong",
    [{"outlier_share": 1.0}, {"n_way": 0}, {"high": "x"}, {"low": None}, {"refined_weight": float("nan")}, {"x": 1}],
)
def test_a_model_file_with_an_impossible_outlier_model_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    support, labels, pool, _ = task()
    fit_pool(support, labels, pool).model.save(tmp_path / "m.safetensors")
    tensors, note = load_checkpoint(tmp_path / "m.safetensors")
    save_checkpoint(tmp_path / "m.safetensors", tensors, note | {"outlier_model": note["outlier_model"] | wrong})
    with pytest.raises(SalaError, match="changed or damaged"):
        LabelModel.load(tmp_path / "m.safetensors")


def test_a_model_that_was_saved_predicts_the_same(tmp_path: Path) -> None:
    support, labels, pool, _ = task(noise=0.3)
    fitted = fit_pool(support, labels, pool, classes=["a", "<b>", "c 'd'", "é"])
    replace(fitted.model, note={"encoder": "lite0"}).save(tmp_path / "model.safetensors")
    loaded = LabelModel.load(tmp_path / "model.safetensors")
    assert loaded.classes == ("a", "<b>", "c 'd'", "é") and loaded.note == {"encoder": "lite0"}
    assert loaded.config == fitted.model.config and loaded.anchor == fitted.model.anchor
    for one, other in zip(vars(loaded.predict(pool)).values(), vars(fitted.model.predict(pool)).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_fitted_pool_and_a_prediction_agree_but_for_an_images_own_part() -> None:
    support, labels, pool, _ = task(noise=0.3)
    plain = fit_pool(support, labels, pool, config=ClassifierConfig(n_steps=0))
    np.testing.assert_allclose(plain.model.predict(pool).probabilities, plain.pool.probabilities, atol=1e-5)
    np.testing.assert_allclose(plain.model.predict(pool).outlier_probability, plain.pool.outlier_probability, atol=1e-5)
    fitted = fit_pool(support, labels, pool, config=ClassifierConfig(linear_weight=0.0))
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
        fit_pool(support, labels, pool).model.predict(np.ones((2, 5), np.float32))


@pytest.mark.parametrize(
    "name",
    [
        "center",
        "scale",
        "whitening_directions",
        "whitening_shrinkage",
        "first_prototypes",
        "hubness",
        "refined_prototypes",
        "linear",
        "detector_first_prototypes",
        "detector_refined_prototypes",
        "outlier_prototypes",
        "known_outliers",
    ],
)
@pytest.mark.parametrize("wrong", ["nan", "double", "shape"])
def test_a_model_file_whose_numbers_are_wrong_is_refused(tmp_path: Path, name: str, wrong: str) -> None:
    support, labels, pool, _ = task()
    fit_pool(support, labels, pool, outliers=pool[-2:]).model.save(tmp_path / "m.safetensors")
    tensors, note = load_checkpoint(tmp_path / "m.safetensors")
    x = tensors[name]
    changed = {"nan": torch.full_like(x, math.nan), "double": x.double(), "shape": x[..., None].contiguous()}[wrong]
    save_checkpoint(tmp_path / "m.safetensors", tensors | {name: changed}, note)
    with pytest.raises(SalaError, match="changed or damaged"):
        LabelModel.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("wrong", [{"anchor": 7.0}, {"inverse_temperature": -3.0}, {"inverse_temperature": math.nan}])
def test_a_model_file_out_of_range_is_refused(tmp_path: Path, wrong: dict[str, float]) -> None:
    support, labels, pool, _ = task()
    fit_pool(support, labels, pool).model.save(tmp_path / "m.safetensors")
    tensors, note = load_checkpoint(tmp_path / "m.safetensors")
    save_checkpoint(tmp_path / "m.safetensors", tensors, note | wrong)
    with pytest.raises(SalaError, match=r"out of range|expected a number"):
        LabelModel.load(tmp_path / "m.safetensors")


FORMAT_8 = Path(__file__).parent / "format-8"  # written by version 0.1: a model, features, and its predictions for them


def test_a_model_of_format_8_predicts_as_it_did() -> None:
    model = LabelModel.load(FORMAT_8.with_suffix(".safetensors"))
    expected = np.load(FORMAT_8.with_suffix(".npz"))
    found = model.predict(expected["features"])
    np.testing.assert_allclose(found.probabilities, expected["probabilities"], atol=1e-6)
    np.testing.assert_allclose(found.outlier_probability, expected["outlier_probability"], atol=1e-6)
    assert model.config.n_suggestions == 7 and model.config.labeled_weight == 3.0
    assert model.note["thresholds"] == {"precision": 0.9, "outlier": 0.8, "confident": 0.7}
    assert model.note["labeled"] == {"a": 1} and len(model.outlier_detector.known_outliers) == 2


def test_a_model_of_format_8_is_saved_in_the_format_of_today(tmp_path: Path) -> None:
    model = LabelModel.load(FORMAT_8.with_suffix(".safetensors"))
    model.save(tmp_path / "m.safetensors")
    assert load_checkpoint(tmp_path / "m.safetensors")[1]["format"] == FORMAT
    assert LabelModel.load(tmp_path / "m.safetensors").config == model.config


@pytest.mark.parametrize(("version", "word"), [(7, "older"), (FORMAT + 1, "newer"), (None, "older"), ("8", "older")])
def test_models_of_other_formats_are_refused(tmp_path: Path, version: object, word: str) -> None:
    tensors, header = load_checkpoint(FORMAT_8.with_suffix(".safetensors"))
    save_checkpoint(tmp_path / "m.safetensors", tensors, header | {"format": version})
    with pytest.raises(SalaError, match=word):
        LabelModel.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("part", ["belonging", "config", "note"])
def test_a_damaged_model_of_format_8_is_refused(tmp_path: Path, part: str) -> None:
    tensors, header = load_checkpoint(FORMAT_8.with_suffix(".safetensors"))
    for wrong in ({k: v for k, v in header.items() if k != part}, header | {part: 3}):
        save_checkpoint(tmp_path / "m.safetensors", tensors, wrong)
        with pytest.raises(SalaError, match="changed or damaged"):
            LabelModel.load(tmp_path / "m.safetensors")

"""The fitted model: its predictions, its suggestions, its file, and files that are no model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sala.classifier.fit import ClassifierConfig, LabelModel, fit_pool
from sala.classifier.model_file import FORMAT, KIND
from sala.classifier.whitening import Whitening
from sala.errors import SalaError
from sala.training.checkpoint import load_checkpoint, save_checkpoint
from tests.helpers.pools import blobs, task


@pytest.fixture(scope="module")
def model() -> LabelModel:
    support, labels, pool, _ = task()
    return fit_pool(support, labels, pool, outliers=pool[-2:]).model


@pytest.fixture
def path(model: LabelModel, tmp_path: Path) -> Path:
    """A model in a file."""
    model.save(tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


@pytest.mark.parametrize(
    "wrong",
    [{"outlier_share": 1.0}, {"outlier_share": 0.0}, {"dimension": 0}, {"concentration": "x"}, {"similarity": None},
     {"evidence_scale": -1.0}, {"evidence_center": math.nan}, {"concentration": 1e300}, {"x": 1}],
)  # fmt: skip
def test_a_model_file_with_an_impossible_mixture_is_refused(path: Path, wrong: dict[str, object]) -> None:
    tensors, note = load_checkpoint(path)
    save_checkpoint(path, tensors, note | {"mixture": note["mixture"] | wrong})
    with pytest.raises(SalaError, match="changed or damaged"):
        LabelModel.load(path)


def test_a_model_that_was_saved_predicts_the_same(tmp_path: Path) -> None:
    support, labels, pool, _ = task(noise=0.3)
    fitted = fit_pool(support, labels, pool, classes=["a", "<b>", "c 'd'", "é"])
    replace(fitted.model, note={"encoder": "lite0"}).save(tmp_path / "model.safetensors")
    loaded = LabelModel.load(tmp_path / "model.safetensors")
    assert loaded.classes == ("a", "<b>", "c 'd'", "é") and loaded.note == {"encoder": "lite0"}
    assert loaded.config == fitted.model.config
    for one, other in zip(vars(loaded.predict(pool)).values(), vars(fitted.model.predict(pool)).values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_without_steps_the_fitted_pool_and_a_prediction_agree() -> None:
    """But for neighbors: an image is none of its own."""
    support, labels, pool, _ = task(noise=0.3)
    plain = fit_pool(support, labels, pool, config=ClassifierConfig(n_steps=0))
    as_new = plain.model.predict(pool)
    np.testing.assert_allclose(as_new.probabilities, plain.pool.probabilities, atol=1e-5)
    np.testing.assert_allclose(as_new.outlier_probability, plain.pool.outlier_probability, atol=0.1)


def test_in_a_large_pool_an_images_own_part_is_small() -> None:
    (support, labels), (pool, _) = blobs([2, 2, 2], seed=1, noise=0.2), blobs([1_000] * 3, n_outliers=300, noise=0.2)
    fitted = fit_pool(support, labels, pool)
    as_new = fitted.model.predict(pool)
    assert (as_new.label == fitted.pool.label).mean() > 0.995
    assert np.abs(as_new.probabilities - fitted.pool.probabilities).mean() < 0.005
    assert np.abs(as_new.outlier_probability - fitted.pool.outlier_probability).mean() < 0.02


def test_in_a_small_pool_an_image_that_is_used_is_nearer_to_its_class_than_as_a_new_one() -> None:
    support, labels, pool, _ = task(noise=0.3)
    fitted = fit_pool(support, labels, pool)
    as_new = fitted.model.predict(pool)
    assert (as_new.label == fitted.pool.label)[fitted.pool.probabilities.max(1) > 0.8].all()
    assert (as_new.probabilities.max(1) >= fitted.pool.probabilities.max(1) - 1e-5)[fitted.pool.used].mean() > 0.95


@pytest.mark.parametrize("content", [b"", b"\x08\0\0\0\0\0\0\0{}      ", b"x" * 100])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(SalaError):
        LabelModel.load(tmp_path / "model.safetensors")


def test_features_of_another_encoder_are_refused(model: LabelModel) -> None:
    for wrong in (np.ones((2, 5), np.float32), np.ones(64, np.float32)):
        with pytest.raises(SalaError, match=r"features \[n, 64\]"):
            model.predict(wrong)


def test_features_that_are_not_finite_are_refused_with_their_row(model: LabelModel) -> None:
    new = task()[2]
    for wrong in (math.nan, math.inf):
        new[3, 5] = wrong
        with pytest.raises(SalaError, match="row 3"):
            model.predict(new)


TENSORS = [
    "center", "scale", "whitening_directions", "whitening_shrinkage", "prototypes", "inlier_prototypes",
    "labeled_prototypes", "log_sizes", "known_outliers", "neighbor_directions", "neighbor_points", "neighbor_values",
]  # fmt: skip


def test_these_are_the_tensors_of_a_model_file(path: Path) -> None:
    assert sorted(load_checkpoint(path)[0]) == sorted(TENSORS)


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("wrong", ["nan", "double", "shape", "scalar", "shorter", "huge", "missing"])
def test_a_model_file_whose_tensors_are_wrong_is_refused(path: Path, name: str, wrong: str) -> None:
    tensors, note = load_checkpoint(path)
    x = tensors.pop(name)
    changed = {
        "nan": torch.full_like(x, math.nan),
        "double": x.double(),
        "shape": x[..., None].contiguous(),
        "scalar": torch.tensor(1.0),
        "shorter": x[..., :-1].contiguous(),
        "huge": torch.full_like(x, 1e38 if name not in ("center", "scale") else math.inf),
    }
    save_checkpoint(path, tensors | ({} if wrong == "missing" else {name: changed[wrong]}), note)
    with pytest.raises(SalaError, match="changed or damaged"):
        LabelModel.load(path)


@pytest.mark.parametrize(
    "wrong",
    [{"inverse_temperature": -3.0}, {"inverse_temperature": math.nan}, {"inverse_temperature": "1"}, {"classes": ["a"]},
     {"classes": []}, {"mixture": 3}, {"config": {}}, {"config": 3}, {"note": 3}, {"classes": ["a", "a", "b", "c"]}],
)  # fmt: skip
def test_a_model_file_whose_header_is_wrong_is_refused(path: Path, wrong: dict[str, object]) -> None:
    tensors, note = load_checkpoint(path)
    for header in (note | wrong, {key: value for key, value in note.items() if key not in wrong}):
        save_checkpoint(path, tensors, header)
        with pytest.raises(SalaError, match="changed or damaged"):
            LabelModel.load(path)


@pytest.mark.parametrize("wrong", [{"n_steps": -1}, {"n_steps": 1.5}, {"prior_strength": 0}, {"prior_strength": "a"}])
def test_a_model_file_whose_hyper_parameters_are_wrong_is_refused(path: Path, wrong: dict[str, object]) -> None:
    tensors, note = load_checkpoint(path)
    save_checkpoint(path, tensors, note | {"config": note["config"] | wrong})
    with pytest.raises(SalaError, match="changed or damaged"):
        LabelModel.load(path)


@pytest.mark.parametrize("wrong", ["too much", "too long", "too many"])
def test_a_model_with_an_impossible_whitening_is_refused(model: LabelModel, tmp_path: Path, wrong: str) -> None:
    v = model.whitening
    changed = {
        "too much": Whitening(v.directions, v.shrinkage + 50),
        "too long": Whitening(1e18 * v.directions, v.shrinkage),
        "too many": Whitening(torch.eye(64).repeat(1, 2), torch.zeros(128)),
    }[wrong]
    replace(model, whitening=changed).save(tmp_path / "m.safetensors")
    with pytest.raises(SalaError, match="do not fit each other"):
        LabelModel.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("options", [{"n_directions": 0}, {"n_steps": 0}, {"n_steps": np.int64(2)}])
def test_a_model_of_any_hyper_parameters_can_be_saved(tmp_path: Path, options: dict[str, int]) -> None:
    support, labels, pool, _ = task()
    fitted = fit_pool(support, labels, pool, config=ClassifierConfig(**options)).model
    fitted.save(tmp_path / "m.safetensors")
    loaded = LabelModel.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(pool).probabilities, fitted.predict(pool).probabilities)


@pytest.mark.parametrize("n_pool", [0, 1])
def test_a_model_of_an_empty_pool_can_be_saved(tmp_path: Path, n_pool: int) -> None:
    support, labels, pool, _ = task()
    fit_pool(support, labels, pool[:n_pool]).model.save(tmp_path / "m.safetensors")
    assert LabelModel.load(tmp_path / "m.safetensors").predict(pool).label.shape == (len(pool),)


@pytest.mark.parametrize(("version", "word"), [(8, "older"), (9, "older"), (FORMAT + 1, "newer"), (None, "older")])
def test_models_of_other_formats_are_refused(path: Path, version: object, word: str) -> None:
    """In a sentence that says what to do, whatever else the file holds."""
    save_checkpoint(path, {"hubness": torch.zeros(3)}, {"kind": KIND, "format": version})
    with pytest.raises(SalaError, match=f"{word} version of sala .*; .*make it again with `sala label`"):
        LabelModel.load(path)

"""From images to features, as a scikit-learn transformer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from sala import ImageEncoder, SALAClassifier
from sala.errors import SalaError


def colored_files(folder: Path) -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(0)
    paths = []
    for i in range(12):
        pixels = rng.integers(0, 80, (8, 8, 3)).astype(np.uint8)
        pixels[..., i % 2] += 150
        paths.append(str(folder / f"{i}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return paths, np.array(["red", "green"])[np.arange(12) % 2]


class MeanColor:
    name, identity, image_size, mode = "mean-color", "mean-color-of-estimator", 8, "RGB"

    def embed(self, images: np.ndarray) -> np.ndarray:
        return images.mean((1, 2)).astype(np.float32)


def test_a_pipeline_goes_from_files_to_labels(tmp_path: Path) -> None:
    paths, truth = colored_files(tmp_path)
    pipeline = make_pipeline(ImageEncoder(MeanColor(), cache=False), SALAClassifier())
    y = np.where(np.arange(12) < 4, truth, "")
    assert (clone(pipeline).fit(paths, y).predict(paths) == truth).all()
    assert cross_val_score(pipeline, paths, truth, cv=3).mean() == 1


def test_images_in_memory_have_the_features_of_their_files(tmp_path: Path) -> None:
    paths, _ = colored_files(tmp_path)
    encoder = ImageEncoder(MeanColor(), cache=False)
    images = np.stack([np.asarray(Image.open(path)) for path in paths])
    np.testing.assert_array_equal(encoder.fit_transform(images), encoder.fit_transform(paths))


def test_an_unreadable_image_is_named_or_nan(tmp_path: Path) -> None:
    paths, _ = colored_files(tmp_path)
    (tmp_path / "bad.png").write_bytes(b"")
    with pytest.raises(SalaError, match=r"1 of 13 images cannot be used: .*bad\.png"):
        ImageEncoder(MeanColor(), cache=False).transform([*paths, str(tmp_path / "bad.png")])
    encoder = ImageEncoder(MeanColor(), cache=False, on_error="nan")
    features = encoder.transform([*paths, str(tmp_path / "bad.png")])
    assert np.isnan(features[-1]).all() and np.isfinite(features[:-1]).all()


def test_arrays_that_are_no_images_are_refused() -> None:
    with pytest.raises(SalaError, match="uint8"):
        ImageEncoder(MeanColor()).transform(np.zeros((2, 8, 8, 3)))


def test_likely_mistakes_with_paths_are_refused(tmp_path: Path) -> None:
    encoder = ImageEncoder(MeanColor())
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    path = tmp_path / "a.png"
    for one in (path, str(path)):
        with pytest.raises(SalaError, match="one path"):
            encoder.transform(one)
    with pytest.raises(SalaError, match="number 1 is NoneType"):
        encoder.transform([path, None])
    with pytest.raises(SalaError, match="number 1 is ndarray"):
        encoder.transform([path, np.zeros((8, 8, 3), np.uint8)])
    with pytest.raises(SalaError, match="number 1 is NoneType"):
        encoder.transform([np.zeros((8, 8, 3), np.uint8), None])
    with pytest.raises(SalaError, match="one color image"):
        encoder.transform(np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(SalaError, match="got 2"):
        encoder.transform(np.array([[str(path), "x"]], dtype=object))
    with pytest.raises(ValueError, match="on_error"):
        ImageEncoder(MeanColor(), on_error="ignore").transform([path])
    expected = encoder.transform([path])
    for form in (iter([path]), (path,), np.array([[str(path)]], dtype=object), np.array([str(path)])):
        np.testing.assert_array_equal(encoder.transform(form), expected)

"""scikit-learn's contract, and what is ours beyond it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import sala
from sala.errors import SalaError


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass() -> None:
    results = check_estimator(sala.SALAClassifier())
    assert sum(r["status"] == "passed" for r in results) > 40
    assert not [r["check_name"] for r in results if r["status"] in ("failed", "xfail")]


def test_minus_one_and_one_are_two_classes_and_said_to_be() -> None:
    x, y = two_classes()
    with pytest.warns(UserWarning, match="taken as two classes"):
        model = sala.SALAClassifier().fit(x, 2 * y - 1)
    assert model.classes_.tolist() == [-1, 1] and (model.predict(x) == 2 * y - 1).all()
    one = np.where(np.arange(40) < 3, 0, -1)  # one class, called 0: the others are unlabelled
    assert sala.SALAClassifier().fit(x, one).classes_.tolist() == [0]


def two_classes() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.repeat([[1.0, 0, 0], [0, 1.0, 0]], 20, 0) + 0.1 * rng.standard_normal((40, 3))
    return x.astype(np.float32), np.repeat([0, 1], 20)


def test_unlabelled_rows_are_labelled_and_given_labels_stay() -> None:
    x, truth = two_classes()
    y = np.full(40, -1)
    y[[0, 20]] = [0, 1]
    fitted = sala.SALAClassifier().fit(x, y)
    assert (fitted.transduction_ == truth).all()
    assert fitted.score(x, truth) == 1
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.label_distributions_.shape == (40, 2) and fitted.none_scores_.shape == (40,)
    assert fitted.used_[[0, 20]].all() and not {0, 20} & set(fitted.label_next_.tolist())


class NAType:
    """As pandas' missing value: it cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("mark", [None, "", "-1", -1, float("nan"), np.float32("nan"), NAType()])
def test_texts_are_labels_too(mark: object) -> None:
    x, truth = two_classes()
    y = np.array([mark] * 40, dtype=object)
    y[[0, 20]] = ["owl", "cat"]
    fitted = sala.SALAClassifier().fit(x, y)
    assert fitted.classes_.tolist() == ["cat", "owl"]
    assert (fitted.predict(x) == np.array(["owl", "cat"])[truth]).all()


def test_unlabelled_rows_are_not_scored() -> None:
    x, truth = two_classes()
    y = np.where(np.arange(40) % 4 == 0, truth, -1)
    fitted = sala.SALAClassifier().fit(x, y)
    assert fitted.score(x, y) == 1 == fitted.score(x, truth)
    wrong = np.where(y < 0, -1, 1 - y)
    assert fitted.score(x, wrong) == 0
    assert fitted.score(x, np.where(np.arange(40) == 0, 1 - y, y)) == pytest.approx(0.9)
    weight = np.where(np.arange(40) == 0, 0.0, 1.0)
    assert fitted.score(x, np.where(np.arange(40) == 0, 1 - y, y), weight) == 1
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    assert cross_val_score(sala.SALAClassifier(), x, y, cv=folds).min() == 1
    with pytest.raises(ValueError, match="no row is labelled"):
        fitted.score(x, np.full(40, -1))
    for wrong_length in ((x, y[:7], None), (x[:7], y, None), (x, y, weight[:7])):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            fitted.score(*wrong_length)
    mixed = sala.SALAClassifier().fit(x, np.array([0 if label == 0 else "b" for label in truth], dtype=object))
    assert mixed.score(x[:20], np.array([0] * 20, dtype=object)) == 1
    texts = np.array([None if label < 0 else "ab"[label] for label in y], dtype=object)
    assert sala.SALAClassifier().fit(x, texts).score(x, texts) == 1


@pytest.mark.parametrize(
    "options",
    [{"n_steps": -1}, {"n_steps": 2.0}, {"n_steps": 1.5}, {"sharpness": -4}, {"sharpness": "a"}, {"anchor": 2},
     {"labelled_weight": 0}, {"sharpness": float("nan")}],
)  # fmt: skip
def test_impossible_parameters_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="whole numbers from 0 on"):
        sala.SALAClassifier(**options).fit(*two_classes())


def test_nothing_labelled_is_refused() -> None:
    with pytest.raises(ValueError, match="no row is labelled"):
        sala.SALAClassifier().fit(np.ones((3, 2)), [-1, -1, -1])


def coloured_files(folder: Path) -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(0)
    paths = []
    for i in range(12):
        pixels = rng.integers(0, 80, (8, 8, 3)).astype(np.uint8)
        pixels[..., i % 2] += 150
        paths.append(str(folder / f"{i}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return paths, np.array(["red", "green"])[np.arange(12) % 2]


class MeanColour:
    name, identity, image_size, mode = "mean-colour", "mean-colour-of-estimator", 8, "RGB"

    def embed(self, images: np.ndarray) -> np.ndarray:
        return images.mean((1, 2)).astype(np.float32)


def test_a_pipeline_goes_from_files_to_labels(tmp_path: Path) -> None:
    paths, truth = coloured_files(tmp_path)
    pipeline = make_pipeline(sala.ImageEncoder(MeanColour(), cache=False), sala.SALAClassifier())
    y = np.where(np.arange(12) < 4, truth, "")
    assert (clone(pipeline).fit(paths, y).predict(paths) == truth).all()
    assert cross_val_score(pipeline, paths, truth, cv=3).mean() == 1


def test_images_in_memory_have_the_features_of_their_files(tmp_path: Path) -> None:
    paths, _ = coloured_files(tmp_path)
    encoder = sala.ImageEncoder(MeanColour(), cache=False)
    images = np.stack([np.asarray(Image.open(path)) for path in paths])
    np.testing.assert_array_equal(encoder.fit_transform(images), encoder.fit_transform(paths))


def test_an_unreadable_image_is_named_or_nan(tmp_path: Path) -> None:
    paths, _ = coloured_files(tmp_path)
    (tmp_path / "bad.png").write_bytes(b"")
    with pytest.raises(SalaError, match=r"1 of 13 images cannot be used: .*bad\.png"):
        sala.ImageEncoder(MeanColour(), cache=False).transform([*paths, str(tmp_path / "bad.png")])
    features = sala.ImageEncoder(MeanColour(), cache=False, on_error="nan").transform(
        [*paths, str(tmp_path / "bad.png")]
    )
    assert np.isnan(features[-1]).all() and np.isfinite(features[:-1]).all()


def test_images_that_are_none_are_refused() -> None:
    with pytest.raises(SalaError, match="uint8"):
        sala.ImageEncoder(MeanColour()).transform(np.zeros((2, 8, 8, 3)))


def test_likely_mistakes_with_paths_get_a_sentence(tmp_path: Path) -> None:
    encoder = sala.ImageEncoder(encoder=Seen())
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    path = tmp_path / "a.png"
    for one in (path, str(path)):
        with pytest.raises(SalaError, match="X is one path; give a list of paths"):
            encoder.transform(one)
    with pytest.raises(SalaError, match="all of one kind; number 1 is NoneType"):
        encoder.transform([path, None])
    with pytest.raises(SalaError, match="all of one kind; number 1 is ndarray"):
        encoder.transform([path, np.zeros((8, 8, 3), np.uint8)])
    with pytest.raises(SalaError, match="all of one kind; number 1 is NoneType"):
        encoder.transform([np.zeros((8, 8, 3), np.uint8), None])
    with pytest.raises(SalaError, match="looks like one image in colour"):
        encoder.transform(np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(SalaError, match="a table of 2 columns"):
        encoder.transform(np.array([[str(path), "x"]], dtype=object))
    with pytest.raises(ValueError, match="on_error is"):
        sala.ImageEncoder(encoder=Seen(), on_error="ignore").transform([path])
    expected = encoder.transform([path])
    for form in (iter([path]), (path,), np.array([[str(path)]], dtype=object), np.array([str(path)])):
        np.testing.assert_array_equal(encoder.transform(form), expected)


class Seen:
    """The mean of each channel."""

    name, identity, image_size, mode = "seen", "seen", 8, "RGB"

    def embed(self, images: np.ndarray) -> np.ndarray:
        return images.mean((1, 2)).astype(np.float32)


def test_rows_that_are_said_to_be_junk_tell_of_others() -> None:
    x, y = two_classes()
    rng = np.random.default_rng(1)
    junk = (np.array([0.5, 0.5, 0.7]) + 0.1 * rng.standard_normal((12, 3))).astype(np.float32)
    rows, labels = (
        np.concatenate([x, junk[:8]]),
        np.concatenate([np.where(np.arange(40) % 20 < 2, y, -1), np.full(8, -1)]),
    )
    before, after = (sala.SALAClassifier().fit(rows, labels, junk=more) for more in (None, junk[8:]))
    assert (after.none_scores_[40:] > before.none_scores_[40:]).all()
    assert after.model_.known.marked.shape == (4, 3)
    with pytest.raises(ValueError, match="features"):
        sala.SALAClassifier().fit(rows, labels, junk=junk[:, :2])

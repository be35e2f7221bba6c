"""scikit-learn's contract for `SALAClassifier`, and what it adds to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from sala import SALAClassifier


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass() -> None:
    """Without a marker of unlabeled rows: scikit-learn's checks call classes -1 and 1, but for its own classes."""
    results = check_estimator(SALAClassifier(unlabeled=None))
    assert sum(r["status"] == "passed" for r in results) > 40
    assert not [r["check_name"] for r in results if r["status"] in ("failed", "xfail")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_by_default_all_checks_pass_but_that_with_a_class_minus_one() -> None:
    results = check_estimator(
        SALAClassifier(), expected_failed_checks={"check_classifiers_classes": "-1 marks unlabeled rows"}
    )
    assert not [r["check_name"] for r in results if r["status"] == "failed"]


def test_minus_one_is_unlabeled_unless_the_marker_is_another() -> None:
    x, y = two_classes()
    assert SALAClassifier().fit(x, 2 * y - 1).classes_.tolist() == [1]
    model = SALAClassifier(unlabeled=None).fit(x, 2 * y - 1)
    assert model.classes_.tolist() == [-1, 1] and (model.predict(x) == 2 * y - 1).all()
    assert model.score(x, 2 * y - 1) == 1


@pytest.mark.parametrize("marker", [7, -2.5, None, "", "?", float("nan"), "unknown"])
def test_any_value_marks_unlabeled_rows(marker: Any) -> None:
    x, truth = two_classes()
    y = np.array([marker] * 40, dtype=object)
    y[[0, 20]] = truth[[0, 20]] if isinstance(marker, int | float) else ["a", "b"]
    fitted = clone(SALAClassifier(unlabeled=marker)).fit(x, y)
    assert fitted.classes_.tolist() in ([0, 1], ["a", "b"])
    assert (fitted.transduction_ == fitted.classes_[truth]).all() and fitted.score(x, y) == 1


def test_arrays_of_numbers_and_of_text_have_markers_too() -> None:
    x, truth = two_classes()
    is_given = np.isin(np.arange(40), [0, 20])
    for marker, y in (
        (-1, np.where(is_given, truth, -1)),
        (-1, np.where(is_given, truth, np.nan)),
        (float("nan"), np.where(is_given, truth, np.nan)),
        (9, np.where(is_given, truth.astype(np.uint8), 9)),
        ("no", np.where(is_given, np.array(["cat", "owl"])[truth], "no")),
        (-1, np.where(is_given, np.array(["cat", "owl"])[truth], "-1")),
    ):
        fitted = SALAClassifier(unlabeled=marker).fit(x, y)
        assert len(fitted.classes_) == 2 and (fitted.transduction_ == fitted.classes_[truth]).all()


def test_the_marker_of_another_type_marks_nothing() -> None:
    x, truth = two_classes()
    assert SALAClassifier(unlabeled="?").fit(x, 2 * truth - 1).classes_.tolist() == [-1, 1]


def two_classes() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.repeat([[1.0, 0, 0], [0, 1.0, 0]], 20, 0) + 0.1 * rng.standard_normal((40, 3))
    return x.astype(np.float32), np.repeat([0, 1], 20)


def test_unlabeled_rows_are_labeled_and_given_labels_stay() -> None:
    x, truth = two_classes()
    y = np.full(40, -1)
    y[[0, 20]] = [0, 1]
    fitted = SALAClassifier().fit(x, y)
    assert (fitted.transduction_ == truth).all()
    assert fitted.score(x, truth) == 1
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.label_distributions_.shape == (40, 2) and fitted.outlier_proba_.shape == (40,)
    assert fitted.used_[[0, 20]].all() and not {0, 20} & set(fitted.suggestions_.tolist())


class NAType:
    """As pandas' missing value: it cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("mark", [None, "", "-1", -1, float("nan"), np.float32("nan"), NAType()])
def test_missing_values_are_unlabeled_whatever_the_marker(mark: object) -> None:
    x, truth = two_classes()
    y = np.array([mark] * 40, dtype=object)
    y[[0, 20]] = ["owl", "cat"]
    fitted = SALAClassifier().fit(x, y)
    assert fitted.classes_.tolist() == ["cat", "owl"]
    assert (fitted.predict(x) == np.array(["owl", "cat"])[truth]).all()


def test_unlabeled_rows_are_not_scored() -> None:
    x, truth = two_classes()
    y = np.where(np.arange(40) % 4 == 0, truth, -1)
    fitted = SALAClassifier().fit(x, y)
    assert fitted.score(x, y) == 1 == fitted.score(x, truth)
    wrong = np.where(y < 0, -1, 1 - y)
    assert fitted.score(x, wrong) == 0
    assert fitted.score(x, np.where(np.arange(40) == 0, 1 - y, y)) == pytest.approx(0.9)
    weight = np.where(np.arange(40) == 0, 0.0, 1.0)
    assert fitted.score(x, np.where(np.arange(40) == 0, 1 - y, y), weight) == 1
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    assert cross_val_score(SALAClassifier(), x, y, cv=folds).min() == 1
    with pytest.raises(ValueError, match="at least one row"):
        fitted.score(x, np.full(40, -1))
    for wrong_length in ((x, y[:7], None), (x[:7], y, None), (x, y, weight[:7])):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            fitted.score(*wrong_length)
    mixed = SALAClassifier().fit(x, np.array([0 if label == 0 else "b" for label in truth], dtype=object))
    assert mixed.score(x[:20], np.array([0] * 20, dtype=object)) == 1
    texts = np.array([None if label < 0 else "ab"[label] for label in y], dtype=object)
    assert SALAClassifier().fit(x, texts).score(x, texts) == 1


@pytest.mark.parametrize(
    "options",
    [{"n_steps": -1}, {"n_steps": 2.0}, {"n_steps": "a"}, {"n_directions": -1}, {"n_directions": 1.5}, {"precision": 0},
     {"precision": 1.01}, {"precision": float("nan")}],
)  # fmt: skip
def test_parameters_out_of_range_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=rf"{next(iter(options))} must be"):
        SALAClassifier(**options).fit(*two_classes())


def test_a_y_without_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        SALAClassifier().fit(np.ones((3, 2)), [-1, -1, -1])


def test_known_outliers_raise_the_outlier_probability_of_rows_like_them() -> None:
    x, y = two_classes()
    rng = np.random.default_rng(1)
    outliers = (np.array([0.5, 0.5, 0.7]) + 0.1 * rng.standard_normal((12, 3))).astype(np.float32)
    rows = np.concatenate([x, outliers[:8]])
    labels = np.concatenate([np.where(np.arange(40) % 20 < 2, y, -1), np.full(8, -1)])
    before, after = (SALAClassifier().fit(rows, labels, outliers=more) for more in (None, outliers[8:]))
    assert (after.outlier_proba_[40:] > before.outlier_proba_[40:]).all()
    assert (after.outlier_proba(rows[40:]) > before.outlier_proba(rows[40:])).all()
    assert after.model_.mixture.known_outliers.shape == (4, 3)
    with pytest.raises(ValueError, match="features"):
        SALAClassifier().fit(rows, labels, outliers=outliers[:, :2])


def test_a_score_compares_whole_names() -> None:
    X, y = load_digits(return_X_y=True)
    X, names = X[:60], np.array(["cat", "dog"])[y[:60] % 2]
    classifier = SALAClassifier().fit(X, names.astype(object))
    longer = np.array([f"{name}fish" for name in names], dtype=object)
    assert classifier.score(X, longer) == 0.0
    assert classifier.score(X, names.astype(object)) == classifier.score(X, names)

"""scikit-learn's door: `SALAClassifier`, a semi-supervised classifier on features.

SALAClassifier().fit(X, y).transduction_  # y is -1 where a row is unlabeled
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from sala.classifier.coefficients import N_DIRECTIONS
from sala.classifier.config import ClassifierConfig
from sala.classifier.fit import PoolPredictions, fit_pool


class SALAClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Semi-supervised classifier for a few labeled and many unlabeled rows, some of which may be outliers.

    A mixture with a component per class and one for outliers, rows that belong to none of the classes. Probabilities are
    calibrated. X holds features of any encoder, on any scale; `ImageEncoder` makes them from images.

    Parameters
    ----------
    n_steps : int, default 4
        Steps of EM, in which unlabeled rows move the prototypes. 0 classifies by the labeled rows alone.
    n_directions : int, default 8
        Directions of the largest within-class covariance that whitening shrinks. 0 turns whitening off.
    precision : float, default 0.9
        Wanted share of outliers among the rejected rows, above 0 and up to 1. It changes `rejected_` alone.
    unlabeled : object, default -1
        The value of y that marks an unlabeled row. None, NaN, pandas' NA and empty text always mark one too; with
        `unlabeled=None` only these do, so that -1 can be a class. Among labels of text, the text of a number marks: "-1".

    Attributes
    ----------
    classes_ : array of shape (k,)
        The classes, sorted.
    transduction_ : array of shape (n,)
        A class for every row of X; given labels are kept.
    label_distributions_ : array of shape (n, k)
        Class probabilities of every row of X; 0 and 1 for labeled rows.
    outlier_proba_ : array of shape (n,)
        Probability that a row of X belongs to none of the classes; 0 for labeled rows.
    rejection_threshold_ : float
        The outlier probability above which a row is rejected; see `rejection_threshold`.
    rejected_ : bool array of shape (n,)
        Whether a row of X is rejected as an outlier. Of new rows these are `outlier_proba(X) > rejection_threshold_`.
    used_ : bool array of shape (n,)
        Whether a row took part in the prototypes.
    suggestions_ : int array of shape (m,)
        Rows of X whose label would help most, in order (active learning).
    model_ : LabelModel
        The fitted model: `model_.save(path)` writes it, `LabelModel.load(path)` reads it.

    See Also
    --------
    fit_pool : the same without scikit-learn.
    label_folder : the same for folders of images, and for `sala predict`.

    Notes
    -----
    `unlabeled=-1` follows `sklearn.semi_supervised`: a y of -1 and 1 is one class and unlabeled rows. For two classes give
    `unlabeled=None`.

    Examples
    --------
    Three classes of 20 rows, three of them labeled, and 10 outliers:

    >>> import numpy as np
    >>> from sala import SALAClassifier
    >>> rng = np.random.default_rng(0)
    >>> centers = rng.normal(size=(3, 64))
    >>> X = np.repeat(centers, 20, axis=0) + 0.3 * rng.normal(size=(60, 64))
    >>> X = np.concatenate([X, rng.normal(size=(10, 64))])
    >>> y = np.full(70, -1)
    >>> y[:3], y[20:23], y[40:43] = 0, 1, 2
    >>> classifier = SALAClassifier().fit(X, y)
    >>> classifier.transduction_[:60].reshape(3, 20).mean(axis=1)
    array([0., 1., 2.])
    >>> bool(classifier.outlier_proba_[60:].min() > classifier.outlier_proba_[:60].max())
    True
    >>> classifier.rejected_.any()  # that takes an example of an outlier, or more labeled rows
    np.False_
    >>> classifier = SALAClassifier().fit(X[:66], y[:66], outliers=X[66:])
    >>> np.flatnonzero(classifier.rejected_)
    array([60, 61, 62, 63, 64, 65])
    >>> classifier.predict(centers)
    array([0, 1, 2])
    """

    def __init__(self, n_steps: int = 4, n_directions: int = N_DIRECTIONS, precision: float = 0.9, unlabeled: Any = -1):
        self.n_steps = n_steps
        self.n_directions = n_directions
        self.precision = precision
        self.unlabeled = unlabeled

    def fit(self, X: Any, y: Any, outliers: Any = None) -> SALAClassifier:
        """Fit the classifier to labeled and unlabeled rows.

        Parameters
        ----------
        X : array of shape (n, d)
            Features, labeled and unlabeled rows together.
        y : array of shape (n,)
            Labels, of any type; `unlabeled` where a row has none.
        outliers : array of shape (m, d), optional
            Features of known outliers, beside X: rows like them become more probably outliers.

        Raises
        ------
        ValueError
            If no row is labeled, shapes do not agree, or a parameter is out of range.
        """
        if y is None:
            raise ValueError(
                f"requires y to be passed, but the target y is None: give labels, {self.unlabeled!r} for none"
            )
        if not 0 < self.precision <= 1:
            raise ValueError(f"precision must be above 0 and at most 1: got {self.precision!r}; the default is 0.9")
        X = validate_data(self, X, dtype=np.float32)
        outliers = None if outliers is None else validate_data(self, outliers, reset=False, dtype=np.float32)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        is_labeled = ~is_unlabeled(y, self.unlabeled)
        values = _labels(y[is_labeled])
        check_classification_targets(values)
        if not is_labeled.any():
            raise ValueError(f"y must label at least one row: all {len(y)} are unlabeled; label one row of each class")
        self.classes_, labels = np.unique(values, return_inverse=True)
        config = ClassifierConfig(n_steps=self.n_steps, n_directions=self.n_directions)
        fitted = fit_pool(
            X[is_labeled], labels, X[~is_labeled], classes=self.classes_.tolist(), outliers=outliers, config=config
        )
        self.model_ = fitted.model
        self._keep(is_labeled, labels, fitted.pool)
        self.rejection_threshold_ = fitted.rejection_threshold(self.precision)
        self.rejected_ = self.outlier_proba_.astype(np.float64) > self.rejection_threshold_
        return self

    def _keep(self, is_labeled: NDArray[np.bool_], labels: NDArray[np.int64], pool: PoolPredictions) -> None:
        n, rows = len(is_labeled), np.flatnonzero(~is_labeled)
        self.label_distributions_ = np.zeros((n, len(self.classes_)), np.float32)
        self.label_distributions_[is_labeled, labels] = 1
        self.label_distributions_[rows] = pool.probabilities
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]
        self.outlier_proba_ = np.zeros(n, np.float32)
        self.outlier_proba_[rows] = pool.outlier_probability
        self.used_ = is_labeled.copy()
        self.used_[rows] = pool.used
        self.suggestions_ = rows[pool.suggestions]

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row of X, [n, d] -> [n]."""
        best = self._predictions(X).label
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Calibrated class probabilities of each row, given that it belongs to one of the classes, [n, d] -> [n, k]."""
        return self._predictions(X).probabilities

    def outlier_proba(self, X: Any) -> NDArray[np.float32]:
        """The probability of each row to belong to none of the classes, [n, d] -> [n]."""
        return self._predictions(X).outlier_probability

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labeled rows; unlabeled rows are ignored, so that `cross_val_score` works on mixed data.

        Raises
        ------
        ValueError
            If no row is labeled.
        """
        check_is_fitted(self)
        y = column_or_1d(y)
        check_consistent_length(X, y, sample_weight)
        rows = np.flatnonzero(~is_unlabeled(y, self.unlabeled))
        if not len(rows):
            raise ValueError(f"y must label at least one row: all {len(y)} are unlabeled, there is nothing to score")
        weight = None if sample_weight is None else np.asarray(sample_weight)[rows]
        is_text = self.classes_.dtype.kind == "U"
        values = (y[rows].astype(str) if is_text else _labels(y[rows])) if y.dtype.kind == "O" else y[rows]
        return float(accuracy_score(values, self.predict(X)[rows], sample_weight=weight))

    def _predictions(self, X: Any) -> PoolPredictions:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, reset=False)
        model = replace(self.model_, config=replace(self.model_.config, n_suggestions=0))
        return model.predict(X)


def is_unlabeled(y: NDArray[Any], marker: Any) -> NDArray[np.bool_]:
    """Which rows of y are unlabeled: equal to the marker, or missing (None, NaN, pandas' NA, empty text)."""
    if y.dtype.kind not in "OU":
        is_marked = y == marker if isinstance(marker, Real) else np.zeros(len(y), bool)
        return np.asarray(is_marked | (y != y))  # NaN is not equal to itself
    texts = {"", str(marker)} if isinstance(marker, Real) else {""}
    return np.array([_is_missing(value) or value in texts or value == marker for value in y.tolist()], bool)


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ == "NAType":  # pandas' NA, whose comparisons are neither true nor false
        return True
    return bool(value != value)


def _labels(values: NDArray[Any]) -> NDArray[Any]:
    """Labels in an array of their common type."""
    return np.array(values.tolist()) if values.dtype.kind in "OU" else values

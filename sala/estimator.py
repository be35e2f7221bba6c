"""scikit-learn's contract: `SALAClassifier` on features, `ImageEncoder` from images to features.

    make_pipeline(ImageEncoder(), SALAClassifier()).fit(paths, labels)      # label -1: an unlabelled image

Unlabelled is -1 where labels are numbers; where they are text or mixed, -1, "-1", "", None and pandas' missing values are.
Numbers that are -1 and 1 and nothing else are the two classes that scikit-learn writes so, and a warning says it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from sala.data.images import resize, to_mode
from sala.encoders import Encoder, embed_files, open_encoder
from sala.encoders.base import Features
from sala.encoders.workers import batch_size, in_workers, is_thread_safe, one_thread_each
from sala.engine import EngineConfig, PoolLabels, fit_labels
from sala.errors import SalaError

UNLABELLED_TEXTS = ("", "-1")


class SALAClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Semi-supervised classifier on features: a few labelled rows, and unlabelled ones of which some may be junk.

    In `fit(X, y)` -1 marks an unlabelled row; `fit(X, y, junk=features)` has images beside them that are of no class, so that
    others like them are recognised. Parameters are those of `sala.engine.EngineConfig`. After `fit`: `classes_`;
    `transduction_`, a label for every row of X (given labels are kept); `label_distributions_`, its probabilities;
    `none_scores_`, the probability that a row is of none of the classes; `used_`, whether a row took part in the
    refinement; `label_next_`, the rows whose label would help most; `model_`, a `LabelModel` that can be saved.
    """

    def __init__(
        self,
        n_steps: int = 4,
        sharpness: float = 20.0,
        labelled_weight: float = 2.0,
        anchor: float | None = None,
        n_directions: int = 16,
        linear_weight: float | None = None,
    ):
        self.n_steps = n_steps
        self.sharpness = sharpness
        self.labelled_weight = labelled_weight
        self.anchor = anchor
        self.n_directions = n_directions
        self.linear_weight = linear_weight

    def fit(self, X: Any, y: Any, junk: Any = None) -> SALAClassifier:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: labels, and -1 for unlabelled rows")
        config = EngineConfig(**self.get_params())
        X = validate_data(self, X, dtype=np.float32)
        junk = None if junk is None else validate_data(self, junk, reset=False, dtype=np.float32)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        is_known, values = split_labels(y)
        check_classification_targets(values)
        if not is_known.any():
            raise ValueError("no row is labelled: y is -1 (or empty) throughout; label at least one image")
        self.classes_, labels = np.unique(values, return_inverse=True)
        names = self.classes_.tolist()
        fitted = fit_labels(X[is_known], labels, X[~is_known], classes=names, junk=junk, config=config)
        self.model_ = fitted.model
        self._keep(is_known, labels, fitted.pool)
        return self

    def _keep(self, is_known: NDArray[np.bool_], labels: NDArray[np.int64], pool: PoolLabels) -> None:
        n, rows = len(is_known), np.flatnonzero(~is_known)
        self.label_distributions_ = np.zeros((n, len(self.classes_)), np.float32)
        self.label_distributions_[is_known, labels] = 1
        self.label_distributions_[rows] = pool.probabilities
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]
        self.none_scores_ = np.zeros(n, np.float32)
        self.none_scores_[rows] = pool.none_score
        self.used_ = is_known.copy()
        self.used_[rows] = pool.used
        self.label_next_ = rows[pool.label_next]

    def predict(self, X: Any) -> NDArray[Any]:
        best = self._described(X).label
        labels: NDArray[Any] = self.classes_[best]
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Probabilities among the known classes, calibrated."""
        return self._described(X).probabilities

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows that have a label; of the others nobody knows, so that data with unlabelled rows can be
        cross-validated."""
        check_is_fitted(self)
        y = column_or_1d(y)
        check_consistent_length(X, y, sample_weight)
        rows = np.flatnonzero(known_rows(y)) if -1 not in self.classes_.tolist() else np.arange(len(y))
        if not len(rows):
            raise ValueError("no row is labelled: there is nothing to compare with")
        weight = None if sample_weight is None else np.asarray(sample_weight)[rows]
        values = y[rows].astype(self.classes_.dtype) if y.dtype.kind == "O" else y[rows]
        return float(accuracy_score(values, self.predict(_safe_indexing(X, rows)), sample_weight=weight))

    def none_score(self, X: Any) -> NDArray[np.float32]:
        """The probability that an image is of none of the classes."""
        return self._described(X).none_score

    def _described(self, X: Any) -> PoolLabels:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, reset=False)
        model = replace(self.model_, config=replace(self.model_.config, n_label_next=0))
        return model.predict(X)


def split_labels(y: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Which rows are labelled, and the labels of those."""
    is_known = known_rows(y)
    if y.dtype.kind in "OU":
        return is_known, np.array(y[is_known].tolist())
    if np.unique(y).tolist() == [-1, 1]:
        warnings.warn(
            "y is -1 and 1: taken as two classes. If -1 are unlabelled images and there is one class, call that class 0",
            stacklevel=3,
        )
        return np.ones(len(y), bool), y
    return is_known, y[is_known]


def known_rows(y: NDArray[Any]) -> NDArray[np.bool_]:
    if y.dtype.kind in "OU":
        return np.array([not is_unlabelled(value) for value in y], bool)
    is_known: NDArray[np.bool_] = y != -1
    return is_known


def is_unlabelled(value: object) -> bool:
    if (
        value is None
        or type(value).__name__ == "NAType"
        or (isinstance(value, float | np.floating) and math.isnan(value))
    ):
        return True  # NAType: pandas' NA, which is neither true nor false
    return value in UNLABELLED_TEXTS or (not isinstance(value, str) and value == -1)


class ImageEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """From images to features: X is paths of image files, or images as uint8 `[n, h, w]`, `[n, h, w, 3]` or a list of such.

    `encoder` is what `sala.encoders.open_encoder` takes. Features of files are cached on disk unless `cache=False`. A
    transformer keeps every row, so an image that cannot be read is an error that names it; with `on_error="nan"` its row
    is NaN instead. `sala.encoders.embed_files` sets such files aside.
    """

    def __init__(self, encoder: str | Path | Encoder = "lite0", cache: bool = True, on_error: str = "raise"):
        self.encoder = encoder
        self.cache = cache
        self.on_error = on_error

    def fit(self, X: Any = None, y: Any = None) -> ImageEncoder:
        """There is nothing to learn."""
        self._check()
        return self

    def transform(self, X: Any) -> Features:
        self._check()
        images = as_images(X)
        encoder = open_encoder(self.encoder)
        return self._of_files(images, encoder) if is_paths(images) else embed_arrays(images, encoder)

    def _check(self) -> None:
        if self.on_error not in ("raise", "nan"):
            raise ValueError(f'on_error is "raise" or "nan"; got {self.on_error!r}')

    def _of_files(self, paths: Sequence[str | Path], encoder: Encoder) -> Features:
        embedded = embed_files(list(paths), encoder, cache=self.cache)
        if embedded.set_aside and (self.on_error == "raise" or not len(embedded.kept)):
            problems = list(embedded.set_aside.values())
            raise SalaError(f"{len(problems)} of {len(paths)} images cannot be used: {'; '.join(problems[:3])}")
        features = np.full((len(paths), embedded.features.shape[1]), np.nan, np.float32)
        features[embedded.kept] = embedded.features
        return features

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def as_images(X: Any) -> Any:
    """A list of paths, or images one after the other; a column of a table is a list."""
    if isinstance(X, str | Path):
        raise SalaError(f"X is one path; give a list of paths: [{str(X)!r}]")
    if hasattr(X, "columns") or (isinstance(X, np.ndarray) and X.dtype.kind in "OU"):
        table = np.asarray(X, dtype=object)
        if table.ndim == 2 and table.shape[1] != 1:
            raise SalaError(f"X is a table of {table.shape[1]} columns; give the one with the paths")
        X = table.ravel().tolist()
    if not isinstance(X, np.ndarray):
        X = list(X)
        kinds = [None if x is None else isinstance(x, str | Path) for x in X]
        odd = next((i for i, kind in enumerate(kinds) if kind is None or kind != kinds[0]), None)
        if odd is not None:
            raise SalaError(f"images are paths or arrays, all of one kind; number {odd} is {type(X[odd]).__name__}")
    elif X.ndim == 3 and X.shape[-1] in (3, 4):
        raise SalaError(f"X is {list(X.shape)}, which looks like one image in colour; give a list of images")
    return X


def is_paths(images: Any) -> bool:
    return len(images) > 0 and isinstance(images[0], str | Path)


def embed_arrays(images: Sequence[NDArray[np.uint8]] | NDArray[np.uint8], encoder: Encoder) -> Features:
    """Features of images in memory, brought to the encoder's size."""
    if not len(images):
        raise SalaError("there are no images to embed; give one at least")
    starts = range(0, len(images), n := batch_size(encoder))

    def embed(start: int) -> Features:
        return encoder.embed(np.stack([_fitting(image, encoder) for image in images[start : start + n]]))

    if not is_thread_safe(encoder):
        return np.concatenate([embed(start) for start in starts])
    with one_thread_each():
        return np.concatenate(list(in_workers(embed, starts)))


def _fitting(image: Any, encoder: Encoder) -> NDArray[np.uint8]:
    array = np.asarray(image)
    array = array[..., 0] if array.ndim == 3 and array.shape[-1] == 1 else array
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[-1] not in (3, 4)):
        raise SalaError(f"an image is uint8 [h, w], [h, w, 3] or [h, w, 4]; got {array.dtype} {list(array.shape)}")
    return resize(to_mode(Image.fromarray(array), encoder.mode), encoder.image_size)

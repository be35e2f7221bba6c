"""The one labeling pipeline: a project with features and given labels in, predictions and a model out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sala.classifier.fit import HeldOut, LabelModel, fit_pool
from sala.encoders import EmbedProgress, Encoder, open_encoder
from sala.encoders.base import Features
from sala.labeling.answers import UserAnswers
from sala.labeling.embedding import ProjectFeatures, describe_encoder, embed_project
from sala.labeling.places import Places
from sala.labeling.predictions import Ints, Predictions, Row, Thresholds, find_thresholds
from sala.labeling.project import OUTLIER, UNLABELED, Project, open_project
from sala.labeling.recalibration import answered_threshold
from sala.labeling.table import Table


@dataclass(frozen=True)
class Examples:
    """The labeled images that count, each content once: image i is of class labels[i] of the model."""

    classes: tuple[str, ...]
    paths: list[Path]
    labels: list[int]


@dataclass(frozen=True)
class LabelingResult:
    """Predictions for a pool, the model that made them, and what there is to tell of the images.

    Attributes
    ----------
    images : ProjectFeatures
        The images with their features, and the labels that were given for some.
    predictions : Predictions
        One table: label, probabilities and verdict of every image.
    model : LabelModel
        For `sala predict` and `predict_files`; `model.save(path)` writes it.
    held_out : HeldOut
        Cross-validated predictions of labeled images; `check` makes something of them.
    rejection_obstacle : str
        Why nothing can be rejected, in one sentence; empty where something can.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from sala import LabelingResult, label_folder
    >>> class MeanColor:
    ...     name, identity, image_size, mode = "mean-color", "mean-color-1", 8, "RGB"
    ...
    ...     def embed(self, images):
    ...         return images.mean((1, 2)).astype("float32")
    >>> root = Path(tempfile.mkdtemp())
    >>> for place, color in [("red/1", "red"), ("blue/1", "blue"), ("../pool/2", "darkred"), ("../pool/3", "navy")]:
    ...     path = (root / "labeled" / f"{place}.png").resolve()
    ...     path.parent.mkdir(parents=True, exist_ok=True)
    ...     Image.new("RGB", (32, 32), color).save(path)
    >>> result = label_folder(root / "labeled", root / "pool", MeanColor())
    >>> isinstance(result, LabelingResult)
    True
    >>> result.model.classes
    ('blue', 'red')
    >>> result.predictions.label[result.pool].tolist()  # one number for each image of the pool
    [1, 0]
    """

    images: ProjectFeatures
    predictions: Predictions
    model: LabelModel
    held_out: HeldOut
    rejection_obstacle: str = ""

    @property
    def project(self) -> Project:
        """The images, with the labels that came with some."""
        return self.images.project

    @property
    def n_cached(self) -> int:
        """Images whose features were computed before."""
        return self.images.n_cached

    @property
    def thresholds(self) -> Thresholds:
        """What parts confident, uncertain and rejected images."""
        return self.predictions.thresholds

    @property
    def skipped(self) -> dict[Path, str]:
        """Files that could not be used, with the reasons."""
        return self.project.skipped

    @property
    def pool(self) -> Ints:
        """The images of the pool, by number."""
        return np.flatnonzero(self.project.is_pool)

    @property
    def paths(self) -> list[Path]:
        """Of the pool's images, in the order of `rows`."""
        return [self.project.path(i) for i in self.pool.tolist()]

    def rows(self) -> Iterator[Row]:
        """One row for each image of the pool."""
        return self.rows_of(self.pool.tolist())

    def rows_of(self, images: Sequence[int]) -> Iterator[Row]:
        """One row for each of some images, by number."""
        return self.predictions.rows(self.project.path, images, self.project.place)

    @property
    def suggestions(self) -> Ints:
        """Rows whose label would help most, in order (active learning)."""
        found: Ints = np.searchsorted(self.pool, self.predictions.suggestions)
        return found

    @cached_property
    def examples(self) -> Examples:
        given, names = self.predictions.given, self.predictions.names
        number = {name: c for c, name in enumerate(self.model.classes)}
        labels = [number[names[c]] for c in given[self.labeled]]
        return Examples(self.model.classes, [self.project.path(i) for i in self.labeled.tolist()], labels)

    @property
    def labeled(self) -> Ints:
        """The labeled images that count, each content once, by number."""
        return np.flatnonzero((self.predictions.given >= 0) & self._is_first)

    @property
    def n_outliers(self) -> int:
        """Known outliers, each content once."""
        return int((self.predictions.given[self._is_first] == OUTLIER).sum())

    @property
    def n_copies(self) -> int:
        """Pool images with the content of another unlabeled one."""
        return self._n_copies(self.predictions.given == UNLABELED)

    @property
    def n_labeled_copies(self) -> int:
        """Pool images with the content of a labeled one."""
        return self._n_copies(self.predictions.given >= 0)

    @property
    def n_outlier_copies(self) -> int:
        """Pool images with the content of a known outlier."""
        return self._n_copies(self.predictions.given == OUTLIER)

    def _n_copies(self, among: NDArray[np.bool_]) -> int:
        return int((among & ~self._is_first & self.project.is_pool).sum())

    @property
    def _is_first(self) -> NDArray[np.bool_]:
        is_first: NDArray[np.bool_] = self.project.first == np.arange(len(self.project.first))
        return is_first


def label_folder(
    labeled: Path | str | None,
    pool: Path | str,
    encoder: Encoder | str = "lite0",
    *,
    labels: Path | str | None = None,
    outliers: Path | str | None = None,
    precision: float = 0.9,
    which: str = "",
    progress: Callable[[EmbedProgress], None] | None = None,
) -> LabelingResult:
    """Label a folder of images from a few examples of each class.

    Parameters
    ----------
    labeled : path or None
        A folder with a folder of images for each class; None where `labels` is given.
    pool : path
        A folder of images to label, and all below it.
    encoder : str or Encoder
        What `open_encoder` takes, or an opened one.
    labels : path, optional
        A CSV file with columns `path` and `label`, in place of `labeled`.
    outliers : path, optional
        A folder of images that are of none of the classes.
    precision : float
        Labels are confident from this probability on; of the rejected images this share is expected to be outliers.
    which : str, optional
        How a later command opens an encoder that was passed opened.
    progress : callable, optional
        Told of images on their way to features.

    Returns
    -------
    LabelingResult

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> from sala import label_folder
    >>> class MeanColor:
    ...     name, identity, image_size, mode = "mean-color", "mean-color-1", 8, "RGB"
    ...
    ...     def embed(self, images):
    ...         return images.mean((1, 2)).astype("float32")
    >>> root = Path(tempfile.mkdtemp())
    >>> for i, (place, color) in enumerate(
    ...     [("labeled/red", "red"), ("labeled/blue", "blue"), ("pool", "darkred"), ("pool", "navy")]
    ... ):
    ...     (root / place).mkdir(parents=True, exist_ok=True)
    ...     Image.new("RGB", (32, 32), color).save(root / place / f"{i}.png")
    >>> result = label_folder(root / "labeled", root / "pool", MeanColor())
    >>> [(row.path.name, row.label) for row in result.rows()]
    [('2.png', 'red'), ('3.png', 'blue')]
    """
    if isinstance(encoder, str):
        which, encoder = which or describe_encoder(encoder), open_encoder(encoder)
    named = (None if place is None else Path(place) for place in (labeled, labels, outliers))
    images = embed_project(open_project(Places(Path(pool), *named)), encoder, which=which, progress=progress)
    return classify(images, precision=precision)


def classify(
    images: ProjectFeatures,
    names: Sequence[str] | None = None,
    given: Ints | None = None,
    *,
    precision: float = 0.9,
    answers: UserAnswers | None = None,
) -> LabelingResult:
    """Predictions for all images of a project. `names` and `given` stand for corrected labels in place of the project's own;
    one class at least has an example. The rejection threshold follows `answers`, which tell how right predictions were."""
    project, features = images.project, images.features
    names, given = tuple(project.classes if names is None else names), project.given if given is None else given
    is_first = project.first == np.arange(len(given))
    rows, labeled, outliers = (
        np.flatnonzero(which & is_first) for which in (given == UNLABELED, given >= 0, given == OUTLIER)
    )
    active = np.unique(given[labeled])  # classes that have an example
    y = np.searchsorted(active, given[labeled])
    fitted = fit_pool(
        features[labeled], y, _rows(features, rows), classes=[names[c] for c in active], outliers=features[outliers]
    )
    thresholds = find_thresholds(fitted, precision)
    claims = answers.claims if answers else ()
    outlier = answered_threshold(thresholds.outlier, fitted.pool.outlier_probability, precision, claims)
    thresholds = replace(thresholds, outlier=outlier)
    table = Table(len(given))
    table.fill(rows, active, fitted.pool)
    table.fill_given(np.concatenate([labeled, outliers]), active, given, fitted.model, features)
    note = {
        "encoder": images.encoder,
        "thresholds": thresholds.to_json(),
        "labeled": {names[c]: int((y == i).sum()) for i, c in enumerate(active)},
        "n_pool": int(project.is_pool.sum()),
    }
    return LabelingResult(
        images,
        table.predictions(project.first, names, given, thresholds, answers.is_confirmed if answers else None),
        replace(fitted.model, note=note),
        fitted.held_out,
        fitted.rejection_obstacle if outlier >= 1 else "",
    )


def no_predictions(project: Project, names: Sequence[str], given: Ints, precision: float) -> Predictions:
    """For a project in which no class has an example yet."""
    table = Table(len(given))
    table.outlier_probability[given == OUTLIER] = 1
    return table.predictions(project.first, tuple(names), given, Thresholds(precision, 1.0, max(precision, 0.5)))


def _rows(features: Features, rows: Ints) -> Features:
    """A view where the rows follow each other: the features of a large pool are not held twice."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        return features[rows[0] : rows[-1] + 1]
    return features[rows]

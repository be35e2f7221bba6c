"""What labeling gives: one table of predictions for a pool, and the model that made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sala.classifier.fit import HeldOut, LabelModel
from sala.labeling.embedding import ProjectFeatures
from sala.labeling.predictions import Ints, Predictions, RejectionBasis, Row, Thresholds
from sala.labeling.project import OUTLIER, UNLABELED, Project


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
    rejection_basis : RejectionBasis
        What the rejection threshold rests on.

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
    rejection_basis: RejectionBasis = field(default_factory=RejectionBasis)

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

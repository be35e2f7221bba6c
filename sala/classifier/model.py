"""The fitted classifier: what it is made of, what it predicts, and its file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sala.atomic import write_atomically
from sala.classifier.config import ClassifierConfig
from sala.classifier.model_file import FORMAT, KIND, class_names, damaged, number, numbers_of, read_model
from sala.classifier.normalize import Floats, normalized, to_tensor
from sala.classifier.outlier_model import LARGEST, OutlierModel
from sala.classifier.outliers import OutlierDetector
from sala.classifier.predictions import PoolPredictions
from sala.classifier.prototypes import anchored
from sala.classifier.suggestions import suggestions
from sala.classifier.whitening import Whitening
from sala.data.tensors import tensor_bytes
from sala.errors import SalaError


@dataclass(frozen=True)
class LabelModel:
    """A classifier fitted by `fit_pool`: it predicts new images from their features, and can be saved.

    Parameters
    ----------
    classes : tuple of str
        Names of the k classes.
    center, scale : Tensor of shape (d,)
        Normalization of the features.
    outlier_detector : OutlierDetector
        Gives outlier probabilities, on embeddings before whitening.
    whitening : Whitening
        Shrinks directions of high within-class covariance before classes are compared.
    first_prototypes : Tensor of shape (k, d)
        Prototypes of the labeled images alone.
    hubness : Tensor of shape (k,)
        Subtracted from similarities to the first prototypes (CSLS).
    refined_prototypes : Tensor of shape (k, d)
        Prototypes refined by the pool.
    linear : Tensor of shape (k, d)
        Linear classifier of the labeled images, times its weight; zeros where it does not count.
    anchor : float
        Share of the first prototypes in those that classify.
    inverse_temperature : float
        Of the softmax that turns similarities into probabilities.
    config : ClassifierConfig
        Hyper-parameters of the fit.
    note : dict
        For the caller, kept in the file: encoder, date, ...

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from sala import LabelModel, fit_pool
    >>> labeled = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], np.float32)
    >>> pool = np.array([[0.9, 0.1, 0.0], [0.1, 0.9, 0.1], [0.8, 0.0, 0.1]], np.float32)
    >>> model = fit_pool(labeled, np.array([0, 1]), pool, classes=["cat", "owl"]).model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "model.safetensors")
    ...     loaded = LabelModel.load(Path(folder) / "model.safetensors")
    >>> new = np.array([[0.2, 0.7, 0.0]], np.float32)
    >>> [loaded.classes[c] for c in loaded.predict(new).label]
    ['owl']
    """

    classes: tuple[str, ...]
    center: Tensor
    scale: Tensor
    outlier_detector: OutlierDetector
    whitening: Whitening
    first_prototypes: Tensor
    hubness: Tensor
    refined_prototypes: Tensor
    linear: Tensor
    anchor: float
    inverse_temperature: float
    config: ClassifierConfig = field(default_factory=ClassifierConfig)
    note: dict[str, Any] = field(default_factory=dict)

    def predict(self, features: Floats) -> PoolPredictions:
        """Predictions for new images, which do not change the model.

        Parameters
        ----------
        features : array of shape (n, d)
            From the encoder that the model was fitted with.

        Returns
        -------
        PoolPredictions

        Raises
        ------
        SalaError
            If the features have another width, or are not finite.
        """
        if features.ndim != 2 or features.shape[1] != len(self.center):
            raise SalaError(
                f"the model expects features [n, {len(self.center)}]: got {list(features.shape)}; use the encoder that it "
                "was fitted with"
            )
        embeddings = normalized(to_tensor(features), self.center, self.scale)
        outlier_probability = self.outlier_detector.outlier_probability(embeddings)
        if not outlier_probability.isfinite().all():
            row = int((~outlier_probability.isfinite()).nonzero()[0])
            raise SalaError(f"features must be finite: row {row} has nan, infinite or too large ones; leave it out")
        embeddings = self.whitening.apply_(embeddings)
        to_first = embeddings @ self.first_prototypes.T - self.hubness
        similarities = anchored(embeddings @ self.refined_prototypes.T, to_first, self.anchor)
        return self.describe(embeddings, similarities + embeddings @ self.linear.T, outlier_probability)

    def describe(
        self, embeddings: Tensor, similarities: Tensor, outlier_probability: Tensor, used: Tensor | None = None
    ) -> PoolPredictions:  # [n, d], [n, k], [n], [n]
        """Predictions from similarities to the classes that are already there."""
        p = (self.inverse_temperature * similarities).softmax(-1)
        label = p.argmax(-1, keepdim=True)
        runner_up = p.scatter(1, label, -1.0).argmax(-1)  # of one class, that class
        return PoolPredictions(
            probabilities=p.numpy(),
            label=label[:, 0].numpy(),
            runner_up=runner_up.numpy(),
            outlier_probability=outlier_probability.numpy(),
            used=np.zeros(len(embeddings), bool) if used is None else used.numpy(),
            suggestions=suggestions(embeddings, p, 1 - outlier_probability, self.config.n_suggestions).numpy(),
        )

    def save(self, path: Path | str) -> None:
        """Write one safetensors file with a JSON header, whole or not at all.

        Parameters
        ----------
        path : str or Path
            Where; a file that is there is replaced.
        """
        write_atomically(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """The content of that file."""
        header = {
            "format": FORMAT,
            "kind": KIND,
            "classes": list(self.classes),
            "outlier_model": vars(self.outlier_detector.model),
            "anchor": self.anchor,
            "inverse_temperature": self.inverse_temperature,
            "config": {key: _plain_number(value) for key, value in vars(self.config).items()},
            "note": self.note,
        }
        return tensor_bytes(self._tensors(), header)

    def _tensors(self) -> dict[str, Tensor]:
        """By their names in the file."""
        own = ("center", "scale", "first_prototypes", "hubness", "refined_prototypes", "linear")
        detector = self.outlier_detector
        return {name: getattr(self, name) for name in own} | {
            "whitening_directions": self.whitening.directions,
            "whitening_shrinkage": self.whitening.shrinkage,
            "detector_first_prototypes": detector.first,
            "detector_refined_prototypes": detector.refined,
            "outlier_prototypes": detector.outlier_prototypes,
            "known_outliers": detector.known_outliers,
        }

    @classmethod
    def load(cls, path: Path | str) -> LabelModel:
        """A model read from a file that `save` wrote, of this format or of the one before.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        LabelModel

        Raises
        ------
        SalaError
            If there is no such file, or it is no model, damaged, or of another format.
        """
        tensors, header = read_model(Path(path))
        try:
            model = cls._from_parts(tensors, header)
            model._check()
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise damaged(Path(path), error) from None
        return model

    @classmethod
    def _from_parts(cls, tensors: dict[str, Tensor], header: dict[str, Any]) -> LabelModel:
        detector = OutlierDetector(
            tensors["detector_first_prototypes"],
            tensors["detector_refined_prototypes"],
            tensors["outlier_prototypes"],
            tensors["known_outliers"],
            numbers_of(OutlierModel, header["outlier_model"]),
        )
        return cls(
            classes=class_names(header["classes"]),
            center=tensors["center"],
            scale=tensors["scale"],
            outlier_detector=detector,
            whitening=Whitening(tensors["whitening_directions"], tensors["whitening_shrinkage"]),
            first_prototypes=tensors["first_prototypes"],
            hubness=tensors["hubness"],
            refined_prototypes=tensors["refined_prototypes"],
            linear=tensors["linear"],
            anchor=number(header["anchor"]),
            inverse_temperature=number(header["inverse_temperature"]),
            config=numbers_of(ClassifierConfig, header["config"]),
            note=dict(header["note"]),
        )

    def _check(self) -> None:
        """Refuse parts that no fit has made: they would predict nonsense."""
        tensors, detector = self._tensors(), self.outlier_detector
        k, d, r = len(self.classes), len(self.center), len(self.whitening.shrinkage)
        shapes = {
            "center": (d,),
            "scale": (d,),
            "hubness": (k,),
            "whitening_directions": (d, r),
            "whitening_shrinkage": (r,),
            "outlier_prototypes": (len(detector.outlier_prototypes), d),
            "known_outliers": (len(detector.known_outliers), d),
        }
        fits = all(part.shape == shapes.get(name, (k, d)) for name, part in tensors.items())
        fits = fits and all(t.dtype == torch.float32 and bool(t.isfinite().all()) for t in tensors.values())
        compared = [part for name, part in tensors.items() if name not in ("center", "scale") and part.numel()]
        fits = fits and all(float(part.abs().max()) < LARGEST for part in compared)
        fits = fits and detector.model.n_way == k > 0 and self.whitening.is_valid() and bool((self.scale >= 0).all())
        if not fits:
            raise ValueError("its tensors do not fit each other, or are not finite")
        if not 0 <= self.anchor <= 1 or not 0 < self.inverse_temperature < LARGEST:
            raise ValueError("its temperature or anchor is out of range")
        self.config.check()


def _plain_number(value: Any) -> Any:
    """A Python number: JSON knows no numpy ones, as a search over np.arange gives them."""
    return value.item() if isinstance(value, np.generic) else value

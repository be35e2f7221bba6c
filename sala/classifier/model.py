"""The fitted classifier: what it is made of, what it predicts, and its file."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sala.atomic import write_atomically
from sala.classifier.calibration import outlier_log_odds
from sala.classifier.config import ClassifierConfig
from sala.classifier.mixture import Mixture
from sala.classifier.model_file import FORMAT, KIND, class_names, damaged, number, numbers_of, read_model
from sala.classifier.neighbors import Neighborhood
from sala.classifier.normalize import Floats, normalized, to_tensor
from sala.classifier.pipeline import outlier_evidence
from sala.classifier.predictions import PoolPredictions
from sala.classifier.suggestions import suggestions
from sala.classifier.whitening import Whitening
from sala.data.tensors import tensor_bytes
from sala.errors import SalaError

# of the tensors in a file: d features, k classes, r whitened directions, m known outliers, n neighbors in q directions
SHAPES = {
    "center": "d", "scale": "d", "whitening_directions": "dr", "whitening_shrinkage": "r", "prototypes": "kd",
    "inlier_prototypes": "kd", "labeled_prototypes": "kd", "log_sizes": "k", "known_outliers": "md",
    "neighbor_directions": "dq", "neighbor_points": "nq", "neighbor_values": "n",
}  # fmt: skip
MIXTURE_TENSORS, MIXTURE_NUMBERS = ([f.name for f in fields(Mixture) if f.type == kind] for kind in ("Tensor", "float"))
LARGEST = 1e6  # beyond it a number in a model file is damage


@dataclass(frozen=True)
class LabelModel:
    """A classifier fitted by `fit_pool`: it predicts new images from their features, and can be saved.

    Parameters
    ----------
    classes : tuple of str
        Names of the k classes.
    center, scale : Tensor of shape (d,)
        Normalization of the features.
    whitening : Whitening
        Shrinks directions of high within-class covariance.
    mixture : Mixture
        One component per class and one for outliers, on whitened embeddings.
    neighborhood : Neighborhood
        A sample of the pool, whose outliers have outliers near them.
    inverse_temperature : float
        Of the softmax that turns the mixture's logits into probabilities.
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
    whitening: Whitening
    mixture: Mixture
    neighborhood: Neighborhood
    inverse_temperature: float
    config: ClassifierConfig = field(default_factory=ClassifierConfig)
    note: dict[str, Any] = field(default_factory=dict)

    def predict(self, features: Floats) -> PoolPredictions:
        """Predictions for new images, features [n, d] of the encoder that the model was fitted with. The model stays as it is.

        Raises
        ------
        SalaError
            If the features have another width, or are not finite.
        """
        if features.ndim != 2 or features.shape[1] != len(self.center):
            raise SalaError(
                f"the model expects features [n, {len(self.center)}]: got {list(features.shape)}; use its own encoder"
            )
        embeddings, logits, evidence = self.scored(to_tensor(features))
        if not evidence.isfinite().all():
            row = int((~evidence.isfinite()).nonzero()[0, 0])
            raise SalaError(f"features must be finite: row {row} has nan, infinite or too large ones; leave it out")
        return self.describe(embeddings, logits, evidence)

    def scored(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # [n, d] -> [n, d], [n, k], [n, 2]
        """Whitened embeddings of new images, and what `describe` and `probabilities` want of them."""
        embeddings = self.whitening.apply_(normalized(features, self.center, self.scale))
        evidence = outlier_evidence(self.mixture, self.neighborhood, embeddings)
        return embeddings, self.mixture.logits(embeddings), evidence

    def describe(
        self, embeddings: Tensor, logits: Tensor, evidence: Tensor, used: Tensor | None = None
    ) -> PoolPredictions:  # [n, d], [n, k], [n, 2], [n]
        """Predictions from logits of classes and evidence of outliers that are already there."""
        p, outlier_probability = self.probabilities(logits, evidence)
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

    def probabilities(self, logits: Tensor, evidence: Tensor) -> tuple[Tensor, Tensor]:  # [n, k], [n, 2] -> [n, k], [n]
        """Calibrated probabilities of the classes, and of being an outlier."""
        p = (self.inverse_temperature * logits).softmax(-1)
        return p, outlier_log_odds(self.mixture, evidence, p).sigmoid()

    def save(self, path: Path | str) -> None:
        """Write one safetensors file with a JSON header, whole or not at all; a file that is there is replaced."""
        write_atomically(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """The content of that file."""
        header = {
            "format": FORMAT,
            "kind": KIND,
            "classes": list(self.classes),
            "mixture": {name: getattr(self.mixture, name) for name in MIXTURE_NUMBERS},
            "inverse_temperature": self.inverse_temperature,
            "config": {key: _plain_number(value) for key, value in vars(self.config).items()},
            "note": self.note,
        }
        return tensor_bytes(self._tensors(), header)

    def _tensors(self) -> dict[str, Tensor]:
        """By their names in the file."""
        parts = {"center": self.center, "scale": self.scale} | vars(self.mixture)
        parts |= {f"whitening_{name}": part for name, part in vars(self.whitening).items()}
        parts |= {f"neighbor_{name}": part for name, part in vars(self.neighborhood).items()}
        return {name: parts[name] for name in SHAPES}

    @classmethod
    def load(cls, path: Path | str) -> LabelModel:
        """A model read from a file that `save` wrote, of this format.

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
        if not isinstance(header["mixture"], dict) or set(header["mixture"]) != set(MIXTURE_NUMBERS):
            raise ValueError("unexpected fields of its mixture")
        parts: dict[str, Any] = {name: number(value) for name, value in header["mixture"].items()}
        parts |= {name: tensors[name] for name in MIXTURE_TENSORS}
        return cls(
            classes=class_names(header["classes"]),
            center=tensors["center"],
            scale=tensors["scale"],
            whitening=Whitening(tensors["whitening_directions"], tensors["whitening_shrinkage"]),
            mixture=Mixture(**parts),
            neighborhood=Neighborhood(*(tensors[f"neighbor_{name}"] for name in ("directions", "points", "values"))),
            inverse_temperature=number(header["inverse_temperature"]),
            config=numbers_of(ClassifierConfig, header["config"]),
            note=dict(header["note"]),
        )

    def _check(self) -> None:
        """Refuse parts that no fit has made: they would predict nonsense."""
        tensors, mixture, sizes = self._tensors(), self.mixture, {"k": len(self.classes)}
        for name, letters in SHAPES.items():
            part = tensors[name]
            fits = part.ndim == len(letters) and part.dtype == torch.float32 and bool(part.isfinite().all())
            fits = fits and all(sizes.setdefault(a, n) == n for a, n in zip(letters, part.shape, strict=True))
            if not fits or (letters != "d" and bool((part.abs() >= LARGEST).any())):
                raise ValueError(f"its tensors do not fit each other, or are not finite: {name}")
        if not sizes["k"] or not self.whitening.is_valid() or bool((self.scale < 0).any()):
            raise ValueError("its tensors do not fit each other: whitening, scale or number of classes")
        positive = (mixture.concentration, mixture.dimension, mixture.evidence_scale, self.inverse_temperature)
        if not all(0 < value < LARGEST for value in positive) or not 0 < mixture.outlier_share < 1:
            raise ValueError("its temperature or mixture is out of range")
        self.config.check()


def _plain_number(value: Any) -> Any:
    """A Python number: JSON knows no numpy ones, as a search over np.arange gives them."""
    return value.item() if isinstance(value, np.generic) else value

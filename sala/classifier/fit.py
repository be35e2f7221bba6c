"""Fit the classifier: labels for a pool of images from a few labeled ones, on features of any encoder.

    fitted = fit_pool(labeled, labels, pool, classes=names)  # features [s, d], labels 0 .. k-1, features [n, d]
    fitted.pool                                              # PoolPredictions, one row per pool image
    fitted.model                                             # LabelModel: predict(features), save(path), load(path)
    fitted.held_out                                          # HeldOut: cross-validated labeled images

The steps, one file each; the cost is linear in the pool:

1. normalize.py: center, scale and bring features to length 1, so that dot products are cosine similarities.
2. mixture.py: fit one component per class and one for outliers by EM. linear.py: what the labeled images decide alone.
3. whitening.py: down-weight directions of high within-class covariance. pipeline.py fits the mixture again.
4. neighbors.py: outliers are mostly near other outliers.
5. agreement.py, cross_validation.py, calibration.py: the temperature of the probabilities, from how far the pool agrees with
   itself and from held-out labeled images.
6. suggestions.py: images to label next (active learning). rejection.py: the threshold of rejection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sala.classifier.agreement import self_agreement, trust
from sala.classifier.calibration import fit_temperature, mean_confidence, temperature_prior
from sala.classifier.config import ClassifierConfig
from sala.classifier.cross_validation import N_FOLDS, N_FOLDS_LARGE_POOL, CrossValidated, cross_validate, sample_step
from sala.classifier.known_outliers import farthest_first
from sala.classifier.model import LabelModel
from sala.classifier.model_file import class_names
from sala.classifier.normalize import Floats, center_of, normalized, scale_of, to_tensor
from sala.classifier.pipeline import ClassifiedPool, classify_pool
from sala.classifier.predictions import PoolPredictions
from sala.classifier.rejection import obstacle, rejection_threshold
from sala.errors import SalaError
from sala.functional import one_hot

__all__ = ["ClassifierConfig", "Fitted", "HeldOut", "LabelModel", "PoolPredictions", "fit_pool"]


@dataclass(frozen=True)
class HeldOut:
    """Predictions for m labeled images of classes with two or more, each by a fit without it (of very many, for some)."""

    probabilities: Floats  # [m, k], of the classes
    labels: NDArray[np.int64]  # [m], the true ones
    outlier_probability: Floats  # [m]
    rows: NDArray[np.int64]  # [m], which of the labeled images they are


@dataclass(frozen=True)
class Fitted:
    """What `fit_pool` returns."""

    model: LabelModel  # predicts new images
    pool: PoolPredictions  # each image without its own part in the prototypes
    held_out: HeldOut  # for a reliability diagram

    @property
    def held_out_outlier_probability(self) -> Floats:  # [m]
        """Outlier probabilities of held-out images, for `rejection_threshold`. Empty where a class has a single image: its
        prototype is worse than those that the held-out images could vouch for."""
        covers_all = len(np.unique(self.held_out.labels)) == len(self.model.classes)
        return self.held_out.outlier_probability if covers_all else self.held_out.outlier_probability[:0]

    @property
    def rejection_obstacle(self) -> str:
        """Why nothing can be rejected, in one sentence; empty where something can."""
        n_pool, n_way = self.pool.probabilities.shape
        known = len(self.model.mixture.known_outliers)
        return obstacle(n_pool, n_way, len(self.held_out_outlier_probability), known)

    def rejection_threshold(self, precision: float = 0.9) -> float:
        """The outlier probability above which an image is rejected; 1, so that none is, where there is an obstacle."""
        found = rejection_threshold(self.pool.outlier_probability, precision, self.held_out_outlier_probability)
        return 1.0 if self.rejection_obstacle else found


@dataclass(frozen=True)
class TaskFeatures:
    """What a fit is made from."""

    support: Tensor  # [s, d]
    labels: Tensor  # [s]
    pool: Tensor  # [n, d]
    known_outliers: Tensor  # [m, d]

    def normalization(self) -> tuple[Tensor, Tensor]:  # [d], [d]
        center = center_of(self.support, self.labels, self.pool)
        return _finite(center), _finite(scale_of([self.support, self.pool], center))

    def classify(self, center: Tensor, scale: Tensor, config: ClassifierConfig) -> ClassifiedPool:
        parts = (self.pool, self.support, self.known_outliers)
        pool, support, known_outliers = (normalized(part, center, scale) for part in parts)
        return classify_pool(pool, support, self.labels, known_outliers, config)


@torch.inference_mode()
def fit_pool(
    labeled: Floats,
    labels: NDArray[np.int64],
    pool: Floats,
    *,
    classes: Sequence[str] | None = None,
    outliers: Floats | None = None,
    config: ClassifierConfig | None = None,
) -> Fitted:
    """A classifier fitted to a few labeled images and a pool of unlabeled ones, and its predictions for the pool.

    Parameters
    ----------
    labeled : array of shape (s, d)
        Features of the labeled images, from any encoder, on any scale.
    labels : int array of shape (s,)
        Their classes 0 .. k-1, each at least once.
    pool : array of shape (n, d)
        Features of the unlabeled images. It may be empty, and may contain outliers, which belong to none of the classes.
    classes : sequence of str, optional
        Names of the k classes. Default: "0", "1", ...
    outliers : array of shape (m, d), optional
        Features of known outliers: images like them become more probably outliers. They are not part of the pool.
    config : ClassifierConfig, optional
        Hyper-parameters.

    Returns
    -------
    Fitted
        With `pool`, `model` and `held_out`.

    Raises
    ------
    SalaError
        If shapes do not agree, a class has no image, or features are not finite.
    ValueError
        If a hyper-parameter is out of range.

    Examples
    --------
    One labeled image of each of three classes, and a pool of 20 images of each class and 10 outliers:

    >>> import numpy as np
    >>> from sala import fit_pool
    >>> rng = np.random.default_rng(0)
    >>> labeled = rng.normal(size=(3, 64)).astype(np.float32)
    >>> pool = np.repeat(labeled, 20, axis=0) + 0.3 * rng.normal(size=(60, 64))
    >>> pool = np.concatenate([pool, rng.normal(size=(10, 64))]).astype(np.float32)
    >>> fitted = fit_pool(labeled, np.array([0, 1, 2]), pool, classes=["cat", "dog", "owl"])
    >>> fitted.pool.label[:60].reshape(3, 20).mean(1)
    array([0., 1., 2.])
    >>> bool(fitted.pool.outlier_probability[60:].min() > fitted.pool.outlier_probability[:60].max())
    True
    >>> [fitted.model.classes[c] for c in fitted.model.predict(labeled).label]
    ['cat', 'dog', 'owl']
    """
    config = config or ClassifierConfig()
    config.check()
    outliers = labeled[:0] if outliers is None else outliers
    names = _checked_classes(labeled, labels, pool, outliers, classes)
    y = torch.from_numpy(np.asarray(labels, np.int64))
    return _fit(TaskFeatures(to_tensor(labeled), y, to_tensor(pool), to_tensor(outliers)), names, config)


def _fit(features: TaskFeatures, names: tuple[str, ...], config: ClassifierConfig) -> Fitted:
    center, scale = features.normalization()
    known = features.known_outliers
    features = replace(features, known_outliers=known[farthest_first(_finite(normalized(known, center, scale)))])
    found = features.classify(center, scale, config)
    held_out = held_out_of(features, normalized(features.support, center, scale), config)
    prior = temperature_prior(*pool_agreement(features, found, center, scale, config))
    beta = fit_temperature(held_out.logits, held_out.labels, prior, config.prior_strength)
    model = LabelModel(names, center, scale, found.whitening, found.mixture, found.neighborhood, beta, config)
    used = found.posterior.weights.sum(-1) > 0.5  # none without steps: weights are those that moved prototypes
    predictions = model.describe(found.embeddings, found.posterior.logits, found.outlier_evidence, used)
    probabilities, outlier = model.probabilities(held_out.logits, held_out.outlier_evidence)
    validated = HeldOut(probabilities.numpy(), held_out.labels.numpy(), outlier.numpy(), held_out.rows.numpy())
    return Fitted(model, predictions, validated)


def pool_agreement(
    features: TaskFeatures, found: ClassifiedPool, center: Tensor, scale: Tensor, config: ClassifierConfig
) -> tuple[float, float, list[float]]:
    """What `temperature_prior` wants: agreement, size and confidence of the pool, or of a sample of it."""
    step = sample_step(len(features.pool))
    parts = (features.pool[::step], features.support, features.known_outliers)
    pool, support, known = (normalized(part, center, scale) for part in parts)
    embeddings, images = found.embeddings[::step], torch.cat([pool, support])
    logits = torch.cat([found.posterior.logits[::step], found.mixture.logits(found.whitening.apply_(support))])
    labeled = one_hot(features.labels, logits.shape[1], like=logits)
    weights = torch.cat([found.mixture.weights(embeddings), labeled])

    def classify(rows: Tensor) -> ClassifiedPool:
        return classify_pool(pool.clone(), images[rows], features.labels, known.clone(), config)

    agreement = self_agreement(classify, features.labels, weights, logits)
    trusted = trust(weights[: len(pool)])
    n = float(trusted.sum())
    return float(trusted @ agreement) / max(n, 1e-9), n, mean_confidence(logits[: len(pool)], trusted)


def held_out_of(features: TaskFeatures, support: Tensor, config: ClassifierConfig) -> CrossValidated:  # [s, d]
    """Labeled images classified by fits without them; `support` are all of them, normalized."""
    step = sample_step(len(features.pool))
    sample, n_folds = features.pool[::step], N_FOLDS if step == 1 else N_FOLDS_LARGE_POOL

    def classify_without(kept: Tensor) -> tuple[ClassifiedPool, Callable[[Tensor], Tensor]]:
        fold = TaskFeatures(features.support[kept], features.labels[kept], sample, features.known_outliers)
        center, scale = fold.normalization()
        return fold.classify(center, scale, config), lambda rows: normalized(features.support[rows], center, scale)

    return cross_validate(support, features.labels, classify_without, n_folds)


def _finite(values: Tensor) -> Tensor:
    if not values.isfinite().all():
        raise SalaError(
            "features must be finite: some are nan, infinite or too large to be summed; leave their rows out"
        )
    return values


def _checked_classes(
    labeled: Floats, labels: NDArray[np.int64], pool: Floats, outliers: Floats, classes: Sequence[str] | None
) -> tuple[str, ...]:
    """The names of the classes, if shapes and labels are as `fit_pool` says."""
    shapes = [part.shape for part in (labeled, pool, outliers)]
    if any(len(shape) != 2 or shape[1] != shapes[0][1] for shape in shapes):
        shown = ", ".join(str(list(shape)) for shape in shapes)
        raise SalaError(f"features of labeled images, pool and outliers must be [n, d] with one d: got {shown}")
    if len(labels) != len(labeled):
        raise SalaError(f"expected one label per labeled image: got {len(labeled)} images, {len(labels)} labels")
    if not len(labeled):
        raise SalaError("expected labeled images: got none; label at least one image of each class")
    if not labeled.shape[1]:
        raise SalaError(f"features must have columns: got {list(labeled.shape)}; an encoder gives at least one")
    n_way = int(np.max(labels)) + 1 if classes is None else len(classes)
    missing = sorted(set(range(n_way)) - set(np.asarray(labels).tolist()))
    if missing or np.min(labels) < 0 or np.max(labels) >= n_way:
        raise SalaError(
            f"labels must be 0 .. {n_way - 1}, each at least once: got {np.min(labels)} .. {np.max(labels)}, without "
            f"{missing[:5]}; label an image of each class"
        )
    given = [str(name) for name in (range(n_way) if classes is None else classes)]
    try:
        return class_names(given)
    except ValueError as error:
        raise SalaError(f"{error}: got {given[:10]}") from None

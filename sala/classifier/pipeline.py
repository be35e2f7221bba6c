"""The steps that classify a pool: refine prototypes, detect outliers, whiten, refine once more."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sala.classifier.config import ClassifierConfig
from sala.classifier.outliers import OutlierDetector, detect_outliers
from sala.classifier.prototypes import Refined, anchored, refine, refine_again
from sala.classifier.whitening import Whitening, fit_whitening, no_whitening

WHITENING_SAMPLE = 1_000  # to 2,000 images of a pool, from which the within-class covariance is estimated


@dataclass(frozen=True)
class ClassifiedPool:
    """A pool after all steps, and what classifies further images as it was."""

    embeddings: Tensor  # [n, d], of the pool, whitened
    refined: Refined  # on whitened embeddings
    outlier_detector: OutlierDetector  # on embeddings before whitening
    outlier_probability: Tensor  # [n], of the pool
    whitening: Whitening

    def pool_similarities(self) -> Tensor:  # [n, k]
        """Similarities of the pool's images to the classes, each without its own part in the prototypes."""
        found = self.refined
        return anchored(found.to_refined(self.embeddings), found.to_first - found.hubness, found.anchor)

    def similarities(self, embeddings: Tensor) -> Tensor:  # [m, d] -> [m, k]
        """Similarities of new, whitened images to the classes."""
        found = self.refined
        return anchored(embeddings @ found.prototypes.T, embeddings @ found.first.T - found.hubness, found.anchor)


def classify_pool(
    pool: Tensor, support: Tensor, labels: Tensor, known_outliers: Tensor, config: ClassifierConfig
) -> ClassifiedPool:  # [n, d], [s, d], [s], [m, d]
    """The pool classified by labeled images `support`. Whitening overwrites `pool` and `support`."""
    found = refine(
        pool, support, labels, n_steps=config.n_steps, sharpness=config.sharpness, labeled_weight=config.labeled_weight,
        anchor=config.anchor,
    )  # fmt: skip
    detector, outlier_probability = detect_outliers(found, pool, known_outliers)
    whitening = no_whitening(pool)
    if config.n_steps and config.n_directions:
        rows = slice(None, None, max(1, len(pool) // WHITENING_SAMPLE))  # a regular sample of a large pool
        share = detector.model.outlier_share
        whitening = fit_whitening(pool[rows], found.weights[rows], share, config.n_directions)
        support, pool = (whitening.apply_(part) for part in (support, pool))
        found = refine_again(found, pool, support, 1 - outlier_probability, sharpness=config.sharpness)
    return ClassifiedPool(pool, found, detector, outlier_probability, whitening)

"""The steps that classify a pool: fit the mixture, whiten by it, fit it again, and ask each image's neighbors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sala.classifier.config import ClassifierConfig
from sala.classifier.mixture import Mixture, Posterior, fit_mixture
from sala.classifier.neighbors import Neighborhood, fit_neighborhood
from sala.classifier.whitening import Whitening, fit_whitening

SAMPLE = 1_000  # to 2,000 images of a large pool, to which the first mixture is fitted
N_LAST_STEPS = 3  # of EM on whitened embeddings, of all images


@dataclass(frozen=True)
class ClassifiedPool:
    """A pool after all steps, and what classifies further images as it was."""

    embeddings: Tensor  # [n, d], of the pool, whitened
    posterior: Posterior  # of the pool
    whitening: Whitening
    neighborhood: Neighborhood
    outlier_evidence: Tensor  # [n, 2], of the pool

    @property
    def mixture(self) -> Mixture:
        return self.posterior.mixture


def outlier_evidence(mixture: Mixture, neighborhood: Neighborhood, embeddings: Tensor) -> Tensor:  # [n, d] -> [n, 2]
    """Of new images, whitened: standardized evidence with that of the neighbors, and likeness to labeled images."""
    evidence = mixture.standardized(mixture.evidence(embeddings)) + neighborhood.mean_value(embeddings)
    return torch.stack([evidence, mixture.likeness(embeddings)], -1)


def classify_pool(
    pool: Tensor, support: Tensor, labels: Tensor, known_outliers: Tensor, config: ClassifierConfig
) -> ClassifiedPool:  # [n, d], [s, d], [s], [m, d]
    """The pool classified by labeled images `support`. Whitening overwrites all embeddings that are given."""
    rows = slice(None, None, max(1, len(pool) // SAMPLE))
    first = fit_mixture(pool[rows], support, labels, known_outliers, n_steps=config.n_steps)
    whitening = fit_whitening(pool[rows], first.weights, config.n_directions)
    weights = first.weights if len(pool[rows]) == len(pool) else first.mixture.weights(pool)
    pool, support, known = (whitening.apply_(part) for part in (pool, support, known_outliers))
    posterior = fit_mixture(
        pool, support, labels, known, n_steps=min(config.n_steps, N_LAST_STEPS),
        weights=weights if config.n_steps else None, outlier_share=first.mixture.outlier_share,
    )  # fmt: skip
    evidence = posterior.mixture.standardized(posterior.evidence)
    neighborhood, around = fit_neighborhood(pool, evidence)
    told = torch.stack([evidence + around, posterior.mixture.likeness(pool)], -1)
    return ClassifiedPool(pool, posterior, whitening, neighborhood, told)

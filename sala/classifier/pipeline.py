"""The steps that classify a pool: fit the mixture, whiten by it, fit it again, and ask each image's neighbors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sala.classifier import coefficients as chosen
from sala.classifier.config import ClassifierConfig
from sala.classifier.mixture import Mixture, Posterior, fit_mixture, log_odds
from sala.classifier.neighbors import Neighborhood, fit_neighborhood
from sala.classifier.whitening import Whitening, fit_whitening
from sala.functional import one_hot, unit_length

SAMPLE = 1_000  # to 2,000 images of a large pool, to which the first mixture is fitted
N_LAST_STEPS = 3  # of EM on whitened embeddings, of all images


@dataclass(frozen=True)
class ClassifiedPool:
    """A pool after all steps, and what classifies further images as it was."""

    embeddings: Tensor  # [n, d], of the pool, whitened
    posterior: Posterior  # of the pool
    whitening: Whitening
    neighborhood: Neighborhood
    outlier_log_odds: Tensor  # [n], of the pool
    labeled_directions: Tensor  # [k, d], of the labeled images alone, whitened

    @property
    def mixture(self) -> Mixture:
        return self.posterior.mixture


def outlier_log_odds(
    mixture: Mixture, neighborhood: Neighborhood, embeddings: Tensor
) -> Tensor:  # whitened [n, d] -> [n]
    """Calibrated log-odds of outliers of new images."""
    evidence = mixture.standardized(mixture.evidence(embeddings))
    return calibrated_log_odds(mixture, evidence, neighborhood.mean_value(embeddings))


def calibrated_log_odds(mixture: Mixture, evidence: Tensor, around: Tensor) -> Tensor:  # [n], [n] -> [n]
    """Log-odds of outliers from standardized evidence and the mean evidence of the neighbors."""
    return outlier_terms(mixture, evidence + around) @ evidence.new_tensor(chosen.OUTLIERS)


def outlier_terms(mixture: Mixture, s: Tensor) -> Tensor:  # [n] -> [n, 5]
    """1, s, log-odds of the outlier share, log(1 + m) and s log(1 + m): m known outliers make the evidence s say more."""
    known, share = math.log1p(len(mixture.known_outliers)), log_odds(mixture.outlier_share)
    one = torch.ones_like(s)
    return torch.stack([one, s, share * one, known * one, known * s], -1)


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
    directions = unit_length(one_hot(labels, int(labels.max()) + 1, like=support).T @ support)
    evidence = posterior.mixture.standardized(posterior.evidence)
    neighborhood, around = fit_neighborhood(pool, evidence)
    outlier = calibrated_log_odds(posterior.mixture, evidence, around)
    return ClassifiedPool(pool, posterior, whitening, neighborhood, outlier, directions)

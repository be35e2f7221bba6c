"""The model: a mixture of one component per class and one for outliers, on embeddings of length 1.

    p(x) = (1 - o) sum_c pi_c vMF(x; mu_c, kappa) + o U(x)

vMF is the von Mises-Fisher density on the sphere, with one concentration kappa for all classes, U the uniform density. Real
embeddings fill far fewer than their d dimensions, so both are taken on a sphere of the effective dimension D (Banerjee et al.,
JMLR 2005, with d). What remains of a component is its log-ratio to U, kappa (mu_c . x) - A(kappa). EM fits mu, pi, kappa and o
with the labeled images clamped to their classes. Each image is compared with prototypes without its own part in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sala.classifier import coefficients as chosen
from sala.classifier.linear import linear_classifier
from sala.functional import one_hot, unit_length

SAMPLE = 600  # images of a pool from which the effective dimension is estimated
TYPICAL_DIMENSION, DIMENSION_PAIRS = 40.0, 20.0  # of few images, and how many pairs of them that counts for
TYPICAL_SIMILARITY = 0.3  # of an image to its class; counts as one image
EVIDENCE_PRIOR = 2.0  # inliers as the mixture expects them, beside those of the pool
SIMILARITIES = (0.05, 0.95)  # range of the mean one, in which kappa is finite


@dataclass(frozen=True)
class Mixture:
    """A fitted mixture: gives the posterior of any image."""

    prototypes: Tensor  # [k, d], that tell classes: directions of the pool's classes and the linear classifier's share
    inlier_prototypes: Tensor  # [k, d], that tell inliers: more of the linear classifier
    labeled_prototypes: Tensor  # [k, d], directions of the labeled images alone
    log_sizes: Tensor  # [k], log pi
    known_outliers: Tensor  # [m, d], components of their own
    concentration: float  # kappa
    dimension: float  # D
    similarity: float  # mean similarity of an image to its class
    outlier_share: float  # o
    evidence_center: float = 0.0  # of the pool's inliers
    evidence_scale: float = 1.0

    def logits(self, embeddings: Tensor) -> Tensor:  # [n, d] -> [n, k]
        """kappa (mu_c . x) + log pi_c: their softmax is the posterior of the classes, given an inlier."""
        return self.concentration * (embeddings @ self.prototypes.T) + self.log_sizes

    def weights(self, embeddings: Tensor) -> Tensor:  # [n, d] -> [n, k]
        """The joint posterior of class and inlier."""
        inlier = torch.sigmoid(-self.evidence(embeddings) - log_odds(self.outlier_share))
        return self.logits(embeddings).softmax(-1) * inlier[:, None]

    def evidence(self, embeddings: Tensor) -> Tensor:  # [n, d] -> [n]
        """log p(x | outlier) / p(x | inlier)."""
        return self._evidence(embeddings @ self.inlier_prototypes.T, embeddings)

    def likeness(self, embeddings: Tensor) -> Tensor:  # [n, d] -> [n]
        """The largest similarity to the labeled images of a class, on which outliers in the pool have no influence."""
        return (embeddings @ self.labeled_prototypes.T).amax(-1)

    def standardized(self, evidence: Tensor) -> Tensor:
        """Evidence measured against that of the pool's inliers.

        The mixture takes the D similarities of an image for independent, which they are not: its evidence is right in order
        but too large in size.
        """
        return (evidence - self.evidence_center) / self.evidence_scale

    def _evidence(self, similarities: Tensor, embeddings: Tensor) -> Tensor:  # [n, k], [n, d] -> [n]
        ratio = log_partition(self.concentration, self.dimension)
        inlier = (self.concentration * similarities + self.log_sizes).logsumexp(-1) - ratio
        return self._known_evidence(embeddings, ratio) - inlier

    def _known_evidence(self, embeddings: Tensor, ratio: float) -> Tensor:  # [n, d] -> [n]
        """log p(x | outlier) / U(x): known outliers are components too; they and U have 1 / (m + 1) each."""
        m = len(self.known_outliers)
        if not m:
            return embeddings.new_zeros(embeddings.shape[0])
        near = (self.concentration * (embeddings @ self.known_outliers.T)).logsumexp(-1) - math.log(m) - ratio
        return torch.logaddexp(near + math.log(m / (m + 1)), near.new_tensor(math.log(1 / (m + 1))))


@dataclass(frozen=True)
class Posterior:
    """A pool under a mixture, each image compared without its own part in the prototypes."""

    mixture: Mixture
    logits: Tensor  # [n, k], of classes
    evidence: Tensor  # [n], log p(x | outlier) / p(x | inlier)
    weights: Tensor  # [n, k], joint posterior of class and inlier


def fit_mixture(
    pool: Tensor, support: Tensor, labels: Tensor, known_outliers: Tensor, *, n_steps: int,
    weights: Tensor | None = None, outlier_share: float = chosen.OUTLIER_SHARE,
) -> Posterior:  # [n, d], [s, d], [s], [m, d], [n, k]  # fmt: skip
    """EM from the labeled images alone, or from `weights` of an earlier fit."""
    n_way, n = int(labels.max()) + 1, len(pool)
    labeled = chosen.LABELED_WEIGHT * one_hot(labels, n_way, like=support).T @ support
    linear = linear_classifier(support, labels)
    to_linear, dimension = pool @ linear.T, effective_dimension(pool if n > 1 else support)
    has_direction = pool.any(-1, keepdim=True)  # an image exactly at the center moves nothing
    share = chosen.LINEAR_SHARE * (1 - n_way / len(labels))  # one image of a class: its direction is all there is
    inlier_share = share + chosen.INLIER_SHARE * (1 - share)
    is_first = weights is None
    w = pool.new_zeros(n, n_way) if weights is None else weights * has_direction
    for step in range(n_steps + 1):
        sums = labeled + w.T @ pool
        alone = leave_one_out_similarities(pool, sums, w)
        assigned = one_hot(alone.argmax(-1), n_way, like=pool) if is_first and n else w
        scale = _ratio(assigned * alone, assigned * to_linear)
        to_classes, to_inliers = ((1 - a) * alone + a * scale * to_linear for a in (share, inlier_share))
        similarity = mean_similarity(to_classes, assigned)
        directions, sizes = unit_length(sums), w.sum(0) + chosen.SIZE_PRIOR
        mixture = Mixture(
            (1 - share) * directions + share * scale * linear,
            (1 - inlier_share) * directions + inlier_share * scale * linear, unit_length(labeled),
            (sizes / sizes.sum()).log(), known_outliers, concentration(similarity, dimension), dimension, similarity,
            outlier_share,
        )  # fmt: skip
        logits = mixture.concentration * to_classes + mixture.log_sizes
        evidence = mixture._evidence(to_inliers, pool)
        if step == n_steps:
            break
        inlier = torch.sigmoid(-evidence - log_odds(outlier_share))
        w, is_first = logits.softmax(-1) * inlier[:, None] * has_direction, False
        expected = n - float(inlier.sum()) + chosen.OUTLIER_SHARE_PRIOR * chosen.OUTLIER_SHARE
        outlier_share = expected / (n + chosen.OUTLIER_SHARE_PRIOR)
    return Posterior(_with_evidence_scale(mixture, evidence, w.sum(-1)), logits, evidence, w)


def _with_evidence_scale(mixture: Mixture, evidence: Tensor, inlier: Tensor) -> Mixture:  # [n], [n]
    """The mixture with mean and standard deviation of its inliers' evidence, regularized by what it expects of them."""
    center = log_partition(mixture.concentration, mixture.dimension) - mixture.concentration * mixture.similarity
    variance = mixture.concentration**2 / mixture.dimension
    n = float(inlier.sum()) + EVIDENCE_PRIOR
    mean = (float((inlier * evidence).sum()) + EVIDENCE_PRIOR * center) / n
    squares = float((inlier * (evidence - mean).square()).sum()) + EVIDENCE_PRIOR * variance
    return replace(mixture, evidence_center=mean, evidence_scale=math.sqrt(squares / n))


def leave_one_out_similarities(x: Tensor, sums: Tensor, weights: Tensor) -> Tensor:  # [n, d], [k, d], [n, k] -> [n, k]
    """Similarities of images to the directions of sums, each image without its own part in them.

    With its own part an image would be too similar to the class that it has moved, the more so the smaller the class.
    u.(S - w u) / |S - w u|, where |S - w u|^2 = |S|^2 - 2 w u.S + w^2, since |u| = 1 or w = 0.
    """
    to_sums = x @ sums.T
    squares = sums.square().sum(-1) - weights * (2 * to_sums - weights)
    return (to_sums - weights) / squares.clamp_min(1e-12).sqrt()


def effective_dimension(embeddings: Tensor) -> float:  # [n, d]
    """1 / the mean squared similarity of two images: that of random directions in D dimensions is 1 / D."""
    sample = embeddings[:: -(-len(embeddings) // SAMPLE)] if len(embeddings) else embeddings
    sample = sample[sample.any(-1)]  # an image exactly at the center has no direction
    n = len(sample)
    squares = float((sample @ sample.T).square().sum() - sample.square().sum(-1).square().sum())
    return max(2.0, (n * (n - 1) + DIMENSION_PAIRS) / (squares + DIMENSION_PAIRS / TYPICAL_DIMENSION))


def mean_similarity(similarities: Tensor, weights: Tensor) -> float:  # [n, k], [n, k]
    """The mean similarity of the pool's images to their classes."""
    total, n = float((weights * similarities).sum()), float(weights.sum())
    return min(max((total + TYPICAL_SIMILARITY) / (n + 1), SIMILARITIES[0]), SIMILARITIES[1])


def concentration(similarity: float, dimension: float) -> float:
    """kappa of a mean similarity r: r D / (1 - r^2) (Banerjee et al., eq. 4.4, where D is large)."""
    return similarity * dimension / (1 - similarity**2)


def log_partition(kappa: float, dimension: float) -> float:
    """A(kappa) = log of the mean of exp(kappa mu.x) over the sphere, its leading term for a large dimension.

    A = D / 2 (r - 1 - log((1 + r) / 2)) with r = sqrt(1 + (2 kappa / D)^2), from the uniform expansion of the Bessel function.
    """
    r = math.sqrt(1 + (2 * kappa / dimension) ** 2)
    return dimension / 2 * (r - 1 - math.log((1 + r) / 2))


def log_odds(share: float) -> float:
    """log(share / (1 - share))."""
    return math.log(share / (1 - share))


def _ratio(a: Tensor, b: Tensor) -> float:
    """sum a / sum b, by which the linear classifier's responses become similarities; about 1 for few images."""
    return max(float(a.sum()) + TYPICAL_SIMILARITY, 0.0) / max(float(b.sum()) + TYPICAL_SIMILARITY, TYPICAL_SIMILARITY)

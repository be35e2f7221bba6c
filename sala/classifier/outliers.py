"""Where outliers are found: images of a pool that belong to none of the classes.

On embeddings before whitening, since the directions that whitening shrinks also tell outliers apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from sala.classifier.outlier_model import OutlierModel, Similarities, add_outlier_prototypes, fit_outlier_model
from sala.classifier.outlier_prototypes import outlier_prototypes
from sala.classifier.prototypes import Refined, multi_shot_rows


@dataclass(frozen=True)
class OutlierDetector:
    """Prototypes of classes and of outliers, known outliers, and the model of the similarities to them."""

    first: Tensor  # [k, d], of the labeled images alone
    refined: Tensor  # [k, d]
    outlier_prototypes: Tensor  # [j, d]; there may be none
    known_outliers: Tensor  # [m, d]; there may be none
    model: OutlierModel

    def outlier_probability(self, embeddings: Tensor) -> Tensor:  # [n, d] -> [n]
        """Outlier probabilities of new images."""
        to_prototypes = (embeddings @ part.T for part in (self.first, self.refined, self.outlier_prototypes))
        return self.model.outlier_probability(self.model.similarity(*to_prototypes), self._known_evidence(embeddings))

    def _known_evidence(self, embeddings: Tensor) -> Tensor:  # [n, d] -> [n]
        known = self.known_outliers
        return self.model.known_outlier_evidence(embeddings @ known.T, known @ known.T)


def detect_outliers(
    found: Refined, pool: Tensor, known_outliers: Tensor
) -> tuple[OutlierDetector, Tensor]:  # [n, d], [m, d] -> [n]
    """A detector fitted to a refinement, and the outlier probabilities of the pool, each image without its own part in the
    prototypes of classes."""
    first = Similarities(found.to_first, found.held_out(1.0))
    refined = Similarities(found.to_refined(pool), found.held_out(0.0))
    before = fit_outlier_model(first, refined, len(found.support) / len(found.first))
    suspected = before.outlier_probability(before.similarity(first.pool, refined.pool, pool[:, :0]))
    prototypes = outlier_prototypes(pool, suspected)
    to_outliers = Similarities(pool @ prototypes.T, found.support[multi_shot_rows(found.labels)] @ prototypes.T)
    model = add_outlier_prototypes(before, first, refined, to_outliers)
    detector = OutlierDetector(found.first.clone(), found.prototypes, prototypes, known_outliers, model)
    similarity = model.similarity(first.pool, refined.pool, to_outliers.pool)
    return detector, model.outlier_probability(similarity, detector._known_evidence(pool))

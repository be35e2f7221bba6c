"""The one labeling pipeline: a project with features and given labels in, predictions and a model out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sala.classifier.fit import Fitted
from sala.encoders import EmbedProgress, Encoder, open_encoder
from sala.encoders.base import Features
from sala.labeling.answers import UserAnswers
from sala.labeling.descriptions import Descriptions, described, fit_described
from sala.labeling.embedding import ProjectFeatures, describe_encoder, embed_project
from sala.labeling.large_pools import fit_rows
from sala.labeling.places import Places
from sala.labeling.predictions import Ints, Predictions, RejectionBasis, Thresholds, find_thresholds
from sala.labeling.project import OUTLIER, UNLABELED, Project, open_project
from sala.labeling.recalibration import answered_threshold
from sala.labeling.result import LabelingResult
from sala.labeling.table import Table

__all__ = ["LabelingResult", "classify", "label_folder", "no_predictions"]


def label_folder(
    labeled: Path | str | None,
    pool: Path | str,
    encoder: Encoder | str = "lite0",
    *,
    labels: Path | str | None = None,
    outliers: Path | str | None = None,
    precision: float = 0.9,
    describe: Sequence[str] = (),
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
        Of the rejected images this share is expected to be outliers; labels are confident from `(1 + precision) / 2` on.
    describe : sequence of str, optional
        Experimental, for encoders of images and text: "CLASS=TEXT", or a text with {} for the name of each class, such as
        "a photo of a {}". Texts count as prior examples; how many is chosen on held-out labeled images.
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
    project = open_project(Places(Path(pool), *named))
    descriptions = described(describe, project.classes, encoder) if describe else None  # may be refused
    images = embed_project(project, encoder, which=which, progress=progress)
    return classify(images, precision=precision, descriptions=descriptions)


def classify(
    images: ProjectFeatures,
    names: Sequence[str] | None = None,
    given: Ints | None = None,
    *,
    precision: float = 0.9,
    answers: UserAnswers | None = None,
    descriptions: Descriptions | None = None,
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
    classes, y = [names[c] for c in active], np.searchsorted(active, given[labeled])
    descriptions = descriptions.of(classes) if descriptions else None

    def fit(pool: Ints, examples: Features, labels: Ints) -> Fitted:
        return fit_rows(features, pool, examples, labels, classes=classes, outliers=features[outliers])

    fitted, n_prior_examples = fit_described(fit, rows, descriptions, features[labeled], y)
    own = find_thresholds(fitted, precision)
    thresholds = _answered(own, fitted, answers)
    table = Table(len(given))
    table.fill(rows, active, fitted.pool)
    table.fill_given(np.concatenate([labeled, outliers]), active, given, fitted.model, features)
    note = {
        "encoder": images.encoder,
        "thresholds": thresholds.to_json(),
        "labeled": {name: int((y == c).sum()) for c, name in enumerate(classes)},
        "n_pool": int(project.is_pool.sum()),
        **({"descriptions": descriptions.texts, "n_prior_examples": n_prior_examples} if descriptions else {}),
    }
    n_held_out, n_answers = len(fitted.held_out_outlier_probability), len(answers.claims) if answers else 0
    return LabelingResult(
        images,
        table.predictions(project.first, names, given, thresholds, answers.is_confirmed if answers else None),
        replace(fitted.model, note=note),
        fitted.held_out,
        fitted.rejection_obstacle if thresholds.outlier >= 1 else "",
        RejectionBasis(fitted.rejection_obstacle, len(outliers), n_held_out, n_answers, own.outlier),
    )


def _answered(thresholds: Thresholds, fitted: Fitted, answers: UserAnswers | None) -> Thresholds:
    """With the rejection threshold that the user's answers want."""
    claims = answers.claims if answers else ()
    found = answered_threshold(thresholds.outlier, fitted.pool.outlier_probability, thresholds.precision, claims)
    return replace(thresholds, outlier=found)


def no_predictions(project: Project, names: Sequence[str], given: Ints, precision: float) -> Predictions:
    """For a project in which no class has an example yet."""
    table = Table(len(given))
    table.outlier_probability[given == OUTLIER] = 1
    return table.predictions(project.first, tuple(names), given, Thresholds(precision, 1.0, max(precision, 0.5)))

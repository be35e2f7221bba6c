"""Hints on photos that lie on their side or upside down: turned back, they look like a class far more than as they are.

    turns = Turns(images)                 # keeps what it has embedded
    turns.find(result)                    # {17: "turned? looks like owl after 90° to the left"}

What the camera noted (EXIF) is applied when a file is read; this is for photos without such a note.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PIL import Image

from sala.classifier.fit import LabelModel
from sala.data.images import thumbnail
from sala.encoders.base import Encoder, Features, prepared
from sala.errors import SalaError
from sala.labeling.embedding import ProjectFeatures
from sala.labeling.label import LabelingResult
from sala.labeling.predictions import Ints, Predictions, Row
from sala.text import printable

MAX_IMAGES = 150  # that are looked at; each is embedded three times
MIN_GAIN = 0.3  # of confidence; of 321 upright photos 2 gain as much, of sideways ones of a class half do
TURNS = {  # what is tried, and how it is told
    Image.Transpose.ROTATE_90: "90° to the left",
    Image.Transpose.ROTATE_270: "90° to the right",
    Image.Transpose.ROTATE_180: "180°",
}


class Turns:
    """Finds turned photos; features of turned images are kept for the next search."""

    def __init__(self, images: ProjectFeatures):
        self._images, self._features = images, dict[int, Features | None]()

    @property
    def is_possible(self) -> bool:
        """Whether images can be embedded; ready-made features hold none of turned ones."""
        return self._images.opened is not None and not hasattr(self._images.opened, "features_of")

    def find(self, result: LabelingResult) -> dict[int, str]:
        """A hint for each image that looks turned, among the least confident ones without a label."""
        if not self.is_possible:
            return {}
        rows = list(result.rows_of(candidates(result.predictions).tolist()))
        turned = [(row, features) for row in rows if (features := self._turned(row)) is not None]
        if not turned:
            return {}
        upright = confidence(result.model, self._images.features[[row.index for row, _ in turned]])[0]
        after, labels = confidence(result.model, np.concatenate([features for _, features in turned]))
        after, labels = after.reshape(len(turned), -1), labels.reshape(len(turned), -1)
        hints = {}
        for (row, _), before, gained, names in zip(turned, upright, after, labels, strict=True):
            best = int(gained.argmax())
            if gained[best] - before >= MIN_GAIN:
                name = printable(result.model.classes[names[best]])
                hints[row.index] = f"turned? looks like {name} after {list(TURNS.values())[best]}"
        return hints

    def _turned(self, row: Row) -> Features | None:  # [turn d]
        if row.index not in self._features:
            assert self._images.opened is not None
            self._features[row.index] = embed_turned(row, self._images.opened)
        return self._features[row.index]


def candidates(said: Predictions) -> Ints:
    """Images without a label that can gain enough, likely outliers last, the least confident first."""
    images = np.flatnonzero(said.is_predicted & (said.confidence <= 1 - MIN_GAIN))
    order = np.lexsort((said.confidence[images], said.is_likely_outlier[images]))
    return images[order][:MAX_IMAGES]


def embed_turned(row: Row, encoder: Encoder) -> Features | None:  # [turn d]
    """Features of an image after each turn; None where its file is gone or unreadable."""
    try:
        with row.open() as file:
            image = thumbnail(file, "", side=2 * encoder.image_size)
    except (SalaError, OSError):
        return None
    return encoder.embed(np.stack([prepared(image.transpose(turn), encoder) for turn in TURNS]))


def confidence(model: LabelModel, features: Features) -> tuple[np.ndarray, Ints]:  # [n d] -> [n], [n]
    """The confidence in the most probable class, outliers counted, and that class."""
    said = replace(model, config=replace(model.config, n_suggestions=0)).predict(features)
    return said.probabilities.max(1) * (1 - said.outlier_probability), said.label

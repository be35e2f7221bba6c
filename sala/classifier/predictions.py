"""What the classifier says of the images of a pool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sala.classifier.normalize import Floats


@dataclass(frozen=True)
class PoolPredictions:
    """Predictions for n images among k classes, as arrays.

    Parameters
    ----------
    probabilities : array of shape (n, k)
        Calibrated probabilities of the classes, given that the image is of one of them. Rows sum to 1.
    label : int array of shape (n,)
        The most probable class.
    runner_up : int array of shape (n,)
        The second most probable class; the label itself where there is one class only.
    outlier_probability : array of shape (n,)
        The probability that the image belongs to none of the classes.
    used : bool array of shape (n,)
        Whether the image took part in the refinement of the prototypes. False for images predicted later.
    suggestions : int array of shape (m,)
        Rows whose label would help most, in order (active learning).

    Examples
    --------
    >>> import numpy as np
    >>> from sala import fit_pool
    >>> labeled = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], np.float32)
    >>> pool = np.array([[0.9, 0.1, 0.0], [0.1, 0.9, 0.1], [0.8, 0.0, 0.1]], np.float32)
    >>> predictions = fit_pool(labeled, np.array([0, 1]), pool).pool
    >>> predictions.label, predictions.runner_up
    (array([0, 1, 0]), array([1, 0, 1]))
    """

    probabilities: Floats
    label: NDArray[np.int64]
    runner_up: NDArray[np.int64]
    outlier_probability: Floats
    used: NDArray[np.bool_]
    suggestions: NDArray[np.int64]

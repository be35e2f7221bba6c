"""The hyper-parameters of the classifier."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any


@dataclass(frozen=True)
class ClassifierConfig:
    """Hyper-parameters of `fit_pool`; the defaults work for most pools.

    The defaults were chosen, and the temperature prior was fitted, on training and validation classes of tiny-tiered and on
    Omniglot's background alphabets: `python benchmarks/labeling/hyperparameters.py` does it again.

    Parameters
    ----------
    n_steps : int, default 4
        Refinement steps, in which the pool moves the prototypes. 0 classifies by the labeled images alone.
    sharpness : float, default 20.0
        Inverse temperature of the class probabilities during refinement: softmax(sharpness * similarity).
    labeled_weight : float, default 2.0
        Weight of a labeled image in a prototype, where a confident image of the pool has weight 1.
    anchor : float or None, default None
        Share of the labeled images' prototypes in those that classify, 0 to 1. None takes the squared share of outliers that
        the pool is estimated to have.
    n_directions : int, default 16
        Directions of the largest within-class covariance that whitening shrinks. 0 turns whitening off.
    n_suggestions : int, default 50
        Images to suggest for labeling (active learning).
    temperature_prior : tuple of 4 floats
        Coefficients (a, b, c, d) of the temperature-scaling prior: log(inverse temperature) =
        a + b log(mean top similarity) + c log(dispersion) + d log(number of classes).
    prior_strength : float, default 5.0
        Weight of that prior, as a number of held-out images.
    linear_weight : float or None, default None
        Weight of a linear classifier of the labeled images beside the prototypes, 0 to 100. None chooses it by
        cross-validation.

    Examples
    --------
    The pool moves no prototype:

    >>> import numpy as np
    >>> from sala import ClassifierConfig, fit_pool
    >>> labeled = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    >>> fitted = fit_pool(labeled, np.array([0, 1]), labeled + 0.1, config=ClassifierConfig(n_steps=0))
    >>> fitted.pool.label, fitted.pool.used
    (array([0, 1]), array([False, False]))

    A value out of range is refused when a classifier is fitted, or before:

    >>> ClassifierConfig(sharpness=-1.0).check()
    Traceback (most recent call last):
    ValueError: sharpness must be a finite number above 0: got -1.0; the default is 20.0
    """

    n_steps: int = 4
    sharpness: float = 20.0
    labeled_weight: float = 2.0
    anchor: float | None = None
    n_directions: int = 16
    n_suggestions: int = 50
    temperature_prior: tuple[float, float, float, float] = (3.33, 1.39, -1.11, -0.52)
    prior_strength: float = 5.0
    linear_weight: float | None = None

    def check(self) -> None:
        """Raise ValueError for the first hyper-parameter that breaks its rule."""
        defaults = {field.name: field.default for field in fields(self)}
        for name, (holds, rule) in RULES.items():
            value = getattr(self, name)
            if not holds(value):
                raise ValueError(f"{name} must be {rule}: got {value!r}; the default is {defaults[name]!r}")


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and int(value) >= 0


def _is_positive(value: Any) -> bool:
    return isinstance(value, Real) and 0 < float(value) < math.inf


def _is_none_or_up_to(most: float) -> Callable[[Any], bool]:
    return lambda value: value is None or (isinstance(value, Real) and 0 <= float(value) <= most)


RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "n_steps": (_is_count, "an integer of 0 or more"),
    "sharpness": (_is_positive, "a finite number above 0"),
    "labeled_weight": (_is_positive, "a finite number above 0"),
    "anchor": (_is_none_or_up_to(1), "a number from 0 to 1, or None"),
    "n_directions": (_is_count, "an integer of 0 or more"),
    "n_suggestions": (_is_count, "an integer of 0 or more"),
    "linear_weight": (_is_none_or_up_to(100), "a number from 0 to 100, or None"),
}

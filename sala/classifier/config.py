"""The hyper-parameters of the classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from numbers import Integral, Real

from sala.classifier import coefficients as chosen


@dataclass(frozen=True)
class ClassifierConfig:
    """Hyper-parameters of `fit_pool`; the defaults work for most pools.

    The defaults and all other numbers (coefficients.py) were chosen on eleven image sets; the fitted ones were also judged on
    sets left out (docs/results/choices.md).

    Parameters
    ----------
    n_steps : int, default 4
        Steps of EM, in which the pool moves the prototypes. 0 classifies by the labeled images alone.
    n_directions : int, default 8
        Directions of the largest within-class covariance that whitening shrinks. 0 turns whitening off.
    n_suggestions : int, default 50
        Images to suggest for labeling (active learning).
    prior_strength : float
        Weight of the temperature-scaling prior, as a number of held-out images.

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

    >>> ClassifierConfig(n_steps=-1).check()
    Traceback (most recent call last):
    ValueError: n_steps must be an integer of 0 or more: got -1; the default is 4
    """

    n_steps: int = 4
    n_directions: int = chosen.N_DIRECTIONS
    n_suggestions: int = 50
    prior_strength: float = chosen.TEMPERATURE_STRENGTH

    def check(self) -> None:
        """Raise ValueError for the first hyper-parameter that breaks its rule."""
        for field in fields(self):
            value, is_count = getattr(self, field.name), field.type == "int"
            is_number = isinstance(value, Integral if is_count else Real)
            if not is_number or not 0 <= value < math.inf or (value == 0 and not is_count):
                rule = "an integer of 0 or more" if is_count else "a finite number above 0"
                raise ValueError(f"{field.name} must be {rule}: got {value!r}; the default is {field.default!r}")

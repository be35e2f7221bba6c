"""Coefficients of the outlier model, fitted on images that no result is reported on.

    SALA_DATA=... python benchmarks/labeling/hyperparameters.py outliers   # ONE_CLASS, ONE_SHOT, FEW_SHOT
    SALA_DATA=... python benchmarks/labeling/known_outliers.py fit         # KNOWN_OUTLIERS

Both draw tasks from training and validation classes of tiny-tiered and from Omniglot's background alphabets; what they found
is recorded in results/practice/outlier-model.json and results/practice/known-outliers.json.
"""

from __future__ import annotations

# `OutlierModel.evidence`, a quadratic form: of 1; u, h, k, s, q, l; and their products uu, uh, ... ll
ONE_CLASS: tuple[float, ...] = (
    -1.141, -2.212, 2.096, 0.0, -0.809, -0.785, 0.0, 0.155, -7.098, 0.0, -0.527, 0.375, 0.0, 5.758, 0.0, -0.78,
    3.619, 0.0, 0.0, 0.0, 0.0, 0.0, -0.015, -0.129, 0.0, -1.493, 0.0, 0.0,
)  # fmt: skip
ONE_SHOT: tuple[float, ...] = (
    1.231, -2.147, 0.828, -0.245, 5.478, 0.221, 0.0, -0.293, -3.348, 0.623, -4.674, -2.489, 0.0, -0.048, -0.107,
    1.922, 1.012, 0.0, 0.017, -4.262, -0.419, 0.0, 3.533, -0.821, 0.0, 2.738, 0.0, 0.0,
)  # fmt: skip
FEW_SHOT: tuple[float, ...] = (
    1.509, -1.274, -0.756, -0.308, -0.133, 0.262, -0.052, -0.27, -2.486, 0.731, -0.687, -4.051, -1.841, 0.444,
    -0.077, -0.213, 0.401, 1.868, 0.067, -0.071, -0.701, -0.161, 0.054, 0.112, 0.781, 3.146, 0.952, 0.13,
)  # fmt: skip
# `OutlierModel.known_outlier_evidence`: of 1, log m, d, d log m
KNOWN_OUTLIERS: tuple[float, ...] = (0.23, -0.93, 0.6, 1.85)

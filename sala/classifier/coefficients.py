"""The numbers of the classifier that were chosen or fitted on image sets; other constants stand in the file of their step.

    SALA_DATA=FILES python benchmarks/labeling/calibrate.py --write     # the fitted ones, judged on sets left out

Those above the line, and `CAUTION`, were chosen by `make bench-labeling`; the others were fitted (docs/results/choices.md).
"""

from __future__ import annotations

LABELED_WEIGHT = 2.0  # of a labeled image in a prototype, where a certain inlier of the pool has 1
LINEAR_SHARE = 0.3  # of the linear classifier in a similarity, with many labeled images of a class
INLIER_SHARE = 0.4  # of the linear classifier in what tells inliers: the pool alone could vouch for outliers
SIZE_PRIOR = 10.0  # images of each class expected beforehand, so that no class is taken for empty
OUTLIER_SHARE, OUTLIER_SHARE_PRIOR = 0.3, 10.0  # expected share of outliers, and how many images that counts for
N_DIRECTIONS = 8  # of the largest within-class covariance, which whitening shrinks
# ---- fitted by calibrate.py
# log-odds of the expected accuracy: of 1, log-odds of the pool's agreement with itself (agreement.py)
ACCURACY: tuple[float, ...] = (-0.036, 0.765)
TEMPERATURE_STRENGTH = 10.0  # of that prior, as a number of held-out images
# log-odds of outliers: of 1, e, l, log(1 + m), e log(1 + m), log(1 - p) (calibration.py)
OUTLIERS: tuple[float, ...] = (-0.943, 0.139, -1.624, 0.09, 0.12, 0.244)
CAUTION = 5.0  # times as many inliers among the rejected as held-out images tell

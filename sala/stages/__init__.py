"""The parts that prototype methods are made of: pure functions of tensors, with leading batch dimensions.

prototypes -> metrics -> selection -> refinement. Nothing here holds a parameter or knows a method.
"""

from sala.stages.metrics import squared_distances
from sala.stages.prototypes import class_means, one_hot, weighted_means
from sala.stages.refinement import refine
from sala.stages.selection import PseudoLabels, nearest, ramp_weight, selection_size

__all__ = [
    "PseudoLabels",
    "class_means",
    "nearest",
    "one_hot",
    "ramp_weight",
    "refine",
    "selection_size",
    "squared_distances",
    "weighted_means",
]

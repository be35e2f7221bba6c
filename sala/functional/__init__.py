"""The parts that methods share: pure functions of tensors with leading batch dimensions.

Embeddings, labels and weights come in; prototypes, distances, selections and refined prototypes go out. Nothing here holds a
parameter or knows a method. Methods, the classifier of user images and tests may call.
"""

from sala.functional.attention import attention
from sala.functional.distances import squared_distances
from sala.functional.inner_loop import inner_loop
from sala.functional.prototypes import class_means, one_hot, weighted_means
from sala.functional.refinement import refine, refine_steps
from sala.functional.selection import PseudoLabels, nearest, ramp_weight, selection_size
from sala.functional.swap import swapped
from sala.functional.unit import unit_length

__all__ = [
    "PseudoLabels",
    "attention",
    "class_means",
    "inner_loop",
    "nearest",
    "one_hot",
    "ramp_weight",
    "refine",
    "refine_steps",
    "selection_size",
    "squared_distances",
    "swapped",
    "unit_length",
    "weighted_means",
]

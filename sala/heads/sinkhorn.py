"""Balanced assignments: the Sinkhorn-Knopp algorithm."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

TOLERANCE, MAX_STEPS = 1e-6, 1_000  # released code of PT-MAP and iLPC


class Balanced(NamedTuple):
    """A matrix with given sums, and by how much its columns were multiplied."""

    assignments: Tensor  # [n, k]
    columns: Tensor  # [k]


def sinkhorn(weights: Tensor, capacities: Tensor, columns: Tensor | None = None) -> Balanced:  # [n, k], [k], [k]
    """Rows and columns of positive weights multiplied in turn until rows sum to 1 and columns to their capacities.

    The capacities sum to n. `columns` are factors to begin with, as of an earlier matrix that was much the same.
    """
    c = torch.ones_like(capacities) if columns is None else columns
    sums = weights @ c
    rows = torch.zeros_like(sums)
    for _ in range(MAX_STEPS if len(weights) else 0):
        before, r = rows, 1 / sums
        c = capacities / (weights.mT @ r)
        sums = weights @ c
        rows = r * sums  # sums of the rows, columns being as they should
        if float((rows - before).abs().max()) <= TOLERANCE:  # as the released codes end
            break
    return Balanced(weights * c / sums[:, None], c)

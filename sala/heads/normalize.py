"""How heads prepare embeddings. What is estimated comes from support and pool, never from a query."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sala.functional import unit_length

EPSILON = 1e-6  # released code of PT-MAP


def centered(support: Tensor, pool: Tensor) -> Callable[[Tensor], Tensor]:  # [s, d], [u, d] -> ([n, d] -> [n, d])
    """Embeddings minus the mean of support and pool, brought to length 1 (CL2N of Wang et al., with the task's own mean)."""
    mean = torch.cat([support, pool]).mean(0)
    return lambda x: unit_length(x - mean)


def powered(x: Tensor, beta: float) -> Tensor:  # [n, d] -> [n, d]
    """The power transform of Hu et al.: (x + epsilon)^beta, brought to length 1. A negative number keeps its sign."""
    return unit_length(torch.where(x < 0, -1.0, 1.0) * (x.abs() + EPSILON) ** beta)

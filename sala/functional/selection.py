"""Which unlabeled images are used: the progressive neighbor selection of SALA."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PseudoLabels:
    """What a method makes of the unlabeled images of a task.

    Parameters
    ----------
    probabilities : Tensor
        Of the classes, `[..., M, n_way]`; rows sum to 1.
    selected : Tensor
        Which of the images take part in the refinement, bool `[..., M]`.

    Examples
    --------
    Only confident pseudo-labels are used:

    >>> import torch
    >>> from sala import PseudoLabels
    >>> p = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
    >>> labels = PseudoLabels(p, p.amax(-1) > 0.8)
    >>> labels.probabilities * labels.selected[..., None]  # weights for `refine`
    tensor([[0.9000, 0.1000],
            [0.0000, 0.0000]])
    """

    probabilities: Tensor
    selected: Tensor


def ramp_weight(t: float, eta: float) -> float:
    """The curriculum w(t) = exp(-eta (1 - t)^2), from nearly 0 at the beginning of training to 1 at its end."""
    return math.exp(-eta * (1 - min(max(t, 0.0), 1.0)) ** 2)


ROUNDINGS: dict[str, Callable[[float], int]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "at-least-one": lambda n: max(1, math.floor(n)),
}


def selection_size(n_unlabeled: int, *, share: float, weight: float, rounding: str = "floor") -> int:
    """The number of selected images: n = min(w(t) M0, M0) with M0 = share * M, as a whole number no larger than M."""
    wanted = round(weight * share * n_unlabeled, 9)  # 9 digits: 0.29 * 100 is 28.999999999999996
    return min(n_unlabeled, ROUNDINGS[rounding](wanted))


def nearest(distances: Tensor, n_selected: int) -> Tensor:  # [..., M, k] -> [..., M] bool
    """True for the n images with the smallest d*(u) = min_i d(u, c_i), over all classes together.

    Parameters
    ----------
    distances : Tensor
        d, `[..., M, k]`: from each image to each prototype.
    n_selected : int
        How many images to select, at most M.

    Returns
    -------
    Tensor
        bool `[..., M]`.

    Examples
    --------
    >>> import torch
    >>> from sala import nearest
    >>> nearest(torch.tensor([[1.0, 9.0], [5.0, 6.0], [8.0, 2.0]]), n_selected=2)
    tensor([ True, False,  True])
    """
    to_nearest = distances.detach().amin(-1)
    chosen = torch.zeros_like(to_nearest, dtype=torch.bool)
    index = to_nearest.topk(n_selected, dim=-1, largest=False).indices
    return chosen.scatter_(-1, index, True)

"""Gradient descent inside of a task, through which one may differentiate."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Weights = dict[str, Tensor]


def inner_loop(
    weights: Weights, loss: Callable[[Weights], Tensor], *, n_steps: int, step_size: float, is_second_order: bool = True
) -> Weights:
    """Weights after n steps of gradient descent: w <- w - step_size * dloss(w)/dw.

    Parameters
    ----------
    weights : dict of Tensor
        Where to begin; each wants a gradient.
    loss : callable
        From weights to a number.
    n_steps : int
        With 0 the weights are as they were.
    step_size : float
        Of each step.
    is_second_order : bool, default True
        Whether the outcome can be differentiated through the gradients of the steps. If not, they are constants, and its
        derivative by the weights is 1.

    Returns
    -------
    dict of Tensor
        The names of `weights`.

    Examples
    --------
    >>> import torch
    >>> w = torch.tensor(1.0, requires_grad=True)
    >>> after = inner_loop({"w": w}, lambda weights: weights["w"] ** 2, n_steps=2, step_size=0.25)
    >>> after["w"].item(), torch.autograd.grad(after["w"], w)[0].item()  # halved twice
    (0.25, 0.25)
    """
    for _ in range(n_steps):
        gradients = torch.autograd.grad(loss(weights), tuple(weights.values()), create_graph=is_second_order)
        weights = {name: w - step_size * g for (name, w), g in zip(weights.items(), gradients, strict=True)}
    return weights

"""Whose statistics batch norm normalizes by, where it is not the usual: the batch's in training, the running ones at test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from sala.nn import kernels


@contextmanager
def unrecorded(network: nn.Module) -> Iterator[None]:
    """What passes through in training mode is normalized by its own statistics and leaves no trace in the running ones."""
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d) and m.track_running_stats]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True


@contextmanager
def running_statistics(network: nn.Module) -> Iterator[None]:
    """What passes through in training mode is normalized as at test. Gradients flow."""
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


@contextmanager
def own_statistics(network: nn.Module) -> Iterator[None]:
    """What passes through is normalized by its own statistics, at test too, and leaves no trace in the running ones."""
    was_training = network.training
    network.train()
    try:
        with unrecorded(network):
            yield
    finally:
        network.train(was_training)


@contextmanager
def statistics_of_first(network: nn.Module, n: int) -> Iterator[None]:
    """What passes through is normalized by the statistics of its first n images, at test too, and leaves no trace.

    Gradients flow through the statistics. None of the other images sees another one.
    """
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    hooks = [norm.register_forward_hook(partial(_normalized_by_first, n)) for norm in norms]
    try:
        with own_statistics(network), kernels.unfused():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _normalized_by_first(n: int, norm: nn.BatchNorm2d, inputs: tuple[Tensor], _: Tensor) -> Tensor:
    (x,) = inputs
    variance, mean = torch.var_mean(x[:n], (0, 2, 3), correction=0, keepdim=True)
    scale, shift = norm.weight[:, None, None], norm.bias[:, None, None]
    return (x - mean) * (variance + norm.eps).rsqrt() * scale + shift

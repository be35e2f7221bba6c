"""Batch norm, ReLU and max-pool as one operation on the CPU: few passes over memory instead of many.

What follows a convolution costs as much as the convolution itself when each step reads and writes the whole map. Here the
forward pass reads the map twice (sums; then pool, normalise and ReLU together) and the backward pass reads it once.
The kernels are compiled by numba, if it is installed (`pip install sala[fast]`); without it, and for tensors that are
not float32 on the CPU in channels-last memory, PyTorch's own operations do the same.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sala.errors import SalaError

CHOICES = ("auto", "numba", "torch")


@cache
def chosen() -> str:
    """numba or torch: decided once, by $SALA_KERNELS if it is set, else by what is installed."""
    wish = os.environ.get("SALA_KERNELS", "auto")
    if wish not in CHOICES:
        raise SalaError(f"SALA_KERNELS is one of {', '.join(CHOICES)}; got {wish!r}")
    if wish == "torch":
        return "torch"
    try:
        import numba  # noqa: F401
    except ImportError:
        if wish == "numba":
            raise SalaError("SALA_KERNELS=numba, and numba is not installed; pip install 'sala[fast]'") from None
        return "torch"
    return "numba"


def describe() -> str:
    if chosen() == "torch":
        return "PyTorch's kernels"
    from importlib.metadata import version

    return f"fused kernels (numba {version('numba')})"


def norm_relu_pool(
    y: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:  # [n, C, H, W] -> [n, C, H / 2, W / 2], [C], [C]
    """max_pool2d(relu(batch_norm(y)), 2) with the batch's own statistics, and these: mean and biased variance."""
    if is_fusable(y):
        out, mean, variance = _Fused.apply(y, weight, bias, eps)  # type: ignore[no-untyped-call]
        return out, mean, variance
    return plain(y, weight, bias, eps)


def is_fusable(y: Tensor) -> bool:
    return (
        y.dtype == torch.float32
        and y.device.type == "cpu"
        and min(y.shape[-2:]) >= 2
        and y.is_contiguous(memory_format=torch.channels_last)
        and chosen() == "numba"
    )


def plain(y: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The same by PyTorch's operations, on any device and in any precision."""
    with torch.no_grad():
        variance, mean = torch.var_mean(y, (0, 2, 3), correction=0)
    normalised = F.batch_norm(y, None, None, weight, bias, training=True, eps=eps)
    return F.max_pool2d(F.relu(normalised), 2), mean, variance


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        from sala import jit

        n, channels, height, width = y.shape
        rows = y.permute(0, 2, 3, 1).numpy()
        pivot = y[0, :, 0, 0].contiguous()
        sums = torch.empty(2, n, channels, dtype=torch.float64)
        jit.run("channel_sums", rows, pivot.numpy(), sums[0].numpy(), sums[1].numpy())
        m = n * height * width
        shifted, squares = sums.sum(1) / m
        variance = (squares - shifted.square()).clamp_min(0)
        mean = shifted + pivot
        scale = weight.double() * (variance + eps).rsqrt()
        out, chosen_y = (_empty_like_pooled(y, torch.float32) for _ in range(2))
        where = _empty_like_pooled(y, torch.uint8)
        jit.run(
            "pool", rows, scale.float().numpy(), mean.float().numpy(), bias.detach().numpy(),
            *(part.permute(0, 2, 3, 1).numpy() for part in (out, chosen_y, where)),
        )  # fmt: skip
        ctx.save_for_backward(y, weight, bias, chosen_y, where, mean, variance)
        ctx.eps = eps
        mean, variance = mean.float(), variance.float()
        ctx.mark_non_differentiable(mean, variance)
        return out, mean, variance

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        y, weight, bias, chosen_y, where, mean, variance = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted: PyTorch's operations have one
            out = plain(y, weight, bias, ctx.eps)[0]
            return (*torch.autograd.grad(out, (y, weight, bias), grads[0], create_graph=True), None)
        from sala import jit

        grad = grads[0].contiguous(memory_format=torch.channels_last)
        n, channels, height, width = y.shape
        inverse = (variance + ctx.eps).rsqrt()
        pooled = [part.permute(0, 2, 3, 1).numpy() for part in (grad, chosen_y, where)]
        sums = torch.empty(2, n, channels, dtype=torch.float64)
        jit.run("gradient_sums", *pooled, mean.float().numpy(), sums[0].numpy(), sums[1].numpy())
        grad_bias, by_y = sums.sum(1)
        grad_weight = by_y * inverse  # sum of grad * (y - mean) / std
        # dy = A grad + B + C (y - mean), from dy = weight / std (grad - mean(grad) - x^ mean(grad x^))
        A = weight.double() * inverse
        C = -A * inverse * grad_weight / (n * height * width)
        B = -A * grad_bias / (n * height * width)
        dy = torch.empty_like(y, memory_format=torch.channels_last)
        factors = [factor.float().numpy() for factor in (mean, A, B, C)]
        rows = [part.permute(0, 2, 3, 1).numpy() for part in (y, dy)]
        jit.run("spread", rows[0], pooled[0], pooled[2], *factors, rows[1])
        return dy, grad_weight.float(), grad_bias.float(), None


def _empty_like_pooled(y: Tensor, dtype: torch.dtype) -> Tensor:
    n, channels, height, width = y.shape
    return torch.empty(n, channels, height // 2, width // 2, dtype=dtype, memory_format=torch.channels_last)

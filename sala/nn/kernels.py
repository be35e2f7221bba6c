"""Batch norm, ReLU and max-pool as one operation on the CPU: few passes over memory instead of many.

What follows a convolution costs as much as the convolution itself when each step reads and writes the whole map. Here the
forward pass reads the map twice (sums; then pool, normalize and ReLU together) and the backward pass reads it once.
The kernels are compiled by numba, if it is installed (`pip install sala[fast]`); without it, and for tensors that are
not float32 on the CPU in channels-last memory, PyTorch's own operations do the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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
    """The kernels in words, for the manifest of a run."""
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


_IS_FUSED: ContextVar[bool] = ContextVar("whether compiled kernels may be used", default=True)


@contextmanager
def unfused() -> Iterator[None]:
    """PyTorch's operations alone: their gradients can be differentiated again, and hooks of batch norm are called."""
    token = _IS_FUSED.set(False)
    try:
        yield
    finally:
        _IS_FUSED.reset(token)


def is_fusable(y: Tensor) -> bool:
    """Whether the compiled kernels take this map."""
    return (
        y.dtype == torch.float32
        and y.device.type == "cpu"
        and min(y.shape[-2:]) >= 2
        and y.is_contiguous(memory_format=torch.channels_last)
        and _IS_FUSED.get()
        and chosen() == "numba"
    )


def plain(y: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The same by PyTorch's operations, on any device and in any precision."""
    with torch.no_grad():
        variance, mean = torch.var_mean(y, (0, 2, 3), correction=0)
    normalized = F.batch_norm(y, None, None, weight, bias, training=True, eps=eps)
    return F.max_pool2d(F.relu(normalized), 2), mean, variance


def first_block(
    x: Tensor, kernel: Tensor, bias: Tensor, weight: Tensor, shift: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:  # [n, k, H, W] -> [n, C, H / 2, W / 2], [C], [C]
    """`norm_relu_pool` of the 3 x 3 convolution of x with `kernel` and `bias`, whose map is never written.
    x gets no gradient."""
    out, mean, variance = _First.apply(x, kernel, bias, weight, shift, eps)  # type: ignore[no-untyped-call]
    return out, mean, variance


def first_block_folded(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:  # [n, k, H, W] -> [n, C, H / 2, W / 2]
    """relu(max_pool2d(conv2d(x), 2)), whose map is never written either. Nothing gets a gradient."""
    from sala.nn import jit, jit_first

    n, _, height, width = x.shape
    out = torch.empty(n, len(kernel), height // 2, width // 2, memory_format=torch.channels_last)
    n_values = n * len(kernel) * height * width
    arrays = [_framed(x).numpy(), _taps(kernel).numpy(), as_array(bias), _rows(out)]
    jit.run(jit_first.KERNELS, "first_pooled", n_values, *arrays)
    return out


def is_first(x: Tensor, kernel: Tensor) -> bool:
    """Whether the first block is done in one: images, that is few channels and no gradient wanted."""
    return (
        x.dtype == kernel.dtype == torch.float32
        and x.device.type == "cpu"
        and x.shape[1] <= 4
        and not x.requires_grad
        and min(x.shape[-2:]) >= 2
        and not torch.is_autocast_enabled("cpu")
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        and _IS_FUSED.get()
        and chosen() == "numba"
    )


def as_array(x: Tensor) -> Any:
    """For a kernel, without a copy if it is contiguous."""
    return x.detach().contiguous().numpy()


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        from sala.nn import jit

        moments = torch.empty(2, y.shape[1], dtype=torch.float64)
        out, chosen_y = (_empty_like_pooled(y, torch.float32) for _ in range(2))
        where = _empty_like_pooled(y, torch.uint8)
        channels = (weight.detach().numpy(), bias.detach().numpy())
        jit.run(
            jit.KERNELS,
            "forward",
            y.numel(),
            _rows(y),
            *channels,
            eps,
            moments.numpy(),
            _rows(out),
            _rows(chosen_y),
            _rows(where),
        )
        ctx.save_for_backward(y, weight, bias, chosen_y, where, moments)
        ctx.eps = eps
        mean, variance = moments.float()
        ctx.mark_non_differentiable(mean, variance)
        return out, mean, variance

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        y, weight, bias, chosen_y, where, moments = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is wanted: PyTorch's operations have one
            out = plain(y, weight, bias, ctx.eps)[0]
            return (*torch.autograd.grad(out, (y, weight, bias), grads[0], create_graph=True), None)
        from sala.nn import jit

        grad = grads[0].contiguous(memory_format=torch.channels_last)
        grad_weight, grad_bias = torch.empty_like(weight), torch.empty_like(bias)
        dy = torch.empty_like(y, memory_format=torch.channels_last)
        maps = [_rows(part) for part in (y, grad, chosen_y, where)]
        vectors = [part.detach().numpy() for part in (weight, moments)]
        jit.run(
            jit.KERNELS,
            "backward",
            y.numel(),
            *maps,
            *vectors,
            ctx.eps,
            grad_weight.numpy(),
            grad_bias.numpy(),
            _rows(dy),
        )
        return dy, grad_weight, grad_bias, None


class _First(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, kernel: Tensor, bias: Tensor, weight: Tensor, shift: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        from sala.nn import jit, jit_first

        n, k, height, width = x.shape
        framed = _framed(x)
        ctx.n_values = n_values = n * len(kernel) * height * width
        taps = _taps(kernel)
        means, covariance = torch.empty(9 * k, dtype=torch.float64), torch.empty(9 * k, 9 * k, dtype=torch.float64)
        jit.run(jit_first.KERNELS, "patch_moments", n_values // 8, framed.numpy(), means.numpy(), covariance.numpy())
        moments = torch.empty(2, len(kernel), dtype=torch.float64)
        pooled = (n, len(kernel), height // 2, width // 2)
        out, chosen_y, where = (
            torch.empty(pooled, dtype=dtype, memory_format=torch.channels_last)
            for dtype in (torch.float32, torch.float32, torch.uint8)
        )
        arrays = [part.detach().numpy() for part in (framed, taps, weight, shift)]
        found = [part.numpy() for part in (means, covariance, moments)]
        jit.run(
            jit_first.KERNELS,
            "first_forward",
            n_values,
            *arrays,
            eps,
            *found,
            *(_rows(part) for part in (out, chosen_y, where)),
        )
        ctx.save_for_backward(x, kernel, bias, weight, shift, framed, taps, chosen_y, where, means, covariance, moments)
        ctx.eps = eps
        mean, variance = moments[0].float() + bias, moments[1].float()
        ctx.mark_non_differentiable(mean, variance)
        return out, mean, variance

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, kernel, bias, weight, shift, framed, taps, chosen_y, where, means, covariance, moments = ctx.saved_tensors
        if torch.is_grad_enabled():
            out = plain(F.conv2d(x, kernel, bias, padding=1), weight, shift, ctx.eps)[0]
            wanted = (kernel, bias, weight, shift)
            return (None, *torch.autograd.grad(out, wanted, grads[0], create_graph=True), None)
        from sala.nn import jit, jit_first

        grad = grads[0].contiguous(memory_format=torch.channels_last)
        grad_taps, grad_weight, grad_shift = torch.empty_like(taps), torch.empty_like(weight), torch.empty_like(shift)
        arrays = [framed.numpy(), taps.numpy(), *(_rows(part) for part in (grad, chosen_y, where))]
        vectors = [part.detach().numpy() for part in (weight, means, covariance, moments)]
        results = [part.numpy() for part in (grad_taps, grad_weight, grad_shift)]
        jit.run(jit_first.KERNELS, "first_backward", ctx.n_values, *arrays, *vectors, ctx.eps, *results)
        grad_kernel = grad_taps.T.reshape(kernel.shape)
        return (
            None,
            grad_kernel,
            torch.zeros_like(bias),
            grad_weight,
            grad_shift,
            None,
        )  # the norm takes the bias out again


def _framed(x: Tensor) -> Tensor:
    """Images with two zeros on each side: [n, k, H + 4, W + 4]."""
    n, k, height, width = x.shape
    framed = x.new_zeros(n, k, height + 4, width + 4)
    framed[:, :, 2:-2, 2:-2] = x.detach()
    return framed


def _taps(kernel: Tensor) -> Tensor:
    """The kernel as the loops read it: [T, C]."""
    return kernel.detach().flatten(1).T.contiguous()


def _rows(y: Tensor) -> Any:
    """The map as the kernels see it: [n, H, W, C]."""
    return y.detach().permute(0, 2, 3, 1).numpy()


def _empty_like_pooled(y: Tensor, dtype: torch.dtype) -> Tensor:
    n, channels, height, width = y.shape
    return torch.empty(n, channels, height // 2, width // 2, dtype=dtype, memory_format=torch.channels_last)

"""The kernels behind `sala.nn.kernels`, compiled by numba. Maps are [n, H, W, C], contiguous; sums are kept for each image, in
float64, so that they do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

import numba
import numpy as np
import torch
from numba import prange

DEAD = 4  # in `where`: the ReLU let nothing through


FASTMATH = {"contract"}  # no reordering of sums, no assumption about nan: only multiply-adds are contracted
part = numba.njit(cache=True, fastmath=FASTMATH)  # one thread's share: a stretch of the images
# a piece of a part, put into it as if it were written there: only so the compiler sees which arrays cannot overlap
piece = numba.njit(cache=True, fastmath=FASTMATH, inline="always")

WORTH_THREADS = 1_000_000  # values of a map: below, waking threads costs more than it saves

Kernels = dict[tuple[str, bool], Callable[..., None]]


def both(*kernels: Callable[..., None]) -> Kernels:
    """Each kernel for one thread (False) and for several (True). Its first argument is the number of parts."""
    return {
        (kernel.__name__, parallel): numba.njit(
            _named(kernel, f"{kernel.__name__}_{'parallel' if parallel else 'serial'}"),
            cache=True,
            parallel=parallel,
            fastmath=FASTMATH,
        )
        for kernel in kernels
        for parallel in (False, True)
    }


def _named(kernel: Callable[..., None], name: str) -> Any:
    """A copy under a name of its own: numba's cache on disk knows a function by its name, not by how it was compiled."""
    function = cast(FunctionType, kernel)
    copy = FunctionType(function.__code__, function.__globals__, name)
    copy.__module__, copy.__qualname__ = function.__module__, name
    return copy


def run(kernels: Kernels, name: str, n_values: int, *arguments: Any) -> None:
    """A kernel on a map of so many values, on as many threads as PyTorch uses if the map is worth waking them."""
    n_threads = min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    if n_values < WORTH_THREADS:
        n_threads = 1
    if n_threads > 1:
        numba.set_num_threads(n_threads)
    kernels[name, n_threads > 1](n_threads, *arguments)


@part
def winner(s, y0, y1, y2, y3):  # type: ignore[no-untyped-def]
    """The y with the largest s y, and its place among the four. Ties go to the first, as in PyTorch."""
    best, value, place = y0, s * y0, np.uint8(0)
    v = s * y1
    best, value, place = (y1, v, np.uint8(1)) if v > value else (best, value, place)
    v = s * y2
    best, value, place = (y2, v, np.uint8(2)) if v > value else (best, value, place)
    return (y3, np.uint8(3)) if s * y3 > value else (best, place)


@part
def channel_sums(y, pivot, sums):  # type: ignore[no-untyped-def]
    """For each image and channel into `sums` [n, 2, C]: of y - pivot, and of its square."""
    n, height, width, channels = y.shape
    for i in range(n):
        for h in range(height):
            row = np.zeros(channels, np.float32)
            row_squares = np.zeros(channels, np.float32)
            for w in range(width):
                for c in range(channels):
                    v = y[i, h, w, c] - pivot[c]
                    row[c] += v
                    row_squares[c] += v * v
            for c in range(channels):
                sums[i, 0, c] += row[c]
                sums[i, 1, c] += row_squares[c]


@part
def pool(y, scale, mean, bias, out, chosen, where):  # type: ignore[no-untyped-def]
    n, height, width, channels = out.shape
    s, means, biases = scale.copy(), mean.copy(), bias.copy()  # own arrays: `out` cannot overlap them
    for i in range(n):
        for h in range(height):
            for w in range(width):
                for c in range(channels):
                    best, place = winner(
                        s[c],
                        y[i, 2 * h, 2 * w, c],
                        y[i, 2 * h, 2 * w + 1, c],
                        y[i, 2 * h + 1, 2 * w, c],
                        y[i, 2 * h + 1, 2 * w + 1, c],
                    )
                    best -= means[c]
                    value = s[c] * best + biases[c]
                    chosen[i, h, w, c] = best
                    out[i, h, w, c] = np.float32(0) if value <= 0 else value
                    where[i, h, w, c] = np.uint8(DEAD) if value <= 0 else place


def forward(n_parts, y, weight, bias, eps, moments, out, chosen, where):  # type: ignore[no-untyped-def]
    """Mean and biased variance of each channel into `moments` [2, C], and relu(max over 2 x 2 of the normalized map) into
    `out`; `chosen` is the y that won its square, less the mean; `where` its place there (0 to 3), or DEAD."""
    n, height, width, channels = y.shape
    pivot = y[0, 0, 0].copy()  # keeps the squares from swamping the variance
    sums = np.zeros((n, 2, channels), np.float64)
    for j in prange(n_parts):
        first, end = n * j // n_parts, n * (j + 1) // n_parts
        channel_sums(y[first:end], pivot, sums[first:end])
    m = n * height * width
    scale, mean = np.empty(channels, np.float32), np.empty(channels, np.float32)
    total = np.zeros((2, channels), np.float64)
    for i in range(n):
        total += sums[i]
    for c in range(channels):
        shifted = total[0, c] / m
        variance = total[1, c] / m - shifted * shifted
        variance = 0.0 if variance < 0 else variance  # nan stays nan
        moments[0, c], moments[1, c] = shifted + pivot[c], variance
        scale[c], mean[c] = weight[c] / np.sqrt(variance + eps), moments[0, c]
    for j in prange(n_parts):
        first, end = n * j // n_parts, n * (j + 1) // n_parts
        pool(y[first:end], scale, mean, bias, out[first:end], chosen[first:end], where[first:end])


@part
def gradient_sums(grad, chosen, where, sums):  # type: ignore[no-untyped-def]
    """For each image and channel into `sums` [n, 2, C]: of the gradient that passed the ReLU, and of it times y - mean."""
    n, height, width, channels = grad.shape
    for i in range(n):
        for h in range(height):
            row = np.zeros(channels, np.float32)
            row_by_y = np.zeros(channels, np.float32)
            for w in range(width):
                for c in range(channels):
                    g = grad[i, h, w, c] if where[i, h, w, c] < DEAD else np.float32(0)
                    row[c] += g
                    row_by_y[c] += g * chosen[i, h, w, c]
            for c in range(channels):
                sums[i, 0, c] += row[c]
                sums[i, 1, c] += row_by_y[c]


@part
def scatter_gradient(y, grad, where, mean, A, B, C, dy):  # type: ignore[no-untyped-def]
    n, height, width, channels = y.shape
    half_height, half_width = height // 2, width // 2
    a, b, slope, means = A.copy(), B.copy(), C.copy(), mean.copy()  # own arrays: dy cannot overlap them
    for i in range(n):
        for h in range(half_height):
            for w in range(half_width):
                for k in range(4):
                    up, left = 2 * h + k // 2, 2 * w + k % 2
                    for c in range(channels):
                        g = a[c] * grad[i, h, w, c] if where[i, h, w, c] == k else np.float32(0)
                        dy[i, up, left, c] = g + b[c] + slope[c] * (y[i, up, left, c] - means[c])
        for h in range(height):  # the last row and column of an odd map are in no square
            for w in range(0 if h >= 2 * half_height else 2 * half_width, width):
                for c in range(channels):
                    dy[i, h, w, c] = b[c] + slope[c] * (y[i, h, w, c] - means[c])


def backward(  # type: ignore[no-untyped-def]
    n_parts, y, grad, chosen, where, weight, moments, eps, grad_weight, grad_bias, dy
):
    """With x^ = (y - mean) / std: grad_bias = sum grad, grad_weight = sum grad x^, over what passed the ReLU, and
    dy = weight / std (grad - mean(grad) - x^ mean(grad x^)) = A grad + B + C (y - mean), the gradient at
    the winner of each square and 0 elsewhere."""
    n, height, width, channels = y.shape
    sums = np.zeros((n, 2, channels), np.float64)
    for j in prange(n_parts):
        first, end = n * j // n_parts, n * (j + 1) // n_parts
        gradient_sums(grad[first:end], chosen[first:end], where[first:end], sums[first:end])
    total = np.zeros((2, channels), np.float64)
    for i in range(n):
        total += sums[i]
    inverse, m = 1 / np.sqrt(moments[1] + eps), n * height * width
    grad_bias[:], grad_weight[:] = total[0], total[1] * inverse
    scale = weight * inverse
    mean, A = moments[0].astype(np.float32), scale.astype(np.float32)
    B = (-scale * total[0] / m).astype(np.float32)
    C = (-scale * inverse**2 * total[1] / m).astype(np.float32)
    for j in prange(n_parts):
        first, end = n * j // n_parts, n * (j + 1) // n_parts
        scatter_gradient(y[first:end], grad[first:end], where[first:end], mean, A, B, C, dy[first:end])


KERNELS = both(forward, backward)

"""The kernels behind `sala.kernels`, compiled by numba. Maps are [n, H, W, C], contiguous; sums are kept for each image, in
float64, so that they do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import torch
from numba import prange

DEAD = 4  # in `where`: the ReLU let nothing through


Kernels = dict[tuple[str, bool], Callable[..., None]]


def run(kernels: Kernels, name: str, *arguments: Any) -> None:
    """A kernel, on as many threads as PyTorch uses."""
    n_threads = min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    if n_threads > 1:
        numba.set_num_threads(n_threads)
    kernels[name, n_threads > 1](*arguments)


@numba.njit(inline="always")
def winner(s, y0, y1, y2, y3):  # type: ignore[no-untyped-def]
    """The y with the largest s y, and its place among the four. Ties go to the first, as in PyTorch."""
    best, value, place = y0, s * y0, np.uint8(0)
    v = s * y1
    best, value, place = (y1, v, np.uint8(1)) if v > value else (best, value, place)
    v = s * y2
    best, value, place = (y2, v, np.uint8(2)) if v > value else (best, value, place)
    return (y3, np.uint8(3)) if s * y3 > value else (best, place)


def forward(y, weight, bias, eps, moments, out, chosen, where):  # type: ignore[no-untyped-def]
    """Mean and biased variance of each channel into `moments` [2, C], and relu(max over 2 x 2 of the normalised map) into `out`;
    `chosen` is the y that won its square, less the mean; `where` its place there (0 to 3), or DEAD."""
    n, height, width, channels = y.shape
    pivot = y[0, 0, 0].copy()  # keeps the squares from swamping the variance
    sums = np.zeros((2, n, channels), np.float64)
    for i in prange(n):
        for h in range(height):
            row = np.zeros(channels, np.float32)
            row_squares = np.zeros(channels, np.float32)
            for w in range(width):
                for c in range(channels):
                    v = y[i, h, w, c] - pivot[c]
                    row[c] += v
                    row_squares[c] += v * v
            for c in range(channels):
                sums[0, i, c] += row[c]
                sums[1, i, c] += row_squares[c]
    m = n * height * width
    scale, mean = np.empty(channels, np.float32), np.empty(channels, np.float32)
    for c in range(channels):
        total, squares = 0.0, 0.0
        for i in range(n):
            total += sums[0, i, c]
            squares += sums[1, i, c]
        shifted = total / m
        variance = squares / m - shifted * shifted
        variance = 0.0 if variance < 0 else variance  # nan stays nan
        moments[0, c], moments[1, c] = shifted + pivot[c], variance
        scale[c], mean[c] = weight[c] / np.sqrt(variance + eps), moments[0, c]
    for i in prange(n):
        s, means, biases = scale.copy(), mean.copy(), bias.copy()  # own arrays: see `backward`
        for h in range(height // 2):
            for w in range(width // 2):
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


def backward(y, grad, chosen, where, weight, moments, eps, grad_weight, grad_bias, dy):  # type: ignore[no-untyped-def]
    """With x^ = (y - mean) / std: grad_bias = sum grad, grad_weight = sum grad x^, over what passed the ReLU, and
    dy = weight / std (grad - mean(grad) - x^ mean(grad x^)) = A grad + B + C (y - mean), the gradient at
    the winner of each square and 0 elsewhere."""
    n, height, width, channels = y.shape
    half_height, half_width = height // 2, width // 2
    sums = np.zeros((2, n, channels), np.float64)
    for i in prange(n):
        for h in range(half_height):
            row = np.zeros(channels, np.float32)
            row_by_y = np.zeros(channels, np.float32)
            for w in range(half_width):
                for c in range(channels):
                    g = grad[i, h, w, c] if where[i, h, w, c] < DEAD else np.float32(0)
                    row[c] += g
                    row_by_y[c] += g * chosen[i, h, w, c]
            for c in range(channels):
                sums[0, i, c] += row[c]
                sums[1, i, c] += row_by_y[c]
    m = n * height * width
    mean, A = np.empty(channels, np.float32), np.empty(channels, np.float32)
    B, C = np.empty(channels, np.float32), np.empty(channels, np.float32)
    for c in range(channels):
        total, by_y = 0.0, 0.0
        for i in range(n):
            total += sums[0, i, c]
            by_y += sums[1, i, c]
        inverse = 1 / np.sqrt(moments[1, c] + eps)
        grad_bias[c], grad_weight[c], mean[c] = total, by_y * inverse, moments[0, c]
        scale = weight[c] * inverse
        A[c], B[c], C[c] = scale, -scale * total / m, -scale * inverse * inverse * by_y / m
    for i in prange(n):
        a, b, slope, means = A.copy(), B.copy(), C.copy(), mean.copy()  # own arrays: dy cannot overlap them
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


def compiled(kernel: Callable[..., None], parallel: bool) -> Callable[..., None]:
    """No reordering of sums and no assumption about nan: only multiply-adds are contracted."""
    function: Callable[..., None] = numba.njit(kernel, cache=True, parallel=parallel, fastmath={"contract"})
    return function


def both(*kernels: Callable[..., None]) -> Kernels:
    """Each kernel for one thread (False) and for several (True)."""
    return {(kernel.__name__, parallel): compiled(kernel, parallel) for kernel in kernels for parallel in (False, True)}


KERNELS = both(forward, backward)

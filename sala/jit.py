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


def run(name: str, *arrays: Any) -> None:
    """A kernel, on as many threads as PyTorch uses."""
    n_threads = min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    if n_threads > 1:
        numba.set_num_threads(n_threads)
    KERNELS[name, n_threads > 1](*arrays)


def channel_sums(y, pivot, sums, squares):  # type: ignore[no-untyped-def]
    """Per image and channel: sum of y - pivot and of its square. The pivot keeps the squares from swamping the variance."""
    n, height, width, channels = y.shape
    for i in prange(n):
        total = np.zeros(channels, np.float64)
        total_squares = np.zeros(channels, np.float64)
        for h in range(height):
            row = np.zeros(channels, np.float32)
            row_squares = np.zeros(channels, np.float32)
            for w in range(width):
                for c in range(channels):
                    v = y[i, h, w, c] - pivot[c]
                    row[c] += v
                    row_squares[c] += v * v
            for c in range(channels):
                total[c] += row[c]
                total_squares[c] += row_squares[c]
        for c in range(channels):
            sums[i, c] = total[c]
            squares[i, c] = total_squares[c]


def pool(y, scale, mean, bias, out, chosen, where):  # type: ignore[no-untyped-def]
    """relu(max over 2 x 2 of scale (y - mean) + bias); `chosen` is the y that won, `where` its place in the square (0 to 3),
    or DEAD.

    Ties go to the first, as in PyTorch.
    """
    n, height, width, channels = out.shape
    for i in prange(n):
        scales, means, biases = scale.copy(), mean.copy(), bias.copy()  # own arrays: see `spread`
        for h in range(height):
            for w in range(width):
                for c in range(channels):
                    s = scales[c]
                    y0, y1 = y[i, 2 * h, 2 * w, c], y[i, 2 * h, 2 * w + 1, c]
                    y2, y3 = y[i, 2 * h + 1, 2 * w, c], y[i, 2 * h + 1, 2 * w + 1, c]
                    best, value, place = y0, s * y0, np.uint8(0)
                    v = s * y1
                    best, value, place = (y1, v, np.uint8(1)) if v > value else (best, value, place)
                    v = s * y2
                    best, value, place = (y2, v, np.uint8(2)) if v > value else (best, value, place)
                    v = s * y3
                    best, value, place = (y3, v, np.uint8(3)) if v > value else (best, value, place)
                    value = s * (best - means[c]) + biases[c]
                    chosen[i, h, w, c] = best
                    out[i, h, w, c] = np.float32(0) if value <= 0 else value
                    where[i, h, w, c] = np.uint8(DEAD) if value <= 0 else place


def gradient_sums(grad, chosen, where, mean, sums, by_y):  # type: ignore[no-untyped-def]
    """Per image and channel: sum of the gradient that passed the ReLU, and of it times y - mean."""
    n, height, width, channels = grad.shape
    for i in prange(n):
        total = np.zeros(channels, np.float64)
        total_by_y = np.zeros(channels, np.float64)
        for h in range(height):
            row = np.zeros(channels, np.float32)
            row_by_y = np.zeros(channels, np.float32)
            for w in range(width):
                for c in range(channels):
                    g = grad[i, h, w, c] if where[i, h, w, c] < DEAD else np.float32(0)
                    row[c] += g
                    row_by_y[c] += g * (chosen[i, h, w, c] - mean[c])
            for c in range(channels):
                total[c] += row[c]
                total_by_y[c] += row_by_y[c]
        for c in range(channels):
            sums[i, c] = total[c]
            by_y[i, c] = total_by_y[c]


def spread(y, grad, where, mean, A, B, C, dy):  # type: ignore[no-untyped-def]
    """dy = A grad + B + C (y - mean), with the gradient at the winner of each square and 0 elsewhere."""
    n, height, width, channels = y.shape
    half_height, half_width = height // 2, width // 2
    for i in prange(n):
        a, b, slope, means = (
            A.copy(),
            B.copy(),
            C.copy(),
            mean.copy(),
        )  # own arrays: the compiler need not fear that dy overlaps them
        for h in range(half_height):
            for w in range(half_width):
                for k in range(4):
                    up, left = 2 * h + k // 2, 2 * w + k % 2
                    for c in range(channels):
                        g = a[c] * grad[i, h, w, c] if where[i, h, w, c] == k else np.float32(0)
                        dy[i, up, left, c] = g + b[c] + slope[c] * (y[i, up, left, c] - means[c])
        for h in range(height):  # the last row and column of an odd map are in no square
            for w in range(width):
                if h >= 2 * half_height or w >= 2 * half_width:
                    for c in range(channels):
                        dy[i, h, w, c] = b[c] + slope[c] * (y[i, h, w, c] - means[c])


def _compiled(kernel: Callable[..., None], parallel: bool) -> Callable[..., None]:
    """No reordering of sums and no assumption about nan: only multiply-adds are contracted."""
    compiled: Callable[..., None] = numba.njit(kernel, cache=True, parallel=parallel, fastmath={"contract"})
    return compiled


KERNELS = {
    (kernel.__name__, parallel): _compiled(kernel, parallel)
    for kernel in (channel_sums, pool, gradient_sums, spread)
    for parallel in (False, True)
}

"""Convolution, batch norm, ReLU and pooling of the first block in one, compiled by numba: its map is never written.

The first block has few channels to read and the largest map to write, and nobody asks for the gradient of the images. So
mean and variance of the map are had from the moments of the images' 3 x 3 patches, the convolution is done square by square
of the pool, and the gradient of the kernel needs the patches of the winners alone: with P a patch, y = K P,

    mean(y) = K mean(P),    var(y) = K cov(P) K',
    dK = A (sum over winners of g P - sum(g) mean(P) - sum(g (y - mean)) / var cov(P) K),    A = weight / std.

Images are [n, k, H + 4, W + 4], framed by two zeros; the T = 9 k values of a patch are in the order channel, row, column.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from sala.nn.jit import DEAD, both, part, piece, winner


@part
def line_sums(x, sums):  # type: ignore[no-untyped-def]
    """Of one channel of an image [H + 4, W + 4] into `sums` [3, 3]: all, first and last row by all, first and last column."""
    height, width = x.shape[0] - 4, x.shape[1] - 4
    for r in range(height):
        e = 1 if r == 0 else 2 if r == height - 1 else 0
        line = x[r + 2, 2 : width + 2]
        total = 0.0
        for c in range(width):
            total += line[c]
        sums[0, 0] += total
        sums[0, 1] += line[0]
        sums[0, 2] += line[width - 1]
        if e > 0:
            sums[e, 0], sums[e, 1], sums[e, 2] = total, line[0], line[width - 1]


@part
def pixel_sums(x, sums, lags, rows, columns, corners):  # type: ignore[no-untyped-def]
    """For each image and channel: of all pixels and of the edges (all, first, last row; the same of columns). For each two
    channels: of the products of a pixel and another that lies dr below it and dc - 2 to the right, and what the first and last
    row (if dr = 0), column (if dc = 2) and the corners have in them."""
    n, k, height, width = x.shape[0], x.shape[1], x.shape[2] - 4, x.shape[3] - 4
    a0, a1, a2 = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    a3, a4 = np.empty(width, np.float32), np.empty(width, np.float32)
    for i in range(n):
        for p in range(k):
            line_sums(x[i, p], sums[i, p])
            for q in range(k):
                for dr in range(3):
                    a0[:], a1[:], a2[:], a3[:], a4[:] = 0, 0, 0, 0, 0
                    for r in range(height):
                        here, there = x[i, p, r + 2], x[i, q, r + 2 + dr]
                        for c in range(width):
                            v = here[c + 2]
                            a0[c] += v * there[c]
                            a1[c] += v * there[c + 1]
                            a2[c] += v * there[c + 2]
                            a3[c] += v * there[c + 3]
                            a4[c] += v * there[c + 4]
                    for c in range(width):
                        lags[i, p, q, dr, 0] += a0[c]
                        lags[i, p, q, dr, 1] += a1[c]
                        lags[i, p, q, dr, 2] += a2[c]
                        lags[i, p, q, dr, 3] += a3[c]
                        lags[i, p, q, dr, 4] += a4[c]
                    columns[i, p, q, dr, 0], columns[i, p, q, dr, 1] = a2[0], a2[width - 1]
                for e in range(2):
                    here, there = x[i, p, 2 + e * (height - 1)], x[i, q, 2 + e * (height - 1)]
                    for c in range(width):
                        for dc in range(5):
                            rows[i, p, q, dc, e] += here[c + 2] * there[c + dc]
                    for f in range(2):
                        corners[i, p, q, e, f] = here[2 + f * (width - 1)] * there[2 + f * (width - 1)]


def patch_moments(n_parts, x, mean, covariance):  # type: ignore[no-untyped-def]
    """Mean [T] and covariance [T, T] of the patches.

    Two places of the patch that lie apart in the same way give the same products of pixels, but for those at the border. So
    each lag is summed once over the image, and a row or column that both places never meet is taken off: the first
    place of three never meets the last line, the third never the first.
    """
    n, k = x.shape[0], x.shape[1]
    m = n * (x.shape[2] - 4) * (x.shape[3] - 4)
    sums, lags = np.zeros((n, k, 3, 3), np.float64), np.zeros((n, k, k, 3, 5), np.float64)
    rows, columns = np.zeros((n, k, k, 5, 2), np.float64), np.zeros((n, k, k, 3, 2), np.float64)
    corners = np.zeros((n, k, k, 2, 2), np.float64)
    for share in prange(n_parts):
        i0, i1 = n * share // n_parts, n * (share + 1) // n_parts
        pixel_sums(x[i0:i1], sums[i0:i1], lags[i0:i1], rows[i0:i1], columns[i0:i1], corners[i0:i1])
    for i in range(1, n):
        sums[0] += sums[i]
        lags[0] += lags[i]
        rows[0] += rows[i]
        columns[0] += columns[i]
        corners[0] += corners[i]
    for t in range(9 * k):
        p, a, b = t // 9, t // 3 % 3, t % 3
        e, f = (2, 0, 1)[a], (2, 0, 1)[b]  # the line that is never met: last, none, first
        total = sums[0, p, 0, 0]
        total -= sums[0, p, e, 0] if e > 0 else 0.0
        total -= sums[0, p, 0, f] if f > 0 else 0.0
        total += sums[0, p, e, f] if e > 0 and f > 0 else 0.0
        mean[t] = total / m
    for t in range(9 * k):
        for u in range(t + 1):
            one, other = (t, u) if t // 3 % 3 <= u // 3 % 3 else (u, t)  # the other is not above
            p, a, b = one // 9, one // 3 % 3, one % 3
            q, dr, dc = other // 9, other // 3 % 3 - a, other % 3 - b
            e = (2, 0, 1)[a] if dr == 0 else 0
            f = (2, 0, 1)[b] if dc == 0 else 0
            product = lags[0, p, q, dr, dc + 2]
            product -= rows[0, p, q, dc + 2, e - 1] if e > 0 else 0.0
            product -= columns[0, p, q, dr, f - 1] if f > 0 else 0.0
            product += corners[0, p, q, e - 1, f - 1] if e > 0 and f > 0 else 0.0
            covariance[t, u] = covariance[u, t] = product / m - mean[t] * mean[u]


@piece
def convolve_square(x, h, w, K, y0, y1, y2, y3):  # type: ignore[no-untyped-def]
    """The convolution at the four places of a square of the pool, of one image [k, H + 4, W + 4], for all channels."""
    channels = len(y0)
    y0[:], y1[:], y2[:], y3[:] = 0, 0, 0, 0
    for p in range(x.shape[0]):
        t, j = 9 * p, 2 * w + 1  # the four rows of four pixels that the square looks at
        r, b, d, z = x[p, 2 * h + 1], x[p, 2 * h + 2], x[p, 2 * h + 3], x[p, 2 * h + 4]
        r0, r1, r2, r3 = r[j], r[j + 1], r[j + 2], r[j + 3]
        b0, b1, b2, b3 = b[j], b[j + 1], b[j + 2], b[j + 3]
        d0, d1, d2, d3 = d[j], d[j + 1], d[j + 2], d[j + 3]
        z0, z1, z2, z3 = z[j], z[j + 1], z[j + 2], z[j + 3]
        for c in range(channels):
            k0, k1, k2 = K[t, c], K[t + 1, c], K[t + 2, c]
            k3, k4, k5 = K[t + 3, c], K[t + 4, c], K[t + 5, c]
            k6, k7, k8 = K[t + 6, c], K[t + 7, c], K[t + 8, c]
            y0[c] += r0 * k0 + r1 * k1 + r2 * k2 + b0 * k3 + b1 * k4 + b2 * k5 + d0 * k6 + d1 * k7 + d2 * k8
            y1[c] += r1 * k0 + r2 * k1 + r3 * k2 + b1 * k3 + b2 * k4 + b3 * k5 + d1 * k6 + d2 * k7 + d3 * k8
            y2[c] += b0 * k0 + b1 * k1 + b2 * k2 + d0 * k3 + d1 * k4 + d2 * k5 + z0 * k6 + z1 * k7 + z2 * k8
            y3[c] += b1 * k0 + b2 * k1 + b3 * k2 + d1 * k3 + d2 * k4 + d3 * k5 + z1 * k6 + z2 * k7 + z3 * k8


@part
def convolve_and_pool(x, kernel, scale, mean, bias, out, chosen, where):  # type: ignore[no-untyped-def]
    n, height, width, channels = out.shape
    s, means, biases, K = scale.copy(), mean.copy(), bias.copy(), kernel.copy()  # own arrays: `out` cannot overlap them
    y0, y1 = np.empty(channels, np.float32), np.empty(channels, np.float32)
    y2, y3 = np.empty(channels, np.float32), np.empty(channels, np.float32)
    for i in range(n):
        for h in range(height):
            for w in range(width):
                convolve_square(x[i], h, w, K, y0, y1, y2, y3)
                for c in range(channels):
                    best, place = winner(s[c], y0[c], y1[c], y2[c], y3[c])
                    best -= means[c]
                    value = s[c] * best + biases[c]
                    chosen[i, h, w, c] = best
                    out[i, h, w, c] = np.float32(0) if value <= 0 else value
                    where[i, h, w, c] = np.uint8(DEAD) if value <= 0 else place


@part
def convolve_pool_relu(x, kernel, bias, out):  # type: ignore[no-untyped-def]
    n, height, width, channels = out.shape
    biases, K = bias.copy(), kernel.copy()
    y0, y1 = np.empty(channels, np.float32), np.empty(channels, np.float32)
    y2, y3 = np.empty(channels, np.float32), np.empty(channels, np.float32)
    for i in range(n):
        for h in range(height):
            for w in range(width):
                convolve_square(x[i], h, w, K, y0, y1, y2, y3)
                for c in range(channels):
                    best, _ = winner(np.float32(1), y0[c], y1[c], y2[c], y3[c])
                    best += biases[c]
                    out[i, h, w, c] = np.float32(0) if best <= 0 else best


def first_pooled(n_parts, x, kernel, bias, out):  # type: ignore[no-untyped-def]
    """relu(max over 2 x 2 of kernel [T, C] on the patches + bias): the block when its norm is folded into the kernel."""
    n = len(x)
    for share in prange(n_parts):
        i0, i1 = n * share // n_parts, n * (share + 1) // n_parts
        convolve_pool_relu(x[i0:i1], kernel, bias, out[i0:i1])


def first_forward(  # type: ignore[no-untyped-def]
    n_parts, x, kernel, weight, bias, eps, mean, covariance, moments, out, chosen, where
):
    """As `jit.forward`, with y = kernel [T, C] on the patches."""
    n, channels = out.shape[0], out.shape[3]
    middle, variance = np.zeros(channels, np.float64), np.zeros(channels, np.float64)
    for t in range(len(mean)):
        middle += mean[t] * kernel[t]
        for u in range(len(mean)):
            variance += covariance[t, u] * kernel[t] * kernel[u]
    moments[0], moments[1] = middle, np.maximum(variance, 0.0)  # nan stays nan
    scale, means = (weight / np.sqrt(moments[1] + eps)).astype(np.float32), middle.astype(np.float32)
    for share in prange(n_parts):
        i0, i1 = n * share // n_parts, n * (share + 1) // n_parts
        convolve_and_pool(x[i0:i1], kernel, scale, means, bias, out[i0:i1], chosen[i0:i1], where[i0:i1])


@part
def winners(x, grad, chosen, where, won, sums):  # type: ignore[no-untyped-def]
    """For each image: sum of g P over the winners [T, C]; of g, and of g (y - mean)."""
    n, height, width, channels = grad.shape
    k = x.shape[1]
    left, middle = np.empty((3 * k, channels), np.float32), np.empty((3 * k, channels), np.float32)
    right = np.empty((3 * k, channels), np.float32)
    g0, g1 = np.empty(channels, np.float32), np.empty(channels, np.float32)
    g2, g3 = np.empty(channels, np.float32), np.empty(channels, np.float32)
    for i in range(n):
        left[:], middle[:], right[:] = 0, 0, 0
        for h in range(height):
            row, row_by_y = np.zeros(channels, np.float32), np.zeros(channels, np.float32)
            for w in range(width):
                for c in range(channels):
                    place, g = where[i, h, w, c], grad[i, h, w, c]
                    g0[c] = g if place == 0 else np.float32(0)
                    g1[c] = g if place == 1 else np.float32(0)
                    g2[c] = g if place == 2 else np.float32(0)
                    g3[c] = g if place == 3 else np.float32(0)
                    g = g if place < DEAD else np.float32(0)
                    row[c] += g
                    row_by_y[c] += g * chosen[i, h, w, c]
                for p in range(k):
                    for a in range(3):
                        t, j = 3 * p + a, 2 * w + 1
                        r, b = x[i, p, 2 * h + 1 + a], x[i, p, 2 * h + 2 + a]
                        r0, r1, r2, r3 = r[j], r[j + 1], r[j + 2], r[j + 3]
                        b0, b1, b2, b3 = b[j], b[j + 1], b[j + 2], b[j + 3]
                        for c in range(channels):
                            left[t, c] += r0 * g0[c] + r1 * g1[c] + b0 * g2[c] + b1 * g3[c]
                            middle[t, c] += r1 * g0[c] + r2 * g1[c] + b1 * g2[c] + b2 * g3[c]
                            right[t, c] += r2 * g0[c] + r3 * g1[c] + b2 * g2[c] + b3 * g3[c]
            for c in range(channels):
                sums[i, 0, c] += row[c]
                sums[i, 1, c] += row_by_y[c]
        for t in range(3 * k):
            won[i, 3 * t], won[i, 3 * t + 1], won[i, 3 * t + 2] = left[t], middle[t], right[t]


def first_backward(  # type: ignore[no-untyped-def]
    n_parts, x, kernel, grad, chosen, where, weight, mean, covariance, moments, eps, grad_kernel, grad_weight, grad_bias
):
    """The gradients of the kernel [T, C] and of the norm's weight and bias."""
    n, channels = grad.shape[0], grad.shape[3]
    won, sums = np.empty((n, len(mean), channels), np.float32), np.zeros((n, 2, channels), np.float64)
    for share in prange(n_parts):
        i0, i1 = n * share // n_parts, n * (share + 1) // n_parts
        winners(x[i0:i1], grad[i0:i1], chosen[i0:i1], where[i0:i1], won[i0:i1], sums[i0:i1])
    taken, total = np.zeros((len(mean), channels), np.float64), np.zeros((2, channels), np.float64)
    for i in range(n):
        taken += won[i]
        total += sums[i]
    inverse = 1 / np.sqrt(moments[1] + eps)
    grad_bias[:], grad_weight[:] = total[0], total[1] * inverse
    for t in range(len(mean)):
        along = np.zeros(channels, np.float64)  # cov(P) K
        for u in range(len(mean)):
            along += covariance[t, u] * kernel[u]
        grad_kernel[t] = weight * inverse * (taken[t] - total[0] * mean[t] - total[1] * inverse**2 * along)


KERNELS = both(patch_moments, first_forward, first_backward, first_pooled)

"""Convolution, batch norm, ReLU and pooling of the first block in one, compiled by numba: its map is never written.

The first block has few channels to read and the largest map to write, and nobody asks for the gradient of the images. So
mean and variance of the map are had from the moments of the images' 3 x 3 patches, the convolution is done square by square
of the pool, and the gradient of the kernel needs the patches of the winners alone: with P a patch, y = K P,

    mean(y) = K mean(P),    var(y) = K cov(P) K',
    dK = A (sum over winners of g P - sum(g) mean(P) - sum(g (y - mean)) / var cov(P) K),    A = weight / std.

Images are [n, k, H + 4, W + 4], framed by two zeros; the T = 9 k values of a patch are in the order channel, row, column.
"""

from __future__ import annotations

import numba
import numpy as np
from numba import prange

from sala.jit import DEAD, both, winner


@numba.njit
def excluded(a):  # type: ignore[no-untyped-def]
    """Which line of the image place `a` (0 to 2) of a sliding patch never meets: 1 the last, 0 the first, -1 none."""
    return 1 - a // 2 if a != 1 else -1


def patch_moments(x, mean, covariance):  # type: ignore[no-untyped-def]
    """Mean [T] and covariance [T, T] of the patches.

    Two places of the patch that lie apart in the same way give the same products of pixels, but for those at the border. So
    each lag is summed once over the image, and a row or column that both places never meet is taken off.
    """
    n, k, height, width = x.shape[0], x.shape[1], x.shape[2] - 4, x.shape[3] - 4
    # products of a channel's pixel and another's that lies dr below it and dc - 2 to the right: all, and those of the first
    # and last row (dr = 0) and column (dc = 2)
    lags, rows = np.zeros((n, k, k, 3, 5), np.float64), np.zeros((n, k, k, 5, 2), np.float64)
    columns, corners = np.zeros((n, k, k, 3, 2), np.float64), np.zeros((n, k, k, 2, 2), np.float64)
    sums, row_sums = np.zeros((n, k), np.float64), np.zeros((n, k, 2), np.float64)
    column_sums, corner_sums = np.zeros((n, k, 2), np.float64), np.zeros((n, k, 2, 2), np.float64)
    for i in prange(n):
        for p in range(k):
            total = np.zeros(width, np.float32)
            for r in range(height):
                line = x[i, p, r + 2]
                for c in range(width):
                    total[c] += line[c + 2]
                for e in range(2):
                    column_sums[i, p, e] += line[2 if e == 0 else width + 1]
            for c in range(width):
                sums[i, p] += total[c]
                row_sums[i, p, 0] += x[i, p, 2, c + 2]
                row_sums[i, p, 1] += x[i, p, height + 1, c + 2]
            for e in range(2):
                for f in range(2):
                    corner_sums[i, p, e, f] = x[i, p, 2 if e == 0 else height + 1, 2 if f == 0 else width + 1]
            for q in range(k):
                for dr in range(3):
                    a0, a1, a2 = np.zeros(width, np.float32), np.zeros(width, np.float32), np.zeros(width, np.float32)
                    a3, a4 = np.zeros(width, np.float32), np.zeros(width, np.float32)
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
                    r = 2 if e == 0 else height + 1
                    for dc in range(5):
                        for c in range(width):
                            rows[i, p, q, dc, e] += x[i, p, r, c + 2] * x[i, q, r, c + dc]
                    corners[i, p, q, e, 0] = x[i, p, r, 2] * x[i, q, r, 2]
                    corners[i, p, q, e, 1] = x[i, p, r, width + 1] * x[i, q, r, width + 1]
    m = n * height * width
    for t in range(9 * k):
        p, a, b = t // 9, t // 3 % 3, t % 3
        e, f = excluded(a), excluded(b)
        total_sum = 0.0
        for i in range(n):
            total_sum += sums[i, p]
            total_sum -= row_sums[i, p, e] if e >= 0 else 0.0
            total_sum -= column_sums[i, p, f] if f >= 0 else 0.0
            total_sum += corner_sums[i, p, e, f] if e >= 0 and f >= 0 else 0.0
        mean[t] = total_sum / m
    for t in range(9 * k):
        for u in range(t + 1):
            one, other = (t, u) if t // 3 % 3 <= u // 3 % 3 else (u, t)  # the other is not above
            p, a, b = one // 9, one // 3 % 3, one % 3
            q, dr, dc = other // 9, other // 3 % 3 - a, other % 3 - b
            e = excluded(a) if dr == 0 else -1
            f = excluded(b) if dc == 0 else -1
            product = 0.0
            for i in range(n):
                product += lags[i, p, q, dr, dc + 2]
                product -= rows[i, p, q, dc + 2, e] if e >= 0 else 0.0
                product -= columns[i, p, q, dr, f] if f >= 0 else 0.0
                product += corners[i, p, q, e, f] if e >= 0 and f >= 0 else 0.0
            covariance[t, u] = covariance[u, t] = product / m - mean[t] * mean[u]


def first_forward(x, kernel, weight, bias, eps, mean, covariance, moments, out, chosen, where):  # type: ignore[no-untyped-def]
    """As `jit.forward`, with y = kernel [T, C] on the patches."""
    n, k, height, width = x.shape[0], x.shape[1], x.shape[2] - 4, x.shape[3] - 4
    channels = kernel.shape[1]
    scale, means = np.empty(channels, np.float32), np.empty(channels, np.float32)
    for c in range(channels):
        middle, variance = 0.0, 0.0
        for t in range(9 * k):
            middle += kernel[t, c] * mean[t]
            for u in range(9 * k):
                variance += kernel[t, c] * covariance[t, u] * kernel[u, c]
        variance = 0.0 if variance < 0 else variance  # nan stays nan
        moments[0, c], moments[1, c] = middle, variance
        scale[c], means[c] = weight[c] / np.sqrt(variance + eps), middle
    for i in prange(n):
        s, mu, beta, K = scale.copy(), means.copy(), bias.copy(), kernel.copy()  # own arrays: `out` cannot overlap them
        y0, y1 = np.empty(channels, np.float32), np.empty(channels, np.float32)
        y2, y3 = np.empty(channels, np.float32), np.empty(channels, np.float32)
        for h in range(height // 2):
            for w in range(width // 2):
                for c in range(channels):
                    y0[c] = y1[c] = y2[c] = y3[c] = np.float32(0)
                for p in range(k):
                    r, l, t = 2 * h + 1, 2 * w + 1, 9 * p
                    u0, u1, u2, u3 = x[i, p, r, l], x[i, p, r, l + 1], x[i, p, r, l + 2], x[i, p, r, l + 3]
                    v0, v1, v2, v3 = x[i, p, r + 1, l], x[i, p, r + 1, l + 1], x[i, p, r + 1, l + 2], x[i, p, r + 1, l + 3]
                    w0, w1, w2, w3 = x[i, p, r + 2, l], x[i, p, r + 2, l + 1], x[i, p, r + 2, l + 2], x[i, p, r + 2, l + 3]
                    z0, z1, z2, z3 = x[i, p, r + 3, l], x[i, p, r + 3, l + 1], x[i, p, r + 3, l + 2], x[i, p, r + 3, l + 3]
                    for c in range(channels):
                        k0, k1, k2 = K[t, c], K[t + 1, c], K[t + 2, c]
                        k3, k4, k5 = K[t + 3, c], K[t + 4, c], K[t + 5, c]
                        k6, k7, k8 = K[t + 6, c], K[t + 7, c], K[t + 8, c]
                        y0[c] += u0 * k0 + u1 * k1 + u2 * k2 + v0 * k3 + v1 * k4 + v2 * k5 + w0 * k6 + w1 * k7 + w2 * k8
                        y1[c] += u1 * k0 + u2 * k1 + u3 * k2 + v1 * k3 + v2 * k4 + v3 * k5 + w1 * k6 + w2 * k7 + w3 * k8
                        y2[c] += v0 * k0 + v1 * k1 + v2 * k2 + w0 * k3 + w1 * k4 + w2 * k5 + z0 * k6 + z1 * k7 + z2 * k8
                        y3[c] += v1 * k0 + v2 * k1 + v3 * k2 + w1 * k3 + w2 * k4 + w3 * k5 + z1 * k6 + z2 * k7 + z3 * k8
                for c in range(channels):
                    best, place = winner(s[c], y0[c], y1[c], y2[c], y3[c])
                    best -= mu[c]
                    value = s[c] * best + beta[c]
                    chosen[i, h, w, c] = best
                    out[i, h, w, c] = np.float32(0) if value <= 0 else value
                    where[i, h, w, c] = np.uint8(DEAD) if value <= 0 else place


def first_backward(  # type: ignore[no-untyped-def]
    x, kernel, grad, chosen, where, weight, mean, covariance, moments, eps, grad_kernel, grad_weight, grad_bias
):
    """The gradients of the kernel [T, C] and of the norm's weight and bias."""
    n, k, height, width = x.shape[0], x.shape[1], x.shape[2] - 4, x.shape[3] - 4
    channels = kernel.shape[1]
    won = np.empty((n, 9 * k, channels), np.float32)  # sum of g P over the winners
    sums = np.zeros((2, n, channels), np.float64)
    for i in prange(n):
        left, middle = np.zeros((3 * k, channels), np.float32), np.zeros((3 * k, channels), np.float32)
        right = np.zeros((3 * k, channels), np.float32)
        g0, g1 = np.empty(channels, np.float32), np.empty(channels, np.float32)
        g2, g3 = np.empty(channels, np.float32), np.empty(channels, np.float32)
        for h in range(height // 2):
            row, row_by_y = np.zeros(channels, np.float32), np.zeros(channels, np.float32)
            for w in range(width // 2):
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
                    r, l = 2 * h + 1, 2 * w + 1
                    for a in range(3):
                        u0, u1, u2, u3 = x[i, p, r + a, l], x[i, p, r + a, l + 1], x[i, p, r + a, l + 2], x[i, p, r + a, l + 3]
                        b = a + 1
                        d0, d1, d2, d3 = x[i, p, r + b, l], x[i, p, r + b, l + 1], x[i, p, r + b, l + 2], x[i, p, r + b, l + 3]
                        t = 3 * p + a
                        for c in range(channels):
                            left[t, c] += u0 * g0[c] + u1 * g1[c] + d0 * g2[c] + d1 * g3[c]
                            middle[t, c] += u1 * g0[c] + u2 * g1[c] + d1 * g2[c] + d2 * g3[c]
                            right[t, c] += u2 * g0[c] + u3 * g1[c] + d2 * g2[c] + d3 * g3[c]
            for c in range(channels):
                sums[0, i, c] += row[c]
                sums[1, i, c] += row_by_y[c]
        for t in range(3 * k):
            for c in range(channels):
                won[i, 3 * t, c], won[i, 3 * t + 1, c], won[i, 3 * t + 2, c] = left[t, c], middle[t, c], right[t, c]
    inverse, taken = 1 / np.sqrt(moments[1] + eps), np.zeros((9 * k, channels), np.float64)
    total, by_y = np.zeros(channels, np.float64), np.zeros(channels, np.float64)
    for i in range(n):
        total += sums[0, i]
        by_y += sums[1, i]
        taken += won[i]
    grad_bias[:], grad_weight[:] = total, by_y * inverse
    for t in range(9 * k):
        spread = np.zeros(channels, np.float64)
        for u in range(9 * k):
            spread += covariance[t, u] * kernel[u]
        grad_kernel[t] = weight * inverse * (taken[t] - total * mean[t] - by_y * inverse**2 * spread)


KERNELS = both(patch_moments, first_forward, first_backward)

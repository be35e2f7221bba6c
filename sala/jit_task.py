"""Distances and means of one small task, compiled by numba: with some thousand products, PyTorch's operations cost what their
calls cost. Points are [n, d], centres and their weights [k, d], weights of points [n, k], all contiguous.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

# sums over d are taken several terms at a time; a division by zero gives what it gives in PyTorch
loops: Any = numba.njit(cache=True, fastmath={"contract", "reassoc"}, error_model="numpy")


@loops
def distances(x, c, a, out):  # type: ignore[no-untyped-def]
    """out_ik = sum_j a_kj (x_ij - c_kj)^2"""
    for i in range(len(x)):
        for k in range(len(c)):
            total = np.float32(0)
            for j in range(x.shape[1]):
                gap = x[i, j] - c[k, j]
                total += a[k, j] * gap * gap
            out[i, k] = total


@loops
def distance_gradients(x, c, a, grad, dx, dc, da):  # type: ignore[no-untyped-def]
    """dx_i = 2 sum_k g_ik a_k (x_i - c_k), dc_k = -2 sum_i g_ik a_k (x_i - c_k), da_k = sum_i g_ik (x_i - c_k)^2"""
    dx[:], dc[:], da[:] = 0, 0, 0
    for i in range(len(x)):
        for k in range(len(c)):
            g = grad[i, k]
            for j in range(x.shape[1]):
                gap = x[i, j] - c[k, j]
                pull = g * gap
                da[k, j] += pull * gap
                pull *= np.float32(2) * a[k, j]
                dx[i, j] += pull
                dc[k, j] -= pull


@loops
def means(x, w, out, sums):  # type: ignore[no-untyped-def]
    """sums_k = sum_i w_ik, out_k = sum_i w_ik x_i / sums_k"""
    out[:], sums[:] = 0, 0
    for i in range(len(x)):
        for k in range(w.shape[1]):
            v = w[i, k]
            sums[k] += v
            for j in range(x.shape[1]):
                out[k, j] += v * x[i, j]
    for k in range(w.shape[1]):
        for j in range(x.shape[1]):
            out[k, j] /= sums[k]


@loops
def mean_gradients(x, w, grad, dx, dw):  # type: ignore[no-untyped-def]
    """dx_i = sum_k w_ik g_k / sums_k, dw_ik = (x_i - mean_k).g_k / sums_k"""
    mean, sums = np.empty_like(grad), np.empty(len(grad), np.float32)
    means(x, w, mean, sums)
    dx[:] = 0
    for i in range(len(x)):
        for k in range(w.shape[1]):
            share, total = w[i, k] / sums[k], np.float32(0)
            for j in range(x.shape[1]):
                g = grad[k, j]
                dx[i, j] += share * g
                total += (x[i, j] - mean[k, j]) * g
            dw[i, k] = total / sums[k]

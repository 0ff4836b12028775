"""The paper's other axis: plain loops, compiled without vectorisation, on one thread.

`approximate` builds c, v and M about the origin from the support vectors (LOOPS); `predict` and
`exact` evaluate the form and the whole model row by row (SIMD off).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import exp
from typing import Any

import numpy as np

__all__ = ["approximate", "exact", "functions", "predict"]


def approximate(centers: np.ndarray, weights: np.ndarray, gamma: float) -> tuple[Any, ...]:
    """c, v, M (its upper triangle) of g(z) = c + v.z + z'Mz."""
    d = centers.shape[1]
    v, M = np.zeros(d), np.zeros((d, d))
    c = functions()["approximate"](centers, weights, gamma, v, M)
    return c, v, M


def predict(form: tuple[Any, ...], rows: np.ndarray, gamma: float, intercept: float) -> np.ndarray:
    """Scores of the form, shape (m,)."""
    out = np.empty(len(rows))
    functions()["predict"](*form, rows, gamma, intercept, out)
    return out


def exact(
    centers: np.ndarray, weights: np.ndarray, rows: np.ndarray, gamma: float, intercept: float
) -> np.ndarray:
    """Scores of the exact model, shape (m,)."""
    out = np.empty(len(rows))
    functions()["exact"](centers, weights, rows, gamma, intercept, out)
    return out


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """The three loops, compiled once for doubles, with LLVM's vectorisers switched off."""
    import numba

    before = numba.config.LOOP_VECTORIZE, numba.config.SLP_VECTORIZE
    numba.config.LOOP_VECTORIZE = numba.config.SLP_VECTORIZE = 0
    try:
        table, line = numba.float64[:, ::1], numba.float64[::1]
        number = numba.float64
        return {
            "approximate": numba.njit(number(table, line, number, line, table))(_approximate),
            "predict": numba.njit(numba.void(number, line, table, table, number, number, line))(
                _predict
            ),
            "exact": numba.njit(numba.void(table, line, table, number, number, line))(_exact),
        }
    finally:
        numba.config.LOOP_VECTORIZE, numba.config.SLP_VECTORIZE = before


def _approximate(centers, weights, gamma, v, M):  # type: ignore[no-untyped-def]
    n, d = centers.shape
    c = 0.0
    for i in range(n):
        norm = 0.0
        for j in range(d):
            norm += centers[i, j] * centers[i, j]
        w = weights[i] * exp(-gamma * norm)
        c += w
        for j in range(d):
            v[j] += 2.0 * gamma * w * centers[i, j]
            t = 2.0 * gamma * gamma * w * centers[i, j]
            for k in range(j, d):
                M[j, k] += t * centers[i, k]
    return c


def _predict(c, v, M, rows, gamma, intercept, out):  # type: ignore[no-untyped-def]
    m, d = rows.shape
    for i in range(m):
        norm, g = 0.0, c
        for j in range(d):
            z = rows[i, j]
            norm += z * z
            inner = 0.0
            for k in range(j + 1, d):
                inner += M[j, k] * rows[i, k]
            g += z * (v[j] + M[j, j] * z + 2.0 * inner)
        out[i] = exp(-gamma * norm) * g + intercept


def _exact(centers, weights, rows, gamma, intercept, out):  # type: ignore[no-untyped-def]
    m, d = rows.shape
    for i in range(m):
        total = intercept
        for s in range(centers.shape[0]):
            norm = 0.0
            for j in range(d):
                t = centers[s, j] - rows[i, j]
                norm += t * t
            total += weights[s] * exp(-gamma * norm)
        out[i] = total

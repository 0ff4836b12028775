"""The exact expansion as ONNX nodes.

In: an expansion, and rows X of shape (m, d). Out: scores (m, k). Forms and kernels need no table:
their definitions run on the graph's values (`kernelite.machine.ops`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelite.backends.onnx.graph import Value
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import CosineKernel
from kernelite.model.export.selection import about_their_mean, packed
from kernelite.series.packed import linear_map, packed_degree, pair_places
from kernelite.series.rounding import UNIT

__all__ = ["evaluate_exact", "kernel_values", "log_sums"]

FARTHEST = {"float64": 1e150, "float32": 1e17}  # beyond it, squares would overflow
LOST_DIGITS = 1e-9  # the relative error of a kernel value from which products are not taken


def evaluate_exact(expansion: KernelExpansion, rows: Value) -> Value:
    """f of each row: one product, a packed polynomial, or all kernel values (m, n) at once."""
    if packed_degree(expansion) == 1:
        return _linear(expansion, rows)
    tensor = packed(expansion)
    r, k = expansion.n_features + 1, expansion.n_outputs
    # A tensor of degree 3 takes three times its packed numbers here.
    if tensor is not None and k * r * r * (r + 1) / 2 <= expansion.n_centers * (r + 15 + k):
        ones = rows.graph.full((rows.shape[0], 1), 1.0)
        Y = rows.graph.concat([rows, ones], axis=1)
        if tensor.ndim == 2:
            return rows.graph.contract_cubic(Y, tensor) + expansion.intercept
        first, second = pair_places(r)
        return rows.graph.contract(Y[:, first] * Y[:, second], tensor) + expansion.intercept
    return kernel_values(expansion, rows) @ expansion.coefficients + expansion.intercept


def kernel_values(expansion: KernelExpansion, rows: Value) -> Value:
    """k(x_i, z) for every row and center: shape (m, n)."""
    if not expansion.has_series:
        values: Any = expansion.kernel.values
        return values(rows, expansion.dense_centers())
    if expansion.kernel.damps:
        return rows.graph.exp(_exponents(expansion, rows))
    products = rows @ (expansion.gamma * expansion.dense_centers().T) + expansion.coef0
    return products * products


def _linear(expansion: KernelExpansion, rows: Any) -> Value:
    """W z + b; of a cosine kernel, z is brought to length one."""
    found = linear_map(expansion)
    if isinstance(expansion.kernel, CosineKernel):
        rows = CosineKernel.normalized(rows)
    seen = rows if found.columns is None else rows[:, found.columns]
    return seen @ found.weights.T + found.intercept


def log_sums(expansion: KernelExpansion, rows: Value) -> Value:
    """The logarithm of a sum of positive bumps, where the sum would underflow: shape (m,)."""
    xp = rows.graph
    with np.errstate(divide="ignore"):
        exponents = _exponents(expansion, rows) + np.log(expansion.coefficients[:, 0])
    top = xp.max(exponents, axis=1, keepdims=True)
    top = xp.where(xp.isinf(top), 0.0, top)
    return xp.log(xp.sum(xp.exp(exponents - top), axis=1)) + top[:, 0]


def _exponents(expansion: KernelExpansion, rows: Value) -> Value:
    """-gamma |x_i - z|^2, shape (m, n)."""
    gamma, graph = expansion.gamma, rows.graph
    point, shifted, own = about_their_mean(expansion)
    if (shifted.shape[1] + 8) * 4.0 * own.max(initial=0.0) * UNIT > LOST_DIGITS:
        return graph.squared_distances(rows, expansion.dense_centers()) * -gamma
    farthest = FARTHEST[graph.dtype.name]
    U = graph.clip(rows - point, -farthest, farthest)
    products = graph.op("Gemm", U, graph.real(2.0 * gamma * shifted.T), graph.real(-own))
    return graph.minimum(products - graph.squared_norms(U)[:, None] * gamma, 0.0)

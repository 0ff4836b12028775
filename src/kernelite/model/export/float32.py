"""What single precision costs: measured on rows, not proven.

In: what is exported, and rows. Out: differences between the same formulas in float32 and float64,
on the rows as float32 holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, check_rows, dense_block, row_blocks
from kernelite.machine.affine import AffineMap
from kernelite.machine.expansion import KernelExpansion
from kernelite.machine.kernels import CosineKernel
from kernelite.machine.preparation.projection import Projection
from kernelite.model.export.selection import Selection, about_their_mean, packed, steps_of
from kernelite.series.cells import Approximation
from kernelite.series.cubic import cubic_values
from kernelite.series.packed import linear_map, packed_degree, pair_places
from kernelite.series.spectral import SpectralForm

__all__ = ["Float32Error", "float32_error", "scores_in"]

ROWS = 1000  # at most so many rows are tried
TILE = 8  # of them at a time


@dataclass(frozen=True)
class Float32Error:
    """Differences of scores, and of labels where there are any.

    Parameters
    ----------
    largest, typical : float
        The largest and the root mean square difference of the scores.
    labels : int or None
        Rows whose label differs.
    rows : int
    drawn_from : str
        Which rows these were.
    """

    largest: float
    typical: float
    labels: int | None
    rows: int
    drawn_from: str

    def __str__(self) -> str:
        labels = "" if self.labels is None else f", {self.labels} labels differ"
        return (
            f"largest {self.largest:.3g}, root mean square {self.typical:.3g}{labels}; measured on "
            f"{self.rows:,} {self.drawn_from}, not a bound"
        )


def float32_error(selection: Selection, sample: Any = None) -> Float32Error:
    """Compare the exported formulas in both precisions.

    Parameters
    ----------
    selection : Selection
    sample : array-like of shape (m, d), optional
        By default the support vectors, or random rows about the expansion point.
    """
    rows, drawn_from = _rows(selection, sample)
    single = scores_in(np.float32, selection, rows)
    double = scores_in(np.float64, selection, rows.astype(np.float32).astype(np.float64))
    gap = np.abs(single - double)
    head = selection.head
    labels = None
    if head.proves_labels and head.n_scores:
        labels = int(np.count_nonzero(head.predict(single) != head.predict(double)))
    typical = float(np.sqrt(np.mean(np.square(gap)))) if gap.size else 0.0
    return Float32Error(float(gap.max(initial=0.0)), typical, labels, len(rows), drawn_from)


def scores_in(dtype: Any, selection: Selection, rows: FloatArray) -> FloatArray:
    """Scores of shape (m, k), computed in a precision and returned as doubles."""
    model, out = selection.model, np.zeros((len(rows), selection.head.n_scores), dtype=dtype)
    X = rows.astype(dtype)
    if model.parts:
        X = _prepared(steps_of(model), X)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for piece in selection.pieces:
            seen = _prepared(steps_of(piece.model), X)
            if piece.approximation is not None:
                out[:, piece.outputs] += _form_scores(piece.approximation, seen, dtype)
            else:
                assert piece.expansion is not None
                out[:, piece.outputs] += _exact_scores(piece.expansion, seen, dtype)
        if model.tail is not None:
            out += model.tail.values(X.astype(np.float64))[0].astype(dtype)
    return out.astype(np.float64)


def _prepared(steps: Sequence[Any], X: NDArray[Any]) -> NDArray[Any]:
    """Rows after affine maps, selections and whitening, in their own precision."""
    for step in steps:
        if isinstance(step, Projection):
            X = (X - step.shift.astype(X.dtype)) @ step.matrix.T.astype(X.dtype)
        elif isinstance(step, AffineMap):
            X = X - step.shift.astype(X.dtype)
            X = X if step.low is None else X - step.low.astype(X.dtype)
            X = X * step.scale.astype(X.dtype)
        else:
            X = X[:, step.columns]
    return X


def _form_scores(approximation: Approximation, X: NDArray[Any], dtype: Any) -> NDArray[Any]:
    out = np.empty((len(X), approximation.form.n_outputs), dtype=dtype)
    cell_of_row = approximation.assign(X.astype(np.float64))
    for index, cell in enumerate(approximation.cells):
        form, mine = cell.form, np.flatnonzero(cell_of_row == index)
        U = X[mine] - form.point.astype(dtype)
        squares = np.einsum("ij,ij->i", U, U)[:, None]
        g = U @ form.linear.astype(dtype) + form.constant.astype(dtype)
        if isinstance(form, SpectralForm):
            g += squares * form.mid.astype(dtype)
            U, matrices = U @ form.basis.astype(dtype), form.cores.astype(dtype)
        else:
            matrices = form.quadratic.astype(dtype)
        for j, matrix in enumerate(matrices):
            g[:, j] += np.einsum("ij,ij->i", U @ matrix, U)
        if form.damped:
            E = np.exp(dtype(-form.gamma) * squares)
            g = np.where(E > 0, g * E, dtype(0))
        out[mine] = g + form.intercept.astype(dtype)
    return out


def _exact_scores(expansion: KernelExpansion, X: NDArray[Any], dtype: Any) -> NDArray[Any]:
    if not expansion.has_series:
        return _kernel_scores(expansion, X, dtype)
    gamma = expansion.gamma
    A, b = expansion.coefficients.astype(dtype), expansion.intercept.astype(dtype)
    if expansion.kernel.quadratic:
        products = X @ (gamma * expansion.dense_centers().T).astype(dtype) + dtype(expansion.coef0)
        return np.square(products) @ A + b
    point, shifted, own = about_their_mean(expansion)
    U = X - point.astype(dtype)
    tile = U @ (2.0 * gamma * shifted.T).astype(dtype)
    tile -= dtype(gamma) * np.einsum("ij,ij->i", U, U)[:, None]
    tile -= own.astype(dtype)
    return np.exp(np.minimum(tile, dtype(0))) @ A + b


def _kernel_scores(expansion: KernelExpansion, X: NDArray[Any], dtype: Any) -> NDArray[Any]:
    kernel: Any = expansion.kernel
    if packed_degree(expansion) == 1:
        found = linear_map(expansion)
        X = CosineKernel.normalized(X) if isinstance(kernel, CosineKernel) else X
        seen = X if found.columns is None else X[:, found.columns]
        return np.asarray(seen @ found.weights.T.astype(dtype) + found.intercept.astype(dtype))
    b, tensor = expansion.intercept.astype(dtype), packed(expansion)
    if tensor is not None:
        w = np.hstack([X, np.ones((len(X), 1), dtype)])
        if tensor.ndim == 2:
            return cubic_values(tensor.astype(dtype), w) + b
        first, second = pair_places(w.shape[1])
        pairs = w[:, first] * w[:, second]
        each = [((pairs @ M.astype(dtype)) * pairs).sum(axis=1) for M in tensor]
        return np.stack(each, axis=1) + b
    centers, A = expansion.dense_centers().astype(dtype), expansion.coefficients.astype(dtype)
    out = np.empty((len(X), len(b)), dtype)
    for block in row_blocks(len(X), TILE):  # differences of all features are held at once
        out[block] = kernel.values(X[block], centers) @ A + b
    return out


def _rows(selection: Selection, sample: Any) -> tuple[FloatArray, str]:
    model = selection.model
    before = model.preparation.before_map
    rng = np.random.default_rng(0)
    if sample is not None:
        given = check_rows(sample, n_features=model.n_features_in_)
        name = "rows of the sample"
    elif model.expansion is not None and model.expansion.n_centers and not before.steps:
        given, name = model.expansion.centers, "support vectors"
    else:
        if selection.approximation is None or before.steps or model.parts:
            return np.zeros((0, model.n_features_in_)), "rows"
        form = selection.approximation.form
        directions = rng.normal(size=(ROWS, form.n_features))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        reach = rng.random((ROWS, 1)) * np.sqrt(form.max_sq_norm)
        return form.point + reach * directions, "random rows about the expansion point"
    if given.shape[0] > ROWS:
        given = given[np.sort(rng.choice(given.shape[0], ROWS, replace=False))]
    return dense_block(given, slice(None)), name

"""What single precision costs: measured on rows, not proven.

In: what is exported, and rows. Out: differences between the same formulas in float32 and float64,
on the rows as float32 holds them.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, check_rows, dense_block, row_blocks
from kernelite.machine.ops import NumpyOps
from kernelite.model.export.exact import exact_scores, prepared
from kernelite.model.export.selection import ExportSelection

__all__ = ["float32_error"]

MOST_TRIED_ROWS = 1000  # at most so many rows are tried
ROWS_PER_FLOAT32_TILE = 8  # of them at a time


def float32_error(selection: ExportSelection, sample: Any = None) -> str:
    """By how much the exported formulas differ in both precisions, in words.

    Parameters
    ----------
    selection : ExportSelection
    sample : array-like of shape (m, d), optional
        By default the support vectors, or random rows about the expansion point.
    """
    rows, drawn_from = _rows(selection, sample)
    single = scores_in(np.float32, selection, rows)
    double = scores_in(np.float64, selection, rows.astype(np.float32).astype(np.float64))
    gap = np.abs(single - double)
    head, labels = selection.head, ""
    if head.proves_labels and head.n_scores:
        labels = f", {np.count_nonzero(head.predict(single) != head.predict(double))} labels differ"
    typical = float(np.sqrt(np.mean(np.square(gap)))) if gap.size else 0.0
    return (
        f"largest {gap.max(initial=0.0):.3g}, root mean square {typical:.3g}{labels}; measured on "
        f"{len(rows):,} {drawn_from}, not a bound"
    )


def scores_in(dtype: Any, selection: ExportSelection, rows: FloatArray) -> FloatArray:
    """Scores of shape (m, k), computed in a precision and returned as doubles."""
    out = np.zeros((len(rows), selection.head.n_scores), dtype=dtype)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # Differences of all features are held at once.
        for block in row_blocks(len(rows), ROWS_PER_FLOAT32_TILE):
            _add_scores(selection, rows[block].astype(dtype), out[block])
    return out.astype(np.float64)


def _add_scores(selection: ExportSelection, rows: NDArray[Any], out: NDArray[Any]) -> None:
    model: Any = selection.model
    X: Any = Rounded(rows)
    if model.parts:
        X = prepared(model, X)
    for piece in selection.pieces:
        seen, served = prepared(piece.model, X), piece.approximation
        if served is None:
            assert piece.expansion is not None
            out[:, piece.outputs] += exact_scores(piece.expansion, seen).array
            continue
        form: Any = served.form
        out[:, piece.outputs] += form.evaluate(seen).scores.array
    if model.tail is not None:
        out += model.tail.values(X)[0].array


def _operator(function: Any, *, turned: bool = False) -> Any:
    def operate(self: Rounded, other: Any) -> Rounded:
        sides = self.array, _array(other, self.array.dtype)
        return Rounded(function(*sides[::-1] if turned else sides))

    return operate


class Rounded:
    """An array whose formulas stay in its own precision, whatever constants are written in."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        self.shape, self.ndim = array.shape, array.ndim

    def __array_namespace__(self) -> RoundedOps:
        return RoundedOps(self.array.dtype)

    def __getitem__(self, key: Any) -> Rounded:
        return Rounded(self.array[key])

    def __neg__(self) -> Rounded:
        return Rounded(-self.array)

    def __invert__(self) -> Rounded:
        return Rounded(~self.array)


for _name in ("add", "sub", "mul", "truediv", "matmul", "gt", "ge", "lt", "le", "eq", "ne"):
    setattr(Rounded, f"__{_name}__", _operator(getattr(operator, _name)))
for _name in ("add", "sub", "mul", "truediv"):
    setattr(Rounded, f"__r{_name}__", _operator(getattr(operator, _name), turned=True))


class RoundedOps:
    """NumPy's operations in one precision."""

    by_products = True

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)

    def __getattr__(self, name: str) -> Any:
        function = getattr(NumpyOps, name)

        def call(*given: Any, **options: Any) -> Any:
            found = function(*(_array(x, self.dtype) for x in given), **options)
            return Rounded(_array(found, self.dtype))

        return call


def _array(x: Any, dtype: np.dtype[Any]) -> Any:
    """What a formula holds, in a precision; shapes and names stay as they are."""
    if isinstance(x, Rounded):
        return x.array
    if isinstance(x, list):
        return [_array(part, dtype) for part in x]
    real = isinstance(x, np.ndarray | np.floating) and x.dtype.kind == "f"
    return x.astype(dtype) if real else x


def _rows(selection: ExportSelection, sample: Any) -> tuple[FloatArray, str]:
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
        directions = rng.normal(size=(MOST_TRIED_ROWS, form.n_features))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        reach = rng.random((MOST_TRIED_ROWS, 1)) * np.sqrt(form.max_sq_norm)
        return form.point + reach * directions, "random rows about the expansion point"
    if given.shape[0] > MOST_TRIED_ROWS:
        given = given[np.sort(rng.choice(given.shape[0], MOST_TRIED_ROWS, replace=False))]
    return dense_block(given, slice(None)), name

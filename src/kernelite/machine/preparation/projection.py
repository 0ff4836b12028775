"""A linear map of rows, z = M (x - t), as exact as it has to be: PCA, TruncatedSVD, whitening.

With y = x behind scalers, g = y - t and everything computed plainly,

    |computed z_k - z_k| <= u |M_k| ((d + 10) |g| + 6 |t|)

since y is off by 5u, g by another u, and a product of length d by d u. That serves rows for which
it is below `slack`, as it is for rows like those of the fit. But |g| may be far more than |z|, for
rows may lie far off in directions that M drops. Then M and x - t are cut into slices of b bits, so
few that products of the leading ones are exact (Ozaki and others); what is left is 2^-2b of the
whole. With sigma the largest |x_j - t_j| and s_k the largest |M_kj|, both rounded up to powers of
two,

    |computed z_k - z_k| <= 2 u |z_k| + (d + 8)^2 s_k (2^(4 - 2 b - 53) sigma + 2^-104 max |t|).

The second term is below `slack` for each output; rows so large that it is not are computed in
integers. Scalers before the map are folded into M and t, each of two words for that: their errors
of 2^-103 and less are within the terms above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from fractions import Fraction
from functools import cached_property
from operator import add, mul, sub, truediv
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import (
    FloatArray,
    Rows,
    dense_block,
    is_sparse,
    row_blocks,
    rows_within,
)
from kernelite.machine.affine import AffineMap
from kernelite.machine.exactly import UNIT, quotient, two_words
from kernelite.machine.preparation.numeric import check_width, mixed
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["Projection"]

MOST_SLICED = 1e140  # slices cannot be made of larger numbers,
LEAST_SLICED = 1e-140  # and smaller errors are counted as this
PLACES = 1000  # binary ones, of numbers in fixed point


@dataclass(frozen=True, eq=False)
class Projection:
    """z = M (x - t), up to 2 u |z| and `slack`, for x behind scalers or as it came.

    Parameters
    ----------
    matrix : float array of shape (r, d)
        M.
    shift : float array of shape (d,)
        t.
    slack : float array of shape (r,), optional
        What each output may be off by, beyond 2 u of itself. Without it all rows are computed
        plainly, and who made the map counts what that rounds.
    marks, by
        What happens to rows before, as `OwnScaling` has it, in real arithmetic.

    Examples
    --------
    >>> turn = Projection(np.array([[0.6, 0.8]]), np.array([1.0, 0.0]), np.array([1e-20]))
    >>> turn(np.array([[2.0, 3.0]]))
    array([[3.]])
    """

    matrix: NDArray[np.float64]
    shift: NDArray[np.float64]
    slack: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    marks: str = ""
    by: tuple[NDArray[np.float64], ...] = ()
    rowwise: ClassVar[bool] = True
    takes_columns: ClassVar[bool] = False
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        r, d = self.matrix.shape if self.matrix.ndim == 2 else (0, -1)
        most, slacks = (MOST_SLICED, (r,)) if self.slack.size else (np.finfo(np.float64).max, (0,))
        for name, shape in {"matrix": (r, d), "shift": (d,), "slack": slacks}.items():
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.shape != shape or not (np.abs(array) <= most).all():
                raise InputError(f"`{name}` of a projection must hold finite numbers, none huge.")
            object.__setattr__(self, name, array)
        if len(self.marks) != len(self.by) or any(array.shape != (d,) for array in self.by):
            raise InputError("a projection needs an array per operation before it.")
        if not (self.slack >= LEAST_SLICED).all():
            raise InputError("`slack` of a projection must be positive.")
        if self.slack.size and not all(
            (np.abs(words) <= MOST_SLICED).all() for words in self._words
        ):
            raise InputError("a projection stands behind scales that are too large.")

    @classmethod
    def __unpack__(cls, stored: dict[str, Any]) -> Projection:
        """From a file; those of whitened densities once held `matrix` and `shift` alone."""
        return cls(**stored)

    @property
    def n_features(self) -> int:
        """d."""
        return int(self.matrix.shape[1])

    @property
    def n_out(self) -> int:
        """r."""
        return int(self.matrix.shape[0])

    def made_of(self, given: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        """Of all columns."""
        return mixed(given, self.n_out)

    def after(self, first: AffineMap) -> Projection:
        """The same map of rows that went through `first` in real arithmetic."""
        marks = "".join(mark for mark, _ in first.operations)
        by = tuple(array for _, array in first.operations)
        return replace(self, marks=marks + self.marks, by=by + self.by)

    @cached_property
    def _first(self) -> AffineMap | None:
        """What happens to rows before."""
        if not self.marks:
            return None
        return AffineMap.of(*zip(self.marks, self.by, strict=True))  # type: ignore[arg-type]

    @cached_property
    def _words(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """M and t of rows as they come, two words each: M' = M s, t' = (t - c) / s for s x + c."""
        if self._first is None:
            return self.matrix, np.zeros_like(self.matrix), self.shift, np.zeros_like(self.shift)
        first = self._first
        scales, shifts = [], []
        for (s, c), t in zip(first.real(), self.shift.tolist(), strict=True):
            if not s:
                raise InputError("a feature is dropped before a projection.")
            scales.append(two_words(s))
            shifts.append(two_words((Fraction(t) - c) / s))
        scale, shift = np.array(scales).reshape(-1, 2), np.array(shifts).reshape(-1, 2)
        high, low = _product(self.matrix, scale[:, 0])
        return high, low + self.matrix * scale[:, 1], shift[:, 0], shift[:, 1]

    @property
    def fixed_error(self) -> FloatArray:
        """The part of the error that no row changes, shape (r,): `slack` must be above."""
        _, _, shift, _ = self._words
        largest = float(np.abs(shift).max(initial=0.0))
        return (self.n_features + 8.0) ** 2 * 2.0**-104 * largest * self._row_sizes

    def __call__(self, rows: Rows) -> FloatArray:
        """Projected rows, shape (m, r)."""
        check_width(rows, self.n_features)
        if not self.slack.size:
            return self._plainly(dense_block(rows, slice(None)))[1]
        out = np.empty((rows.shape[0], self.n_out))
        for block in row_blocks(rows.shape[0], rows_within(self.n_features, 64)):
            out[block] = self._block(rows[block])
        return out

    def gaps(self, rows: FloatArray) -> FloatArray:
        """g of dense rows behind scalers, over `machine.ops`: shape (m, d)."""
        scaled = rows if self._first is None else self._first.formula(rows)
        return scaled - self.shift

    def formula(self, rows: FloatArray) -> FloatArray:
        """M g in plain arithmetic, over `machine.ops`: shape (m, r)."""
        return self.gaps(rows) @ self.matrix.T

    @property
    def plain_reach(self) -> float:
        """|g| up to which plain arithmetic is within `slack`."""
        room = self.slack / (UNIT * self._lengths) - 6.0 * float(np.linalg.norm(self.shift))
        return float(room.min(initial=MOST_SLICED)) / (self.n_features + 10.0) * (1.0 - 1e-6)

    def plain_slack(self, reach: float) -> FloatArray:
        """The slack for which `plain_reach` is at least `reach`, shape (r,)."""
        far = (self.n_features + 10.0) * reach + 6.0 * float(np.linalg.norm(self.shift))
        return (1.0 + 1e-5) * UNIT * far * self._lengths

    @cached_property
    def _lengths(self) -> FloatArray:
        """|M_k|, shape (r,)."""
        return np.sqrt(np.einsum("kj,kj->k", self.matrix, self.matrix)) + LEAST_SLICED

    def _block(self, rows: Rows) -> FloatArray:
        if is_sparse(rows) and (self.marks or self.shift.any()):
            rows = rows.toarray()
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            gaps, found = self._plainly(rows)
            if is_sparse(gaps):
                squares = gaps.multiply(gaps).sum(axis=1)
            else:
                squares = np.einsum("ij,ij->i", gaps, gaps)
            far = np.flatnonzero(~(np.sqrt(squares) <= self.plain_reach))
        if len(far):
            found[far] = self._carefully(rows[far])
        return found

    def _plainly(self, rows: Rows) -> tuple[Any, FloatArray]:
        """g of rows behind scalers, and M g."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            gaps: Any = rows if self._first is None else self._first(rows)
            if self.shift.any():
                gaps = gaps - self.shift
            return gaps, np.asarray(gaps @ self.matrix.T)

    def _carefully(self, rows: Rows) -> FloatArray:
        _, _, shift, low_shift = self._words
        shifted = bool(shift.any())
        if is_sparse(rows) and shifted:
            rows = rows.toarray()
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            high: Any = rows.data if is_sparse(rows) else rows
            low: Any = 0.0
            if shifted:
                high, low = _two_sum(rows, -shift)
                low = low - low_shift
            sizes = _largest(rows, high)
            found = self._sliced(rows, high, low, sizes)
            most = ((self.slack - self.fixed_error) / (self._loss * self._row_sizes)).min(
                initial=MOST_SLICED
            )
            far = np.flatnonzero(~(sizes <= most))
        for i in far:
            row = rows[[i]].toarray()[0] if is_sparse(rows) else rows[i]
            # What is not finite is refused later, by the number of its row.
            found[i] = self._by_integers(row) if np.isfinite(row).all() else np.nan
        return found

    @property
    def _bits(self) -> int:
        return (53 - max(self.n_features - 1, 1).bit_length()) // 2

    @property
    def _loss(self) -> float:
        return (self.n_features + 8.0) ** 2 * 2.0 ** (4 - 2 * self._bits - 53)

    @cached_property
    def _row_sizes(self) -> FloatArray:
        return _power_above(np.abs(self._words[0]).max(axis=1, initial=0.0))

    @cached_property
    def _slices(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """M_1, M_2, M_3 and M_2 + M_3, transposed: columns are outputs."""
        high, low, _, _ = self._words
        matrix, sizes = np.ascontiguousarray(high.T), self._row_sizes
        first = _cut(matrix, sizes, self._bits)
        second = _cut(matrix - first, sizes * 2.0**-self._bits, self._bits)
        third = ((matrix - first) - second) + low.T
        return first, second, third, second + third

    def _sliced(self, rows: Rows, high: Any, low: Any, sizes: FloatArray) -> FloatArray:
        bits, (m1, m2, m3, rest) = self._bits, self._slices
        scale = np.repeat(sizes, np.diff(rows.indptr)) if is_sparse(rows) else sizes[:, None]
        x1 = _cut(high, scale, bits)
        x2 = _cut(high - x1, scale * 2.0**-bits, bits)
        x3 = ((high - x1) - x2) + low
        a, b, c = (_like(rows, x) for x in (x1, x2, x3))
        total, small = _two_sum(a @ m1, a @ m2)  # products are exact
        total, more = _two_sum(total, b @ m1)
        left = (a @ m3 + b @ rest) + c @ (m1 + rest)
        return np.asarray(total + ((small + more) + left))

    def _by_integers(self, row: FloatArray) -> FloatArray:
        """One row in fixed point, each output rounded once; 2^-1000 is far below any slack."""
        gaps = [Fraction(x) for x in row.tolist()]
        acts = {"+": add, "-": sub, "*": mul, "/": truediv}
        for mark, by in (*zip(self.marks, self.by, strict=True), ("-", self.shift)):
            gaps = [acts[mark](gap, Fraction(b)) for gap, b in zip(gaps, by.tolist(), strict=True)]
        fixed = [(gap.numerator << PLACES) // gap.denominator for gap in gaps]
        out = []
        for line in self.matrix:
            mantissas, exponents = np.frexp(line)
            least = int(exponents.min(initial=0)) - 53
            shifts = (exponents - 53 - least).tolist()
            words = np.ldexp(mantissas, 53).astype(np.int64).tolist()
            total = sum((w << s) * g for w, s, g in zip(words, shifts, fixed, strict=True))
            out.append(quotient(total << max(least, 0), 1 << (PLACES + max(-least, 0))))
        return np.array(out)


def _power_above(values: FloatArray) -> FloatArray:
    """A power of two above each number."""
    return np.ldexp(1.0, np.frexp(values)[1])


def _largest(rows: Rows, values: FloatArray) -> FloatArray:
    """A power of two above all entries of each row, shape (m,); NaN where there is one."""
    if not is_sparse(rows):
        largest = np.abs(values).max(axis=1, initial=0.0)
    else:
        largest = np.zeros(rows.shape[0])
        np.maximum.at(
            largest, np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), np.abs(values)
        )
    return np.where(np.isfinite(largest), _power_above(np.minimum(largest, 1e300)), np.nan)


def _cut(values: Any, sizes: Any, bits: int) -> Any:
    """The leading bits of numbers below `sizes`, powers of two."""
    mark = sizes * 2.0 ** (53 - bits)
    return (values + mark) - mark


def _like(rows: Rows, values: Any) -> Any:
    if not is_sparse(rows):
        return values
    return type(rows)((values, rows.indices, rows.indptr), shape=rows.shape)


def _two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    total = a + b
    added = total - a
    return total, (a - (total - added)) + (b - added)


def _product(matrix: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """matrix * scale as two words, exactly (Dekker)."""

    def halves(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        big = 134217729.0 * x
        top = big - (big - x)
        return top, x - top

    product = matrix * scale
    (a, b), (c, d) = halves(matrix), halves(scale)
    return product, ((a * c - product) + a * d + b * c) + b * d

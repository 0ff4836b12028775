"""An affine map of the inputs, feature by feature: z' = ((z - shift) - low) * scale.

Length scales per feature (ARD) and the scalers of a pipeline are folded into a model this way; a
chain of them is one map, joined in exact arithmetic. The model that is served is the composition in
real arithmetic, z' = (z - t) s. Three doubles per feature are stored: `shift` is the nearest one to
t, `low` to t - shift, and `scale` to s. Computed as written, each entry of z' is off by a relative
5u at most, however far from zero the data sit:

- no double is nearer to t than `shift`, so |t - shift| <= |z - t| for every row z: the rounding of
  `low`, at most u |t - shift|, is at most u of z - t;
- z - shift is exact where the two are within a factor of 2 (Sterbenz); elsewhere it is at least
  |shift| / 2 and so, up to u, z - t itself, and its rounding is u of that;
- then `low` is subtracted, `scale` rounded and multiplied with: u each.

The bounds of every engine contain what that can change (`kernelite.series.rounding`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import FloatArray, Rows, is_sparse
from kernelite.machine.exactly import quotient, quotient_in_words
from kernelite.support.errors import InputError
from kernelite.support.records import dataclass

__all__ = ["AFFINE_UNITS", "AffineMap", "Operation", "check_scales"]

Operation: TypeAlias = "tuple[Literal['+', '-', '*', '/'], FloatArray]"
"""What happens to each feature: added, subtracted, multiplied with or divided by, a number each."""
AFFINE_UNITS = 5.0  # relative roundings of each entry, as above
SCALES = (1e-100, 1e100)  # of a map with rounded numbers: what underflows is far below u


@dataclass(frozen=True, eq=False)
class AffineMap:
    """z' = ((z - shift) - low) * scale, for rows z of width d.

    Parameters
    ----------
    scale : array-like of shape (d,)
        Finite; zero drops a feature.
    shift : array-like of shape (d,)
    low : array-like of shape (d,), optional
        What the shift is more than a double; None where that is nothing.

    Examples
    --------
    >>> AffineMap([2.0, 1.0], [1.0, 0.0])(np.array([[3.0, 5.0]]))
    array([[4., 5.]])
    """

    scale: FloatArray
    shift: FloatArray
    low: FloatArray | None = None
    operations: tuple[Operation, ...] = field(default=(), init=False, repr=False)
    """What the map is in real arithmetic. Files hold the rounded numbers alone."""
    rowwise: ClassVar[bool] = True
    takes_columns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("scale", "shift", "low"):
            if getattr(self, name) is None and name == "low":
                continue
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.ndim != 1 or not np.isfinite(array).all():
                raise InputError(f"`{name}` of an affine map must be a list of finite numbers.")
            if len(array) != len(self.scale):
                raise InputError(
                    f"`scale` has {len(self.scale)} features, but `{name}` has {len(array)}."
                )
            object.__setattr__(self, name, array)
        operations: list[Operation] = [("-", self.shift), ("*", self.scale)]
        if self.low is not None:
            if (np.abs(self.low) > np.spacing(np.abs(self.shift))).any():
                raise InputError("`low` of an affine map must be less than `shift` can tell.")
            operations.insert(1, ("-", self.low))
            if not self.low.any():
                object.__setattr__(self, "low", None)
        object.__setattr__(self, "operations", tuple(operations))

    def same_as(self, other: AffineMap) -> bool:
        """Whether both compute the same."""
        mine, theirs = (self.scale, self.shift), (other.scale, other.shift)
        low = np.zeros(1) if self.low is None else self.low
        their_low = np.zeros(1) if other.low is None else other.low
        return all(map(np.array_equal, (*mine, low), (*theirs, their_low)))

    @classmethod
    def of(cls, *operations: Operation) -> AffineMap:
        """The map that does these operations one after the other, in real arithmetic.

        Parameters
        ----------
        operations : pairs of '+', '-', '*' or '/' and an array of shape (d,)

        Raises
        ------
        InputError
            Where a feature is dropped and shifted afterwards, or its scale is beyond 1e100.

        Examples
        --------
        >>> thirds = AffineMap.of(("-", np.ones(1)), ("/", np.full(1, 3.0)), ("+", np.ones(1)))
        >>> thirds(np.array([[7.0]])), thirds.shift, thirds.low
        (array([[3.]]), array([-2.]), None)
        """
        operations = tuple((how, np.asarray(by, dtype=np.float64)) for how, by in operations)
        made = cls(*_rounded(operations))
        object.__setattr__(made, "operations", operations)
        return made

    def __pack__(self) -> dict[str, Any]:
        """For files: no `low` where there is none, as files always were."""
        stored = {"scale": self.scale, "shift": self.shift}
        return stored if self.low is None else stored | {"low": self.low}

    @property
    def n_features(self) -> int:
        """d."""
        return len(self.scale)

    @property
    def n_out(self) -> int:
        """d."""
        return len(self.scale)

    def made_of(self, given: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        """Each feature, of the columns that it was made of."""
        return list(given)

    @overload
    def __call__(self, rows: FloatArray) -> FloatArray: ...

    @overload
    def __call__(self, rows: Rows) -> Rows: ...

    def __call__(self, rows: Rows) -> Rows:
        """Mapped rows; sparse ones stay sparse where the shift is zero."""
        with np.errstate(over="ignore"):  # what overflows is infinitely far
            if is_sparse(rows):
                if not self.shift.any() and self.low is None:
                    return rows.multiply(self.scale[None, :]).tocsr()
                if self._keeps_zeros(rows):
                    return self._of_entries(rows)
                rows = rows.toarray()
            mapped = rows - self.shift
            if self.low is not None:
                mapped -= self.low
            mapped *= self.scale
        return mapped

    def formula(self, rows: FloatArray) -> FloatArray:
        """The map of dense rows, over `machine.ops`."""
        shifted = rows - self.shift
        return (shifted if self.low is None else shifted - self.low) * self.scale

    @cached_property
    def _shifted(self) -> NDArray[np.bool_]:
        """Features that are shifted."""
        return self.shift != 0.0 if self.low is None else (self.shift != 0.0) | (self.low != 0.0)

    def _keeps_zeros(self, rows: Any) -> bool:
        """Whether each row has an entry for all shifted features: numbers beside one-hot ones."""
        count = int(np.count_nonzero(self._shifted))
        if not rows.has_canonical_format or rows.nnz < count * rows.shape[0]:
            return False
        return int(np.count_nonzero(self._shifted[rows.indices])) == count * rows.shape[0]

    def _of_entries(self, rows: Any) -> Any:
        """Mapped entries, in the places that they had."""
        indices = rows.indices
        data = rows.data - self.shift[indices]
        if self.low is not None:
            data -= self.low[indices]
        data *= self.scale[indices]
        made = type(rows)((data, indices, rows.indptr), shape=rows.shape)
        made.has_canonical_format = True
        return made

    def then(self, other: AffineMap) -> AffineMap:
        """This map followed by another, in real arithmetic: ((z - a) s - b) t = (z - (a + b/s)) st.

        Features whose scale is zero are constant afterwards, which one map cannot say unless that
        constant is zero; then, and where a step overflows, it is an `InputError`.

        Examples
        --------
        >>> AffineMap([2.0], [1.0]).then(AffineMap([3.0], [4.0]))(np.array([[5.0]]))
        array([[12.]])
        """
        if self.n_features != other.n_features:
            raise InputError(f"maps of {self.n_features} and {other.n_features} features.")
        return AffineMap.of(*self.operations, *other.operations)

    def selected(self, columns: NDArray[np.integer]) -> AffineMap:
        """The map of some features, in their order."""
        return AffineMap.of(*((how, by[columns]) for how, by in self.operations))

    def widened(self) -> AffineMap:
        """The map with one more feature, which it leaves alone."""
        low = None if self.low is None else np.append(self.low, 0.0)
        return AffineMap(np.append(self.scale, 1.0), np.append(self.shift, 0.0), low)

    def way(self, point: FloatArray) -> FloatArray:
        """What kernels that map rows as they read them take: shift, scale, point[, low]."""
        lines = [self.shift, self.scale, point]
        return np.stack(lines if self.low is None else [*lines, self.low])

    def real(self) -> Iterator[tuple[Fraction, Fraction]]:
        """s and c of each feature, z' = s z + c, exactly."""
        return ((Fraction(a, c), Fraction(b, c)) for a, b, c in _integers(self.operations))


def _integers(operations: tuple[Operation, ...]) -> Iterator[tuple[int, int, int]]:
    """a, b and c of each feature, z' = (a z + b) / c; not reduced, which would take long."""
    for numbers in zip(*(by.tolist() for _, by in operations)):
        a, b, c = 1, 0, 1
        for (how, _), number in zip(operations, numbers):
            p, q = number.as_integer_ratio()
            if how == "*":
                a, b, c = a * p, b * p, c * q
            elif how == "/":
                a, b, c = a * q, b * q, c * p
            else:
                a, b, c = a * q, b * q + (p if how == "+" else -p) * c, c * q
        yield a, b, c


def _rounded(
    operations: tuple[Operation, ...],
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """scale, shift and low."""
    _check(operations)
    marks = "".join(how for how, _ in operations)
    if marks in ("*", "/", "-*", "-/"):  # text has many features, and no shift to be joined
        by = operations[-1][1]
        shift = operations[0][1] if len(marks) == 2 else np.zeros(len(by))
        scale = by if marks[-1] == "*" else 1.0 / by
        if marks[-1] == "/":
            check_scales(np.abs(scale))
        return scale, shift, None
    scales, shifts, kept = [], [], []
    for a, b, c in _integers(operations):
        if not a and b:
            raise InputError("a feature that is dropped cannot be shifted afterwards.")
        scales.append(quotient(a, c))
        shifts.append(quotient_in_words(-b, a) if a else (0.0, 0.0))
        kept.append(a != 0)
    scale, words = np.array(scales, dtype=np.float64), np.array(shifts, dtype=np.float64)
    check_scales(np.abs(scale[kept]))
    words = words.reshape(-1, 2)
    return scale, words[:, 0], words[:, 1]


def _check(operations: tuple[Operation, ...]) -> None:
    for how, by in operations:
        if by.ndim != 1 or by.shape != operations[0][1].shape or not np.isfinite(by).all():
            raise InputError("an affine map takes a finite number for each feature.")
        if how == "/" and not by.all():
            raise InputError("an affine map cannot divide by zero.")


def check_scales(sizes: FloatArray) -> None:
    """Refuse |scale| for which what underflows would count: beyond `SCALES`."""
    if not ((sizes >= SCALES[0]) & (sizes <= SCALES[1])).all():
        raise InputError(
            f"an affine map has a scale that is not between {SCALES[0]:g} and {SCALES[1]:g}."
        )

"""The handful of operations that formulas for several targets are written in, and how these round.

In: an array, or whatever stands for one on another target. Out: the functions that work on it,
under the names of the Array API standard. NumPy's are here; a target brings its own (the ONNX graph
builder does, and C for kernels), so that a formula is written once:

    xp = ops(scores)
    return xp.where(scores > 0, scores, 0.0)

Formulas keep to these functions, to Python's operators, and to columns (`x[:, i]`, `x[:, None]`):
nothing is changed in place, and no branch asks for a number in an array (but `iterates` does). What
bounds know of a target is its `Arithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kernelite.support.records import dataclass

__all__ = [
    "C_SINGLE",
    "JAVASCRIPT",
    "MODEL",
    "NUMPY",
    "ONNX",
    "TORCH",
    "Arithmetic",
    "C",
    "ComposedOps",
    "NumpyOps",
    "elementwise",
    "ops",
    "slopes_between",
]

CACHED_ENTRIES = 1 << 13  # entries of an array that stay in cache while a formula passes over them


class NumpyOps:
    """What a formula may use, as NumPy has it (from 1.26 on, hence some older names)."""

    abs = staticmethod(np.abs)
    all = staticmethod(np.all)
    any = staticmethod(np.any)
    argmax = staticmethod(np.argmax)
    clip = staticmethod(np.clip)
    concat = staticmethod(np.concatenate)
    exp = staticmethod(np.exp)
    full = staticmethod(np.full)
    full_like = staticmethod(np.full_like)
    isinf = staticmethod(np.isinf)
    isnan = staticmethod(np.isnan)
    log = staticmethod(np.log)
    max = staticmethod(np.max)
    maximum = staticmethod(np.maximum)
    min = staticmethod(np.min)
    minimum = staticmethod(np.minimum)
    nextafter = staticmethod(np.nextafter)
    sign = staticmethod(np.sign)
    sqrt = staticmethod(np.sqrt)
    stack = staticmethod(np.stack)
    sum = staticmethod(np.sum)
    take_along_axis = staticmethod(np.take_along_axis)
    where = staticmethod(np.where)

    @staticmethod
    def astype(x: Any, dtype: Any) -> Any:
        """Converted; a copy."""
        return x.astype(dtype)

    @staticmethod
    def iterates(running: Any) -> bool:
        """Whether an iteration goes on: some row needs it. Targets without loops have none."""
        return bool(running.any())

    @staticmethod
    def take(constants: Any, index: Any) -> Any:
        """Entries of a constant array, labels among them."""
        return constants[index]

    @staticmethod
    def top_two(x: Any, width: int) -> tuple[Any, Any]:
        """The largest and the second largest of each row, each of shape (m,)."""
        top = np.partition(x, -2, axis=1)
        return top[:, -1], top[:, -2]

    @staticmethod
    def squared_norms(x: Any) -> Any:
        """|x|^2 of each row, shape (m,)."""
        return np.einsum("ij,ij->i", x, x)

    @staticmethod
    def contract(x: Any, matrices: Any) -> Any:
        """x'M_j x of each row and matrix: (m, r) and (k, r, r) to (m, k)."""
        out = np.empty((len(x), len(matrices)), x.dtype)
        for j, matrix in enumerate(matrices):
            np.einsum("ij,ij->i", x @ matrix, x, out=out[:, j])
        return out

    @staticmethod
    def contract_cubic(x: Any, packed: Any) -> Any:
        """sum_{a<=b<=c} t_abc x_a x_b x_c of each row and packed tensor: shape (m, k)."""
        m, r = x.shape
        out, start = np.zeros((m, len(packed)), x.dtype), 0
        for a in range(r):
            rest = r - a
            stop = start + rest * (rest + 1) // 2
            upper, part, corner = np.triu_indices(rest), x[:, a:], np.zeros((rest, rest), x.dtype)
            for output, coefficients in enumerate(packed[:, start:stop]):
                corner[upper] = coefficients
                out[:, output] += x[:, a] * np.einsum("ij,ij->i", part @ corner, part)
            start = stop
        return out

    @staticmethod
    def squared_distances(rows: Any, centers: Any) -> Any:
        """|x - z|^2 of all pairs, by differences: (m, d) and (n, d) to (m, n)."""
        if rows.dtype == np.float32:  # which SciPy would make doubles of
            return np.square(rows[:, None, :] - centers).sum(axis=2)
        from scipy.spatial.distance import cdist

        return cdist(rows, centers, "sqeuclidean")

    @staticmethod
    def city_distances(rows: Any, centers: Any) -> Any:
        """|x - z|_1 of all pairs, likewise."""
        if rows.dtype == np.float32:
            return np.abs(rows[:, None, :] - centers).sum(axis=2)
        from scipy.spatial.distance import cdist

        return cdist(rows, centers, "cityblock")

    @staticmethod
    def lookup(x: Any, keys: Sequence[str], values: Sequence[int], other: int) -> Any:
        """The number of each text, `other` where it is no key: shape (m,)."""
        table = dict(zip(keys, values, strict=True))
        return np.array([table.get(text, other) for text in x], dtype=np.int64)

    @staticmethod
    def iterate(step: Any, state: Any, given: tuple[Any, ...], most: int) -> Any:
        """Rows of `state`, each changed by `step` while it says so, `most` times at most.

        `step(state, *given)` gives new rows and which of them were not at their end, shape (m,).
        """
        state, rows = state.copy(), np.arange(len(state))
        for _ in range(most):
            new, running = step(state[rows], *given)
            if not running.any():
                break
            rows, given = rows[running], tuple(each[running] for each in given)
            state[rows] = new[running]
        return state

    @staticmethod
    def function(name: str, x: Any) -> Any:
        """An elementary function by NumPy's name."""
        return getattr(np, name)(x)

    @staticmethod
    def erf(x: Any) -> Any:
        """The error function."""
        from scipy.special import erf

        return erf(x)

    @staticmethod
    def expit(x: Any) -> Any:
        """1 / (1 + exp(-x))."""
        from scipy.special import expit

        return expit(x)

    @staticmethod
    def interp(x: Any, places: Any, values: Any) -> Any:
        """Linear between the places, constant outside."""
        return np.interp(x, places, values)


class ComposedOps:
    """Operations that are made of others, for targets that have none of their own."""

    def entries(self: Any, table: Any, index: Any) -> Any:
        """Entries of a constant array of reals."""
        return self.take(table, index)

    def expit(self: Any, x: Any) -> Any:
        """1 / (1 + exp(-x)), by the form that does not overflow."""
        small = self.exp(-self.abs(x))
        return self.where(x >= 0.0, 1.0 / (1.0 + small), small / (1.0 + small))

    def top_two(self: Any, x: Any, width: int) -> tuple[Any, Any]:
        """The largest and the second largest of each row, each of shape (m,)."""
        winner = self.argmax(x)[:, None] == np.arange(width)[None, :]
        return self.max(x), self.max(self.where(winner, -np.inf, x))

    def interp(self: Any, x: Any, places: Any, values: Any) -> Any:
        """Linear between the places, constant outside: as `numpy.interp`."""
        if len(places) == 1:
            return self.full_like(x, float(values[0]))
        passed = self.sum(x[:, None] >= np.asarray(places)[None, :], axis=1)
        before = self.astype(self.maximum(passed - 1.0, 0.0), np.int64)
        start, value, slope = (
            self.entries(table, before)
            for table in (places, values, slopes_between(places, values))
        )
        inside = value + slope * (self.maximum(x, float(places[0])) - start)
        return self.where(passed >= float(len(places)), float(values[-1]), inside)


def slopes_between(places: Any, values: Any) -> Any:
    """Of lines between points, and 0 behind the last; 0 too where two places are one.

    Examples
    --------
    >>> slopes_between(np.array([0.0, 2.0, 2.0]), np.array([1.0, 2.0, 5.0]))
    array([0.5, 0. , 0. ])
    """
    gaps = np.diff(places)
    slopes = np.divide(np.diff(values), gaps, out=np.zeros_like(gaps), where=gaps > 0)
    return np.append(slopes, 0.0)


def ops(array: Any) -> Any:
    """The operations of an array's own kind.

    Examples
    --------
    >>> ops(np.zeros(3)).sum(np.ones(3))
    np.float64(3.0)
    """
    return NumpyOps if isinstance(array, np.ndarray) else array.__array_namespace__()


def elementwise(formula: Callable[[Any], Any], values: Any) -> Any:
    """A formula of each entry; long arrays are overwritten piece by piece, and stay in cache.

    Examples
    --------
    >>> elementwise(lambda x: ops(x).exp(x) * 0.5, np.zeros(2))
    array([0.5, 0.5])
    """
    plain = isinstance(values, np.ndarray) and values.flags.c_contiguous
    if not plain or values.size <= CACHED_ENTRIES:
        return formula(values)
    flat = values.reshape(-1)
    for start in range(0, len(flat), CACHED_ENTRIES):
        flat[start : start + CACHED_ENTRIES] = formula(flat[start : start + CACHED_ENTRIES])
    return values


# How a target rounds: one record each, which the rounding terms of all bounds are functions of.
#
# A formula fixes a meaning in real numbers, not its rounding. Targets differ in what stands here:
#
#     unit                what one operation may be off by, relatively
#     exp, log, ...       what a function may be off by, in these units, of its value
#
# All may take sums in any order, make a product and a sum one operation (fma), and lose what is
# subnormal: bounds allow for it everywhere. Certificates are computed for `MODEL`, the arithmetic
# that `series.rounding` describes; `worse` says how many times as much another target may round.


DOUBLE, SINGLE = 2.0**-53, 2.0**-24


@dataclass(frozen=True)
class Arithmetic:
    """What a target promises about its floating-point operations.

    Parameters
    ----------
    name : str
        What messages call the target.
    unit : float
        The relative error of +, -, * and /.
    exp, log, sqrt, tanh, sin : float
        The error of a function, in units, of its value.

    Examples
    --------
    >>> NUMPY.worse, ONNX.worse, C.proves, C_SINGLE.proves
    (1.0, 4.0, True, False)
    """

    name: str
    unit: float = DOUBLE
    exp: float = 8.0
    log: float = 8.0
    sqrt: float = 1.0
    tanh: float = 8.0
    sin: float = 8.0

    @property
    def worse(self) -> float:
        """How many times as much as `MODEL` it may round: that of its worst operation.

        Sums need no term: `MODEL` counts them in any order, with fused products or without.
        Neither do subnormal numbers: what underflows has a term of its own, far above them.
        """
        ratio = self.unit / MODEL.unit
        functions = ("exp", "log", "sqrt", "tanh", "sin")
        return ratio * max(1.0, *(getattr(self, f) / getattr(MODEL, f) for f in functions))

    @property
    def proves(self) -> bool:
        """Whether bounds hold on it: exponents of doubles are what all of them count on."""
        return self.unit == DOUBLE


FOREIGN = 32.0  # units of functions in libraries that are not ours to test: 16 ulp


def _foreign(name: str, unit: float = DOUBLE) -> Arithmetic:
    """Of a runtime or a compiler that somebody else chooses."""
    return Arithmetic(name, unit, FOREIGN, FOREIGN, 4.0, FOREIGN, FOREIGN)


MODEL = Arithmetic("the model of series.rounding")
NUMPY = Arithmetic("NumPy")  # and compiled kernels
TORCH = Arithmetic("torch")
ONNX = _foreign("ONNX")
C = _foreign("C")
C_SINGLE = _foreign("C in float32", SINGLE)
JAVASCRIPT = _foreign("JavaScript")

"""Graphs: the operations of `kernelite.machine.ops` as nodes; formulas become them as they stand.

In: values of a graph, and constants. Out: a value each. What onnxruntime lacks in double precision,
or rounds badly, is put together from what it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.ops import ComposedOps
from kernelite.model.export.nodes import Nodes, Value
from kernelite.support.errors import UnsupportedModelError

__all__ = ["Graph", "Table"]

PIECES, DEGREE = 24, 14  # of the error function's polynomials


def _each(name: str, kind: str = "f") -> Any:
    """A node of one input."""
    return lambda self, x: self.op(name, x, kind=kind)


def _of_two(name: str) -> Any:
    """A node of two inputs, the second perhaps a constant."""
    return lambda self, x, y: x.combined(name, y)


class Graph(Nodes, ComposedOps):
    """What a formula may use, in terms of nodes and constants that a graph adds.

    `kernelite.machine.ops` says what each does.
    """

    by_products = True
    stops = True  # a place beyond a table stops the run, with an error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedModelError(
            f"it needs the operation `{name}`, which graphs do not have; predict in Python."
        )

    abs, exp, log, sqrt, sign = (_each(name) for name in ("Abs", "Exp", "Log", "Sqrt", "Sign"))
    isnan, isinf = _each("IsNaN", "b"), _each("IsInf", "b")
    maximum, minimum = _of_two("Max"), _of_two("Min")

    def clip(self, x: Value, low: float, high: float) -> Value:
        """Brought into [low, high]."""
        return self.op("Clip", x, self.real(low), self.real(high))

    def nextafter(self, x: Value, towards: float) -> Value:
        """A value beyond x, in the direction of minus infinity or infinity, by a few ulp."""
        reach = self.abs(x) * 2.0**-50 + 1e-300
        return x + reach if towards > 0 else x - reach

    def where(self, condition: Value, yes: Any, no: Any) -> Value:
        """`yes` where the condition holds, else `no`."""
        given = [side for side in (yes, no) if _is_value(side)]
        kinds = {side.kind for side in given} | {
            np.asarray(side).dtype.kind for side in (yes, no) if not _is_value(side)
        }
        kind = "i" if kinds == {"i"} else "b" if kinds == {"b"} else "f"
        kind = "O" if kinds & {"O", "U"} else kind
        sides = [self.like(side, condition.ndim, kind) for side in (yes, no)]
        if kind == "f":
            sides = [side.real() for side in sides]
        axes = max(condition.ndim, *(side.ndim for side in given)) if given else condition.ndim
        return self.op("Where", condition, *sides, ndim=axes, kind=kind)

    def sum(self, x: Value, axis: int = 1, keepdims: bool = False) -> Value:
        """Sums along an axis."""
        return self._reduced("ReduceSum", x.real(), axis, keepdims)

    def max(self, x: Value, axis: int = 1, keepdims: bool = False) -> Value:
        """The largest along an axis."""
        return self._reduced("ReduceMax", x, axis, keepdims)

    def min(self, x: Value, axis: int = 1, keepdims: bool = False) -> Value:
        """The smallest along an axis."""
        return self._reduced("ReduceMin", x, axis, keepdims)

    def all(self, x: Value, axis: int = 1) -> Value:
        """Where all along an axis are true."""
        return self.min(x.real(), axis) > 0.5

    def any(self, x: Value, axis: int = 1) -> Value:
        """Where any along an axis is true."""
        return self.max(x.real(), axis) > 0.5

    def argmax(self, x: Value, axis: int = 1) -> Value:
        """Where the first of the largest stands."""
        return self.op("ArgMax", x.real(), axis=axis, keepdims=0, ndim=x.ndim - 1, kind="i")

    def concat(self, parts: Sequence[Value], axis: int = 0) -> Value:
        """Tensors one after another along an axis."""
        kinds = {part.kind for part in parts}
        if len(kinds) > 1:
            parts = [part.real() for part in parts]
        if len(parts) == 1:
            return parts[0]
        return self.op("Concat", *parts, axis=axis, kind=parts[0].kind)

    def stack(self, parts: Sequence[Value], axis: int = 1) -> Value:
        """Tensors of one axis, side by side."""
        return self.concat([part[:, None] for part in parts], axis=axis)

    def take(self, constants: NDArray[Any], index: Value) -> Value:
        """Entries of a constant array: labels, or rows of numbers."""
        table = self.labels(constants) if constants.ndim == 1 else self.real(constants)
        axes = index.ndim + table.ndim - 1
        return self.op("Gather", table, index, axis=0, ndim=axes, kind=table.kind)

    def entries(self, table: NDArray[Any], index: Value) -> Value:
        """Entries of a constant array of reals."""
        return self.op("Gather", self.real(table), index, axis=0, ndim=index.ndim)

    def take_along_axis(self, x: Value, index: Value, axis: int = 1) -> Value:
        """One entry per row, at a column of places."""
        return self.op("GatherElements", x, index, axis=axis, kind=x.kind)

    def astype(self, x: Value, dtype: Any) -> Value:
        """As whole numbers, or as reals of the graph's precision, whichever are asked for."""
        if np.dtype(dtype).kind in "iu":
            return x if x.kind == "i" else self.op("Cast", x, to="int64", kind="i")
        return x.real()

    def full(self, shape: tuple[Any, ...], value: Any) -> Value:
        """A number in every entry; the first axis is that of another value's rows."""
        rows, *rest = shape
        count = self.op("Shape", rows, start=0, end=1, ndim=1, kind="i")
        size = self.concat([count, self.index(rest)]) if rest else count
        return self._filled(size, value, len(shape))

    def full_like(self, x: Value, value: Any) -> Value:
        """A number in every entry, in the shape of another value."""
        kind = {"b": bool, "i": int}.get(x.kind, float)
        return self._filled(self.op("Shape", x, ndim=1, kind="i"), kind(value), x.ndim)

    def erf(self, x: Value) -> Value:
        """The error function, within a few ulp of 1: Taylor's polynomial on each piece of [0, 6].

        The operator has no double precision in onnxruntime. Derivatives are those of exp(-c^2):
        Hermite polynomials with alternating signs.
        """
        from scipy.special import erf

        half = 3.0 / PIECES
        c = half * np.arange(1.0, 2.0 * PIECES, 2.0)
        tables, before, now = [erf(c)], np.zeros_like(c), np.ones_like(c)
        scale = half * 2.0 / math.sqrt(math.pi) * np.exp(-c * c)
        for n in range(1, DEGREE + 1):
            tables.append(scale * now)
            before, now = now, -2.0 * c * now - 2.0 * (n - 1.0) * before
            scale = scale * (half / (n + 1.0))
        size = self.minimum(self.abs(x), 6.0)
        place = self.minimum(self.op("Floor", size * (PIECES / 6.0)), PIECES - 1.0)
        index = self.op("Cast", place, to="int64", kind="i")
        t = size * (PIECES / 3.0) - (place * 2.0 + 1.0)
        value = None
        for table in tables[::-1]:
            coefficient = self.entries(table, index)
            value = coefficient if value is None else value * t + coefficient
        assert value is not None
        return self.sign(x) * value

    def squared_norms(self, x: Value) -> Value:
        """|x|^2 of each row, shape (m,)."""
        return self.op("ReduceSumSquare", x, self.index([1]), keepdims=0, ndim=1)

    def contract(self, x: Value, matrices: NDArray[Any]) -> Value:
        """x'M_j x of each row and matrix: (m, r) and (k, r, r) to (m, k)."""
        k, r = matrices.shape[:2]
        pulled = x @ matrices.transpose(1, 0, 2).reshape(r, k * r)
        if k == 1:
            return self.sum(pulled * x, keepdims=True)
        return self.sum(pulled.reshape(-1, k, r) * x.reshape(-1, 1, r), axis=2)

    def contract_cubic(self, x: Value, packed: NDArray[Any]) -> Value:
        """sum_{a<=b<=c} t_abc x_a x_b x_c of each row and packed tensor: shape (m, k)."""
        # Columns stand for rows here: long runs, whatever the number of directions.
        across, k, parts = x.transposed(), len(packed), []
        for start, matrices in _by_halves(packed):
            r, size = matrices.shape[1:3]
            part = across.span(start, start + size)
            products = part.reshape(size, 1, -1) * part.reshape(1, size, -1)
            lines = self.real(matrices.reshape(k * r, size * size))
            pulled = (lines @ products.reshape(size * size, -1)).reshape(k, r, -1)
            parts.append(self.sum(pulled * across, axis=1).transposed())
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def squared_distances(self, rows: Value, centers: NDArray[Any]) -> Value:
        """|x - z|^2 of all pairs, by differences: shape (m, n)."""
        return self._over_features("square", rows, centers)

    def city_distances(self, rows: Value, centers: NDArray[Any]) -> Value:
        """|x - z|_1 of all pairs, likewise."""
        return self._over_features("size", rows, centers)

    def lookup(self, x: Value, keys: Sequence[str], values: Sequence[int], other: int) -> Value:
        """The number of each text, `other` where it is no key."""
        known: dict[str, Any] = {"keys": list(keys), "values": list(values), "other": other}
        return self.op("LabelEncoder", x, kind="i", **known)

    def table(self, columns: Sequence[Value]) -> Table:
        """Columns of several kinds, side by side."""
        return Table(dict(enumerate(columns)))

    def iterate(self, step: Any, state: Value, given: Sequence[Value], most: int) -> Value:
        """Rows of `state`, each changed by `step` while it says so, `most` times at most."""
        body = self.inner()
        turn, going = body.input("turn", 0, "i"), body.input("going", 0, "b")
        now = body.input("state", state.ndim)
        new, running = step(now, *(body.value(v.name, v.ndim, v.kind) for v in given))
        left = body.op("ReduceSum", running.real(), keepdims=0, ndim=0) > 0.5
        kept = body.where(running[:, None], new, now)
        times, yes = self.constant(np.array(most)), self.constant(np.array(True))
        inside = body, (turn, going, now), (left, kept)
        return self.op("Loop", times, yes, state, body=inside, ndim=state.ndim)

    def function(self, name: str, x: Value) -> Value:
        """An elementary function by NumPy's name."""
        if name not in _FUNCTIONS:
            raise UnsupportedModelError(f"its values pass through numpy.{name}")
        return _FUNCTIONS[name](self, x)

    def _reduced(self, name: str, x: Value, axis: int, keepdims: bool) -> Value:
        axes = x.ndim if keepdims else x.ndim - 1
        return self.op(name, x, self.index([axis]), keepdims=int(keepdims), ndim=axes)

    def _filled(self, size: Value, value: Any, ndim: int) -> Value:
        dtype = {bool: np.dtype(bool), int: np.dtype(np.int64)}.get(type(value), self.dtype)
        entry = np.array([value], dtype)
        return self.op("ConstantOfShape", size, value=entry, ndim=ndim, kind=dtype.kind)

    def _over_features(self, term: str, rows: Value, centers: NDArray[Any]) -> Value:
        """The sum of |z - x| or its square over features, one at a time: (m, n) numbers each."""
        points = self.real(centers)
        key = term, rows.name, points.name
        if key not in self._made:
            body = self.inner()
            total, z, x = body.input("total"), body.input("z", 1), body.input("x", 1)
            gap = z[:, None] - x
            added = total + (gap * gap if term == "square" else body.abs(gap))
            self._made[key] = self.op(
                *("Scan", self.full((rows.shape[0], len(centers)), 0.0), rows, points),
                body=(body, (total, z, x), (added,)),
                num_scan_inputs=2,
                scan_input_axes=[1, 1],
            )
        return self._made[key]


class Table:
    """Columns of rows, each a value of one axis: what encoders take."""

    def __init__(self, columns: Mapping[int, Value]) -> None:
        self.columns = columns
        self.graph = next(iter(columns.values())).graph

    def __array_namespace__(self) -> Graph:
        return self.graph

    def __getitem__(self, key: tuple[slice, int]) -> Value:
        return self.columns[key[1]]


def _by_halves(packed: NDArray[Any]) -> list[tuple[int, NDArray[Any]]]:
    """For each half of the directions its start, and t_abc of shape (k, r, size, size).

    Two of a, b, c are in the same half, so that products of pairs within the halves are all that is
    needed: whole outer products, nothing to be picked.
    """
    r = 1
    while r * (r + 1) * (r + 2) // 6 < packed.shape[1]:
        r += 1
    a, b, c = np.array(list(combinations_with_replacement(range(r), 3))).T
    half, found = np.arange(r) >= r // 2, []
    paired = half[a] == half[b]
    alone, one, other = (np.where(paired, *sides) for sides in ((c, a), (a, b), (b, c)))
    for start, stop in ((0, r // 2), (r // 2, r)):
        matrices = np.zeros((len(packed), r, stop - start, stop - start))
        own = (start <= one) & (one < stop)
        matrices[:, alone[own], one[own] - start, other[own] - start] = packed[:, own]
        found.append((start, matrices))
    return found if r > 1 else found[1:]


def _is_value(x: Any) -> bool:
    return not isinstance(x, bool | int | float | str | np.generic | np.ndarray)


def _log1p(xp: Graph, x: Value) -> Value:
    """Kahan's: what 1 + x rounds away cancels in x / (u - 1)."""
    u = x + 1.0
    plain = (u == 1.0) | xp.isinf(u)
    return xp.where(u == 1.0, x, xp.log(u) * xp.where(plain, 1.0, x / (u - 1.0)))


def _expm1(xp: Graph, x: Value) -> Value:
    """Kahan's, the other way round."""
    u = xp.exp(x)
    plain = (u == 1.0) | (u == 0.0) | xp.isinf(u)
    return xp.where(u == 1.0, x, (u - 1.0) * xp.where(plain, 1.0, x / xp.log(u)))


def _sinh(xp: Graph, x: Value) -> Value:
    e = _expm1(xp, xp.abs(x))
    return xp.sign(x) * 0.5 * (e + xp.where(xp.isinf(e), 1.0, e / (e + 1.0)))


def _arcsinh(xp: Graph, x: Value) -> Value:
    size = xp.abs(x)
    return xp.sign(x) * _log1p(xp, size + size * size / (1.0 + xp.sqrt(size * size + 1.0)))


_FUNCTIONS: dict[str, Any] = {
    "arcsinh": _arcsinh,
    "arctan": lambda xp, x: xp.op("Atan", x),
    "cbrt": lambda xp, x: xp.sign(x) * xp.abs(x).combined("Pow", 1.0 / 3.0),
    "deg2rad": lambda xp, x: x * (math.pi / 180.0),
    "exp": Graph.exp,
    "exp2": lambda xp, x: xp.exp(x * math.log(2.0)),
    "expm1": _expm1,
    "log": Graph.log,
    "log10": lambda xp, x: xp.log(x) * (1.0 / math.log(10.0)),
    "log1p": _log1p,
    "log2": lambda xp, x: xp.log(x) * (1.0 / math.log(2.0)),
    "negative": lambda xp, x: -x,
    "rad2deg": lambda xp, x: x * (180.0 / math.pi),
    "sin": lambda xp, x: xp.op("Sin", x),
    "sinh": _sinh,
    "sqrt": Graph.sqrt,
    "tanh": lambda xp, x: xp.op("Tanh", x),
}

"""Formulas of one row as a graph of operations, for languages that are written as text.

In: a formula in the operations of `kernelite.machine.ops`, and values of one row: arrays whose
first axis has length 1. Out: nodes with their shapes, which `emitting` writes as statements of a
language. All shapes are known, so that columns, reshapes and the like are tables of places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.ops import ComposedOps
from kernelite.support.errors import UnsupportedModelError

__all__ = ["Trace", "TracedNode"]

WIDE_PRODUCT = 4  # a product with so many times more columns than rows is taken column by column


class Trace(ComposedOps):
    """The operations; each adds a node.

    Parameters
    ----------
    target : str
        What refusals call the language.

    Examples
    --------
    >>> x = Trace("C").input("x", 3)
    >>> (x * 2.0 @ np.ones((3, 2))).shape
    (1, 2)
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self._made: dict[Any, TracedNode] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise UnsupportedModelError(
            f"it needs the operation `{name}`, which is not written in {self.target}; ONNX graphs "
            "hold more."
        )

    # Nodes ------------------------------------------------------------------------------------

    def input(self, name: str, *shape: int, kind: str = "f") -> TracedNode:
        """A value of the row that the caller gives, of shape (1, *shape)."""
        return self.node("input", (), (1, *shape), kind, name)

    def constant(self, array: Any) -> TracedNode:
        """An array as it is."""
        array = np.asarray(array)
        kind = {"b": "b", "i": "i", "u": "i", "f": "f"}.get(array.dtype.kind, "O")
        held = repr(array.tolist()) if kind == "O" else array.tobytes()
        key = ("constant", array.dtype.str, array.shape, held)
        if key not in self._made:
            self._made[key] = TracedNode(self, "constant", (), array.shape, kind, array)
        return self._made[key]

    def node(
        self,
        op: str,
        inputs: Sequence[TracedNode],
        shape: tuple[int, ...],
        kind: str,
        data: Any = None,
    ) -> TracedNode:
        """A node; the one that is there, where an equal one was made before."""
        held = data.tobytes() if isinstance(data, np.ndarray) else data
        key = (op, *(id(node) for node in inputs), shape, kind, held)
        if key not in self._made:
            self._made[key] = TracedNode(self, op, tuple(inputs), shape, kind, data)
        return self._made[key]

    def given(self, x: Any) -> TracedNode:
        """A node, or a constant."""
        return x if isinstance(x, TracedNode) else self.constant(x)

    def elementwise(self, op: str, *sides: Any, kind: str | None = None) -> TracedNode:
        """An operation on each entry, shapes broadcast."""
        nodes = [self.given(side) for side in sides]
        shape = np.broadcast_shapes(*(node.shape for node in nodes))
        kinds = {node.kind for node in nodes}
        if kind is None:
            kind = "f" if "f" in kinds else "i"
        return self.node(op, nodes, shape, kind)

    def placed(self, x: TracedNode, places: NDArray[Any]) -> TracedNode:
        """Entries of x by their places, in the shape of `places`."""
        if places.shape == x.shape and np.array_equal(places.ravel(), np.arange(x.size)):
            return x
        if x.op == "constant":
            return self.constant(x.data.reshape(-1)[places])
        if x.op == "placed":
            return self.placed(x.inputs[0], x.data.reshape(-1)[places])
        return self.node("placed", (x,), places.shape, x.kind, np.ascontiguousarray(places))

    def in_order(self, x: TracedNode) -> TracedNode:
        """The same entries held side by side, so that any of them can be asked for."""
        return self.elementwise("copy", x, kind=x.kind) if x.op == "placed" else x

    def reduced(
        self, op: str, x: Any, axis: int, keepdims: bool = False, kind: str = "f"
    ) -> TracedNode:
        """A reduction along an axis."""
        x = self.given(x)
        axis %= len(x.shape)
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        found = self.node(op, (x,), shape, kind, axis)
        return found.reshape(*x.shape[:axis], 1, *x.shape[axis + 1 :]) if keepdims else found

    # Operations -------------------------------------------------------------------------------

    def where(self, condition: Any, yes: Any, no: Any) -> TracedNode:
        """`yes` where the condition holds, else `no`."""
        kinds = {self.given(side).kind for side in (yes, no)}
        kind = "O" if "O" in kinds else "f" if "f" in kinds else "i" if "i" in kinds else "b"
        return self.elementwise("where", condition, yes, no, kind=kind)

    def clip(self, x: Any, low: float, high: float) -> TracedNode:
        """Brought into [low, high]."""
        return self.minimum(self.maximum(x, low), high)

    def sum(self, x: Any, axis: int = 1, keepdims: bool = False) -> TracedNode:
        """Sums along an axis; truth values are counted."""
        return self.reduced("sum", x, axis, keepdims)

    def max(self, x: Any, axis: int = 1, keepdims: bool = False) -> TracedNode:
        """The largest along an axis."""
        return self.reduced("max", x, axis, keepdims)

    def min(self, x: Any, axis: int = 1, keepdims: bool = False) -> TracedNode:
        """The smallest along an axis."""
        return self.reduced("min", x, axis, keepdims)

    def all(self, x: Any, axis: int = 1) -> TracedNode:
        """Where all along an axis are true."""
        return self.reduced("all", x, axis, kind="b")

    def any(self, x: Any, axis: int = 1) -> TracedNode:
        """Where any along an axis is true."""
        return self.reduced("any", x, axis, kind="b")

    def argmax(self, x: Any, axis: int = 1) -> TracedNode:
        """Where the first of the largest stands."""
        return self.reduced("argmax", x, axis, kind="i")

    def concat(self, parts: Sequence[Any], axis: int = 0) -> TracedNode:
        """Arrays one after another along an axis."""
        nodes = [self.given(part) for part in parts]
        whole = np.concatenate([np.empty(node.shape) for node in nodes], axis=axis)
        kind = "f" if any(node.kind == "f" for node in nodes) else nodes[0].kind
        return self.node("concat", nodes, whole.shape, kind, axis)

    def stack(self, parts: Sequence[Any], axis: int = 0) -> TracedNode:
        """Arrays side by side along a new axis."""
        nodes = [self.given(part) for part in parts]
        axis %= len(nodes[0].shape) + 1
        shape = nodes[0].shape
        return self.concat([n.reshape(*shape[:axis], 1, *shape[axis:]) for n in nodes], axis)

    def full(self, shape: tuple[int, ...], value: Any) -> TracedNode:
        """A number in every entry."""
        return self.constant(np.full(shape, value))

    def full_like(self, x: TracedNode, value: Any) -> TracedNode:
        """A number in every entry, in the shape and kind of another value."""
        return self.constant(np.full(x.shape, value, {"b": bool, "i": int}.get(x.kind, float)))

    def astype(self, x: Any, dtype: Any) -> TracedNode:
        """As reals, or as whole numbers."""
        kind = {"b": "b", "i": "i", "u": "i"}.get(np.dtype(dtype).kind, "f")
        return x if x.kind == kind else self.elementwise(f"to_{kind}", x, kind=kind)

    def take(self, constants: Any, index: Any) -> TracedNode:
        """Entries of a constant array, labels among them."""
        table, index = self.constant(constants), self.given(index)
        shape = index.shape + table.shape[1:]
        return self.node("take", (table, index), shape, table.kind)

    def take_along_axis(self, x: Any, index: Any, axis: int = 1) -> TracedNode:
        """One entry per row, at a column of places."""
        x = self.in_order(self.given(x))
        return self.node("pick", (x, self.given(index)), (1, 1), x.kind)

    def squared_norms(self, x: Any) -> TracedNode:
        """|x|^2, shape (1,)."""
        return self.sum(x * x, axis=1)

    def squared_distances(self, rows: Any, centers: Any) -> TracedNode:
        """|x - z|^2 of all centers, shape (1, n)."""
        gap = self._gaps(rows, centers)
        return self.sum(gap * gap, axis=2)

    def city_distances(self, rows: Any, centers: Any) -> TracedNode:
        """|x - z|_1 of all centers, shape (1, n)."""
        return self.sum(self.abs(self._gaps(rows, centers)), axis=2)

    def _gaps(self, rows: Any, centers: Any) -> TracedNode:
        return self.given(rows).reshape(1, 1, -1) - np.asarray(centers)[None]

    def contract(self, x: Any, matrices: Any) -> TracedNode:
        """x'M_j x of each matrix: (1, r) and (k, r, r) to (1, k); from one triangle of each."""
        rows, columns = np.triu_indices(matrices.shape[-1])
        doubled = np.where(rows == columns, 1.0, 2.0)
        packed = self.constant(matrices[..., rows, columns] * doubled)
        return self.node("contract", (self.given(x), packed), (1, len(matrices)), "f", 2)

    def contract_cubic(self, x: Any, packed: Any) -> TracedNode:
        """sum_{a<=b<=c} t_abc x_a x_b x_c of each packed tensor: shape (1, k)."""
        held = self.constant(packed)
        return self.node("contract", (self.given(x), held), (1, len(packed)), "f", 3)

    def iterate(self, step: Any, state: Any, given: Sequence[Any], most: int) -> TracedNode:
        """The row `state`, changed by `step` while it says so, `most` times at most."""
        state, sides = self.given(state), [self.in_order(self.given(side)) for side in given]
        # What stands for them inside; the name of an array takes the place of each.
        inside = tuple(
            self.node("input", (), side.shape, side.kind, f"inside{len(self._made)}")
            for side in (state, *sides)
        )
        new, running = step(*inside)
        return self.node("iterate", (state, *sides), state.shape, "f", (inside, new, running, most))

    def function(self, name: str, x: Any) -> TracedNode:
        """An elementary function by NumPy's name."""
        factors = {"deg2rad": np.pi / 180.0, "rad2deg": 180.0 / np.pi, "negative": -1.0}
        return x * factors[name] if name in factors else self.elementwise(name, x)


def _each(op: str, kind: str | None = None) -> Any:
    return lambda self, *sides: self.elementwise(op, *sides, kind=kind)


for _name in ("abs", "exp", "log", "sqrt", "sign", "erf", "maximum", "minimum", "nextafter"):
    setattr(Trace, _name, _each(_name, "f"))
for _name in ("isnan", "isinf"):
    setattr(Trace, _name, _each(_name, "b"))


def _operator(
    op: str, kind: str | None = None, *, turned: bool = False
) -> Callable[..., TracedNode]:
    def operate(self: TracedNode, other: Any) -> TracedNode:
        sides = (other, self) if turned else (self, other)
        return self.trace.elementwise(op, *sides, kind=kind)

    return operate


class TracedNode:
    """A value of one row: its operation, inputs, shape and kind ("f", "i", "b" or "O")."""

    __array_ufunc__ = None
    __hash__ = object.__hash__

    def __init__(
        self,
        trace: Trace,
        op: str,
        inputs: tuple[TracedNode, ...],
        shape: tuple[int, ...],
        kind: str,
        data: Any = None,
    ) -> None:
        self.trace, self.op, self.inputs, self.shape = trace, op, inputs, shape
        self.kind, self.data = kind, data

    def __array_namespace__(self) -> Trace:
        return self.trace

    def __bool__(self) -> bool:
        raise TypeError("what a value is shows only when the program runs")

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        """As of an array."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """As of an array."""
        return int(np.prod(self.shape))

    __add__, __radd__ = _operator("add"), _operator("add", turned=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", turned=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", turned=True)
    __truediv__, __rtruediv__ = _operator("div", "f"), _operator("div", "f", turned=True)
    __gt__, __ge__ = _operator("gt", "b"), _operator("ge", "b")
    __lt__, __le__ = _operator("lt", "b"), _operator("le", "b")
    __eq__, __ne__ = _operator("eq", "b"), _operator("ne", "b")  # type: ignore[assignment]
    __and__, __or__ = _operator("and", "b"), _operator("or", "b")

    def __neg__(self) -> TracedNode:
        return self.trace.elementwise("neg", self)

    def __invert__(self) -> TracedNode:
        return self.trace.elementwise("not", self, kind="b")

    def __matmul__(self, other: Any) -> TracedNode:
        """With a constant matrix: (1, r) and (r, k) to (1, k)."""
        matrix = np.asarray(other, dtype=np.float64)
        if matrix.ndim == 1:
            return (self @ matrix[:, None])[:, 0]
        r, k = matrix.shape
        if k > WIDE_PRODUCT * r:
            return self.trace.sum(self.reshape(1, 1, r) * matrix.T[None], axis=2)
        own = self.trace.in_order(self)
        return self.trace.node("matmul", (own, self.trace.constant(matrix)), (1, k), "f")

    def __getitem__(self, key: Any) -> TracedNode:
        places: NDArray[Any] = np.arange(self.size).reshape(self.shape)
        return self.trace.placed(self, places[key])

    def reshape(self, *shape: int) -> TracedNode:
        """As of an array."""
        return self.trace.placed(self, np.arange(self.size).reshape(shape))

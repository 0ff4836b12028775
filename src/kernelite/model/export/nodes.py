"""Nodes of a graph of operators on tensors, written like the formulas they compute.

In: Python expressions over `Value`s. Out: nodes and constants, which a target writes: ONNX as they
are, JavaScript as calls of functions. Operators have ONNX's names and meanings (version 18). A
`Value` is the name of a tensor; rows are always its first axis. The same node or constant is made
once, and only what the outputs need is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.machine.ops import ONNX, Arithmetic

if TYPE_CHECKING:
    from kernelite.model.export.graph import Graph

__all__ = ["Formula", "Node", "Nodes", "Value"]

BACKWARDS = 2**63 - 1  # a slice from the last column to the first
NEUTRAL = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}
COMPARED = {"Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"}

Formula: TypeAlias = Any  # a head or a criterion: typed for arrays, and written for values too
Kind: TypeAlias = str  # of the tensor's entries: "f"loat, "i"nteger, "b"oolean, "O"bject (text)


class Node(NamedTuple):
    """An operator, its inputs, its one output, its attributes."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    options: dict[str, Any]


class Nodes:
    """Nodes and constants under construction.

    Parameters
    ----------
    dtype : {"float64", "float32"}
        Of every real number in the graph.
    arithmetic : Arithmetic
        How the target rounds.
    prefix : str
        What its names begin with: those of a graph inside another must be its own.
    """

    def __init__(
        self, dtype: str = "float64", arithmetic: Arithmetic = ONNX, prefix: str = ""
    ) -> None:
        self.dtype, self.arithmetic, self.prefix = np.dtype(dtype), arithmetic, prefix
        self.nodes: list[Node] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self._made: dict[Any, Value] = {}

    # Nodes and constants ----------------------------------------------------------------------

    def value(self, name: str, ndim: int, kind: Kind) -> Value:
        """A tensor of that name; of the graph around this one, too."""
        return Value(self, name, ndim, kind)  # type: ignore[arg-type]

    def input(self, name: str, ndim: int = 2, kind: Kind = "f") -> Value:
        """A value that the caller feeds."""
        return self.value(f"{self.prefix}{name}", ndim, kind)

    def inner(self) -> Self:
        """An empty graph, for an operator that repeats one."""
        return type(self)(self.dtype.name, self.arithmetic, f"inner{len(self._made)}_")

    def op(
        self, name: str, *inputs: Value, ndim: int | None = None, kind: Kind = "f", **options: Any
    ) -> Value:
        """The node's one output; by default as many axes as its inputs have at most."""
        key = (name, *(v.name for v in inputs), *sorted((k, repr(v)) for k, v in options.items()))
        if key not in self._made:
            output = f"{self.prefix}{name.lower()}_{len(self._made)}"
            self.nodes.append(Node(name, tuple(v.name for v in inputs), output, options))
            axes = max(v.ndim for v in inputs) if ndim is None else ndim
            self._made[key] = self.value(output, axes, kind)
        return self._made[key]

    def constant(self, array: NDArray[Any]) -> Value:
        """A tensor as it is."""
        text = array.dtype.kind in "UO"
        data = tuple(array.tolist()) if text else np.ascontiguousarray(array).tobytes()
        key = (array.dtype.str, array.shape, data)
        if key not in self._made:
            name = f"{self.prefix}constant_{len(self._made)}"
            self.constants[name] = array
            kind = {"u": "i", "U": "O"}.get(array.dtype.kind, array.dtype.kind)
            self._made[key] = self.value(name, array.ndim, kind)
        return self._made[key]

    def real(self, array: Any) -> Value:
        """A constant of the graph's own precision."""
        return self.constant(np.asarray(array, dtype=self.dtype))

    def index(self, array: Any) -> Value:
        """A constant of int64."""
        return self.constant(np.asarray(array, dtype=np.int64))

    def like(self, array: Any, ndim: int, kind: Kind) -> Value:
        """A constant to combine with a value of that kind; a single number has its number of axes.

        onnxruntime takes 35 times as long for a column of shape (m, 1) and a number of shape ().
        """
        if isinstance(array, Value):
            return array
        array = np.asarray(array)
        if array.size == 1 and array.ndim <= ndim:
            array = array.reshape((1,) * ndim)
        if array.dtype.kind in "bUO":
            return self.labels(array)
        whole = array.dtype.kind in "iu" and kind == "i"
        return self.index(array) if whole else self.real(array)

    def labels(self, array: NDArray[Any]) -> Value:
        """A constant of labels: whole numbers, booleans, reals or strings."""
        if array.dtype.kind in "UO":
            array = array.astype(object)
        elif array.dtype.kind in "iu":
            array = array.astype(np.int64)
        return self.constant(array)

    def named(self, value: Value, name: str) -> None:
        """Make a value an output of that name."""
        self.nodes.append(Node("Identity", (value.name,), name, {}))

    # Reading ----------------------------------------------------------------------------------

    def needed(self, outputs: Iterable[str]) -> tuple[list[Node], dict[str, NDArray[Any]]]:
        """The nodes that these values need, in order, and the constants of these."""
        needed, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if node.output in needed:
                needed |= set(node.inputs)
                if "body" in node.options:  # which may use values of this graph
                    needed |= {name for own in node.options["body"][0].nodes for name in own.inputs}
                nodes.append(node)
        return nodes[::-1], {name: a for name, a in self.constants.items() if name in needed}


def _operator(name: str, *, turned: bool = False) -> Any:
    """An operator of Python's that adds a node of that name."""

    def operate(self: Value, other: Any) -> Value:
        return self.combined(name, other, turned=turned)

    return operate


class Value:
    """A tensor of a graph; operators add nodes. Plain numbers become constants."""

    __array_ufunc__ = None  # so that arrays leave operators to this class
    __iter__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, graph: Graph, name: str, ndim: int = 2, kind: Kind = "f") -> None:
        self.graph, self.name, self.ndim, self.kind = graph, name, ndim, kind
        self.width: int | None = None

    def __array_namespace__(self) -> Graph:
        return self.graph

    def __bool__(self) -> bool:
        raise TypeError("what a value is shows only when the graph runs")

    @property
    def shape(self) -> tuple[Value]:
        """What stands for the number of rows, in `Graph.full` and `reshape`: the value itself."""
        return (self,)

    def combined(self, name: str, other: Any, *, turned: bool = False) -> Value:
        """A node of two inputs, of one type; whole numbers stay so unless they are divided."""
        right = self.graph.like(other, self.ndim, self.kind)
        if not isinstance(other, Value) and _is_dropped(name, np.asarray(other)):
            right = self.graph.full_like(self.real(), float(np.asarray(other).reshape(-1)[0]))
        same = self.kind == right.kind and (self.kind != "b" or name in ("And", "Or", "Equal"))
        if not same or (name == "Div" and self.kind == "i"):
            self, right = self.real(), right.real()
        kind = "b" if name in COMPARED or name in ("And", "Or") else self.kind
        sides = (right, self) if turned else (self, right)
        return self.graph.op(name, *sides, kind=kind)

    __add__ = __radd__ = _operator("Add")
    __sub__, __rsub__ = _operator("Sub"), _operator("Sub", turned=True)
    __mul__ = __rmul__ = _operator("Mul")
    __truediv__, __rtruediv__ = _operator("Div"), _operator("Div", turned=True)
    __gt__, __ge__ = _operator("Greater"), _operator("GreaterOrEqual")
    __lt__, __le__ = _operator("Less"), _operator("LessOrEqual")
    __and__, __or__ = _operator("And"), _operator("Or")
    __eq__ = _operator("Equal")

    def __ne__(self, other: Any) -> Value:  # type: ignore[override]
        return ~self.combined("Equal", other)

    def __matmul__(self, other: Any) -> Value:
        """By Gemm, where there are two axes.

        onnxruntime takes a number beside MatMul into it, in single precision (seen in 1.31).
        """
        right = other if isinstance(other, Value) else self.graph.real(other)
        name = "Gemm" if self.ndim == right.ndim == 2 else "MatMul"
        return self.graph.op(name, self.real(), right)

    def __invert__(self) -> Value:
        return self.graph.op("Not", self, kind="b")

    def __neg__(self) -> Value:
        return self.graph.op("Neg", self, kind=self.kind)

    def __getitem__(self, key: tuple[slice, Any]) -> Value:
        """Columns: `x[:, 3]`, `x[:, [2, 0]]`, `x[:, 1:]`, `x[:, ::-1]`; `x[:, None]`: an axis."""
        graph, (rows, columns) = self.graph, key
        assert rows == slice(None)
        if columns is None:
            return self.reshape(-1, 1)
        if self.width == 1 and not isinstance(columns, slice) and np.ndim(columns) == 0:
            return self.reshape(-1)  # which costs nothing
        if not isinstance(columns, slice):
            index = graph.index(columns)
            axes = self.ndim - 1 + index.ndim
            return graph.op("Gather", self, index, axis=1, ndim=axes, kind=self.kind)
        step = columns.step or 1
        start, stop = (0, BACKWARDS) if step > 0 else (BACKWARDS, -BACKWARDS)
        ends = (
            (start if columns.start is None else columns.start),
            (stop if columns.stop is None else columns.stop),
        )
        limits = (graph.index([number]) for number in (*ends, 1, step))
        return graph.op("Slice", self, *limits, ndim=self.ndim, kind=self.kind)

    def real(self) -> Value:
        """Truth values or whole numbers as reals of the graph's precision."""
        if self.kind == "f":
            return self
        return self.graph.op("Cast", self, to=self.graph.dtype.name)

    def reshape(self, *shape: Any) -> Value:
        """-1: whatever is left; the rows of a value, as many as there are."""
        sizes = [size if isinstance(size, int) else 0 for size in shape]
        return self.graph.op(
            "Reshape", self, self.graph.index(sizes), ndim=len(sizes), kind=self.kind
        )

    def of_width(self, width: int) -> Value:
        """The same tensor, known to have so many columns."""
        self.width = width
        return self

    def on_two_axes(self) -> Value:
        """A column, of one entry per row."""
        return self if self.ndim == 2 else self.reshape(-1, 1)

    def transposed(self) -> Value:
        """Rows as columns."""
        return self.graph.op("Transpose", self, perm=[1, 0])

    def rows(self, index: Value) -> Value:
        """Some of its rows."""
        return self.graph.op("Gather", self, index, axis=0, ndim=self.ndim, kind=self.kind)

    def span(self, start: int, stop: int) -> Value:
        """Its rows from `start` to before `stop`."""
        ends = self.graph.index([start]), self.graph.index([stop])
        return self.graph.op("Slice", self, *ends, kind=self.kind)

    def places(self) -> Value:
        """Indices of the rows, of one truth value each, that are true: shape (count,)."""
        return self.graph.op("NonZero", self.reshape(-1), ndim=2, kind="i").reshape(-1)

    def updated(self, index: Value, rows: Value) -> Value:
        """The same tensor with some rows replaced."""
        return self.graph.op("ScatterND", self, index.reshape(-1, 1), rows, ndim=self.ndim)


def _is_dropped(name: str, array: NDArray[Any]) -> bool:
    """Whether onnxruntime would take a constant for neutral, and leave the node out.

    It looks at single numbers in single precision: adding 1e-50 or multiplying by 1 + 1e-9 does
    nothing, it finds (seen in 1.31). Margins of bounds are such numbers; a tensor that is filled
    when the graph runs is left alone.
    """
    if array.size != 1 or name not in NEUTRAL:
        return False
    value = float(array.reshape(-1)[0])
    return value != NEUTRAL[name] and np.float32(value) == NEUTRAL[name]

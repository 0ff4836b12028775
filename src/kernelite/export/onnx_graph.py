"""A graph of ONNX nodes written like the formulas it computes.

In: Python expressions over `Value`s. Out: nodes and initializers of the standard operator set.
A `Value` is the name of a tensor; rows are always its first axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.errors import MissingExtraError

__all__ = ["IR_VERSION", "OPSET", "Graph", "Value", "require_onnx"]

OPSET = 18  # of 2022-12: onnxruntime from 1.14 on
IR_VERSION = 8


def require_onnx() -> Any:
    """The `onnx` package, or an error that names the extra."""
    try:
        import onnx
    except ImportError:
        raise MissingExtraError(
            "exporting to ONNX needs the `onnx` package: pip install 'kernelite[onnx]'."
        ) from None
    return onnx


class Graph:
    """Nodes and constants under construction.

    Parameters
    ----------
    dtype : {"float64", "float32"}
        Of every real number in the graph.
    """

    def __init__(self, dtype: str = "float64") -> None:
        self.onnx = require_onnx()
        self.dtype = np.dtype(dtype)
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._count = 0

    def input(self, name: str) -> Value:
        """A value that the caller feeds."""
        return Value(self, name)

    def real(self, array: Any) -> Value:
        """A constant of the graph's own precision."""
        return self._constant(np.asarray(array, dtype=self.dtype))

    def number(self, array: Any) -> Value:
        """A constant to add to or multiply columns by; a single number has shape (1, 1).

        onnxruntime takes 35 times as long for a column of shape (m, 1) and a number of shape ().
        """
        array = np.asarray(array)
        return self.real(array.reshape(1, 1) if array.size == 1 else array)

    def index(self, array: Any) -> Value:
        """A constant of int64."""
        return self._constant(np.asarray(array, dtype=np.int64))

    def labels(self, array: NDArray[Any]) -> Value:
        """A constant of labels: whole numbers, booleans, reals or strings."""
        if array.dtype.kind in "UO":
            array = array.astype(object)
        elif array.dtype.kind in "iu":
            array = array.astype(np.int64)
        return self._constant(array)

    def op(self, kind: str, *inputs: Value, **attributes: Any) -> Value:
        """Add a node with one output."""
        name = self._name(kind.lower())
        self.nodes.append(
            self.onnx.helper.make_node(kind, [v.name for v in inputs], [name], **attributes)
        )
        return Value(self, name)

    def where(self, condition: Value, yes: Value, no: Value) -> Value:
        """`yes` where the condition holds, else `no`."""
        return self.op("Where", condition, yes, no)

    def stack(self, *parts: Value, axis: int = 0) -> Value:
        """Tensors one after another along an axis."""
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=axis)

    def zeros(self, like: Value, columns: int) -> Value:
        """Zeros of shape (rows of `like`, columns)."""
        rows = self.op("Shape", like, start=0, end=1)
        shape = self.stack(rows, self.index([columns]))
        zero = self.onnx.numpy_helper.from_array(np.zeros(1, self.dtype))
        return self.op("ConstantOfShape", shape, value=zero)

    def named(self, value: Value, name: str) -> None:
        """Make a value an output of that name."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value.name], [name]))

    def _constant(self, array: NDArray[Any]) -> Value:
        name = self._name("constant")
        self.initializers.append(self.onnx.numpy_helper.from_array(array, name))
        return Value(self, name)

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self._count}"


class Value:
    """A tensor of a graph; operators add nodes. Plain numbers become constants."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name

    def _with(self, kind: str, other: Any) -> Value:
        right = other if isinstance(other, Value) else self.graph.number(other)
        return self.graph.op(kind, self, right)

    def __add__(self, other: Any) -> Value:
        return self._with("Add", other)

    def __sub__(self, other: Any) -> Value:
        return self._with("Sub", other)

    def __mul__(self, other: Any) -> Value:
        return self._with("Mul", other)

    def __truediv__(self, other: Any) -> Value:
        return self._with("Div", other)

    def __matmul__(self, other: Any) -> Value:
        right = other if isinstance(other, Value) else self.graph.real(other)
        return self.graph.op("MatMul", self, right)

    def __gt__(self, other: Any) -> Value:
        return self._with("Greater", other)

    def __lt__(self, other: Any) -> Value:
        return self._with("Less", other)

    def __ge__(self, other: Any) -> Value:
        return self._with("GreaterOrEqual", other)

    def __le__(self, other: Any) -> Value:
        return self._with("LessOrEqual", other)

    def __and__(self, other: Value) -> Value:
        return self._with("And", other)

    def __or__(self, other: Value) -> Value:
        return self._with("Or", other)

    def __invert__(self) -> Value:
        return self.graph.op("Not", self)

    def __neg__(self) -> Value:
        return self.graph.op("Neg", self)

    def equals(self, other: Any) -> Value:
        """Where the two are the same."""
        return self._with("Equal", other)

    def exp(self) -> Value:
        """e to the power of it."""
        return self.graph.op("Exp", self)

    def sqrt(self) -> Value:
        """Its square root."""
        return self.graph.op("Sqrt", self)

    def abs(self) -> Value:
        """Its absolute value."""
        return self.graph.op("Abs", self)

    def clip(self, low: float, high: float) -> Value:
        """Brought into [low, high]."""
        return self.graph.op("Clip", self, self.graph.real(low), self.graph.real(high))

    def at_most(self, limit: Any) -> Value:
        """The smaller of the two."""
        return self._with("Min", limit)

    def at_least(self, limit: Any) -> Value:
        """The larger of the two."""
        return self._with("Max", limit)

    def total(self, axis: int = 1, *, keep: bool = True) -> Value:
        """Sum along an axis."""
        return self.graph.op("ReduceSum", self, self.graph.index([axis]), keepdims=int(keep))

    def largest(self) -> Value:
        """The largest of each row, shape (m, 1)."""
        return self.graph.op("ReduceMax", self, self.graph.index([1]), keepdims=1)

    def argmax(self, *, keep: bool = False) -> Value:
        """Where the first of the largest of each row stands."""
        return self.graph.op("ArgMax", self, axis=1, keepdims=int(keep))

    def sum_of_squares(self) -> Value:
        """Of each row, shape (m, 1)."""
        return self.graph.op("ReduceSumSquare", self, self.graph.index([1]), keepdims=1)

    def real(self) -> Value:
        """Truth values or whole numbers as reals of the graph's precision."""
        to = self.graph.onnx.helper.np_dtype_to_tensor_dtype(self.graph.dtype)
        return self.graph.op("Cast", self, to=int(to))

    def reshape(self, *shape: int) -> Value:
        """-1: whatever is left; 0: as it was."""
        return self.graph.op("Reshape", self, self.graph.index(shape))

    def rows(self, index: Value) -> Value:
        """Some of its rows."""
        return self.graph.op("Gather", self, index, axis=0)

    def span(self, start: int, stop: int) -> Value:
        """Its rows from `start` to before `stop`."""
        return self.graph.op("Slice", self, self.graph.index([start]), self.graph.index([stop]))

    def columns(self, index: Any) -> Value:
        """Some of its columns."""
        return self.graph.op("Gather", self, self.graph.index(index), axis=1)

    def all(self) -> Value:
        """Rows of truth values that are all true: shape (m, 1)."""
        least = self.graph.op("ReduceMin", self.real(), self.graph.index([1]), keepdims=1)
        return least > 0.5

    def places(self) -> Value:
        """Indices of the rows of a column of truth values that are true: shape (count,)."""
        return self.graph.op("NonZero", self.reshape(-1)).reshape(-1)

    def updated(self, index: Value, rows: Value) -> Value:
        """The same with some rows replaced."""
        return self.graph.op("ScatterND", self, index.reshape(-1, 1), rows)

"""Traced formulas as statements of a language: loops over small arrays, and scalars.

In: nodes of `tracing`, and a `Language`. Out: the body of a function. An array is held if several
statements or any order of access need it; all else is computed inside the loop that asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kernelite.model.export.tracing import TracedNode
from kernelite.support.errors import UnsupportedModelError

__all__ = ["Constants", "Language", "function_body"]

MOST_HELD = 4096  # entries of an array between statements; of larger ones all is computed anew
FREE = ("input", "constant")
ARRAYS = ("matmul", "contract", "concat", "iterate")  # written by loops of their own
SPARSE = 3  # a matrix with so many times more zeros than numbers is a list of its numbers

OPERATORS = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "gt": "{} > {}",
    "ge": "{} >= {}",
    "lt": "{} < {}",
    "le": "{} <= {}",
    "eq": "{} == {}",
    "ne": "{} != {}",
    "and": "{} && {}",
    "or": "{} || {}",
    "not": "!{}",
    "neg": "-{}",
    "copy": "{}",
    "write": "{}",
    "to_f": "{}",
    "where": "{} ? {} : {}",
    "sign": "{0} > 0 ? 1 : {0} < 0 ? -1 : {0}",
    "isnan": "{0} != {0}",
    "isinf": "{0} - {0} != 0 && {0} == {0}",
    # What is no number stays none.
    "maximum": "({0} > {1} || {0} != {0}) ? {0} : {1}",
    "minimum": "({0} < {1} || {0} != {0}) ? {0} : {1}",
}


class Language(Protocol):
    """How a language writes statements; `functions` has its own text of further operations."""

    name: str = ""
    functions: dict[str, str] = {}  # noqa: RUF012

    def literal(self, value: float, kind: str) -> str:
        """A number."""

    def held(self, name: str, size: int, kind: str) -> str:
        """The declaration of an array."""

    def variable(self, name: str, kind: str, value: str, *, fixed: bool = False) -> str:
        """The declaration of a scalar, `fixed` if it stays as it is."""

    def loop(self, index: str, start: str, stop: int) -> str:
        """The line that opens a loop."""

    def table(self, name: str, values: NDArray[Any], kind: str) -> str:
        """The definition of an array of constants."""

    def operate(self, op: str, sides: Sequence[str]) -> str:
        """An operation on scalars."""
        text = self.functions.get(op) or OPERATORS.get(op)
        if text is None:
            raise UnsupportedModelError(
                f"it needs the function `{op}`, which is not written in {self.name}; ONNX graphs "
                "hold more."
            )
        return text.format(*sides)


class Constants:
    """Arrays of constants, each once; `text` defines them.

    Parameters
    ----------
    language : Language
    prefix : str
        What their names begin with.
    """

    def __init__(self, language: Language, prefix: str) -> None:
        self.language, self.prefix = language, prefix
        self.text = ""
        self._names: dict[Any, str] = {}

    def name(self, values: NDArray[Any], kind: str) -> str:
        """The name of an array of these numbers."""
        flat = np.ascontiguousarray(values).reshape(-1)
        key = (kind, flat.dtype.str, flat.tobytes())
        if key not in self._names:
            self._names[key] = f"{self.prefix}{len(self._names)}"
            self.text += self.language.table(self._names[key], flat, kind)
        return self._names[key]


def function_body(
    constants: Constants,
    outputs: Sequence[tuple[TracedNode, str]] = (),
    returned: TracedNode | None = None,
) -> str:
    """Statements that write outputs to arrays of these names, and return a scalar."""
    written = [
        node.trace.node("write", (node,), node.shape, node.kind, name) for node, name in outputs
    ]
    body = _Body(constants, [*written, *([] if returned is None else [returned])])
    body.names |= {node: node.data for node in written}
    body.run()
    if returned is not None:
        body.line(f"return {body.element(returned, ('0',) * returned.ndim)};")
    return "".join(f"{line}\n" for line in body.lines)


def _passes(node: TracedNode) -> bool:
    """Whether a `placed` node has the entries of its source in their order and shape."""
    source = node.inputs[0]
    return (
        [n for n in node.shape if n > 1] == [n for n in source.shape if n > 1]
        and node.size == source.size
        and np.array_equal(node.data.ravel(), np.arange(source.size))
    )


def _is_sparse(matrix: NDArray[Any]) -> bool:
    return matrix.size > SPARSE * max(8, int(np.count_nonzero(matrix)))


class _Body:
    """A function's body under construction."""

    def __init__(self, constants: Constants, results: list[TracedNode]) -> None:
        self.constants, self.language = constants, constants.language
        self.lines: list[str] = []
        self.names: dict[TracedNode, str] = {}
        self.scopes: list[dict[Any, str]] = [{}]
        self.count = 0
        self.order: list[TracedNode] = []
        seen: set[TracedNode] = set()
        for result in results:
            self._visit(result, seen)
        self.stored = self._stored(results)

    def _visit(self, node: TracedNode, seen: set[TracedNode]) -> None:
        if node in seen:
            return
        seen.add(node)
        for source in node.inputs:
            self._visit(source, seen)
        self.order.append(node)

    def _stored(self, results: list[TracedNode]) -> set[TracedNode]:
        """Nodes with a statement of their own."""
        stored = {node for node in results if node.op not in (*FREE, "placed")}

        def demand(node: TracedNode) -> None:
            while node.op == "placed":
                node = node.inputs[0]
            if node.op not in FREE:
                stored.add(node)

        for node in self.order:
            source = node.inputs[0] if node.inputs else node
            if node.op in ARRAYS:
                stored.add(node)
            for side in node.inputs[1:] if node.op == "iterate" else ():
                demand(side)
            picked = node.op == "placed" and not _passes(node)
            sparse = node.op == "matmul" and _is_sparse(node.inputs[1].data)
            if node.op in ("contract", "pick") or picked or sparse:
                demand(source)
            if node.op not in FREE and node.size == 1:
                demand(node)
            for side in node.inputs:
                if 1 < side.size < node.size and node.op != "concat":
                    demand(side)
        roots: dict[TracedNode, set[TracedNode]] = {node: set() for node in self.order}
        for node in reversed(self.order):
            if node.op not in (*FREE, "placed") and len(roots[node]) > 1 and node.size <= MOST_HELD:
                stored.add(node)
            for side in node.inputs:
                roots[side] |= {node} if node in stored else roots[node]
        return stored

    def run(self) -> None:
        """Statements of all nodes that have one."""
        for node in self.order:
            if node in self.stored:
                self._store(node)

    # Writing ----------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """One statement, at the present depth."""
        self.lines.append("    " * len(self.scopes) + text)

    def fresh(self) -> str:
        """A name that is not used yet."""
        self.count += 1
        return f"v{self.count}"

    @contextmanager
    def loop(self, stop: int, start: str = "0") -> Iterator[str]:
        """A block that is repeated; nothing is written about where there is one turn."""
        if stop == 1 and start == "0":
            yield "0"
            return
        index = f"i{len(self.scopes)}"
        self.line(self.language.loop(index, start, stop))
        self.scopes.append({})
        yield index
        self.scopes.pop()
        self.line("}")

    def variable(self, kind: str, value: float) -> str:
        """A scalar that statements change."""
        name = self.fresh()
        self.line(self.language.variable(name, kind, self.language.literal(value, kind)))
        return name

    def _store(self, node: TracedNode) -> None:
        writer = dict(zip(ARRAYS, (self._matmul, self._contract, self._concat, self._iterate)))
        named = node in self.names
        if node.size == 1 and not named and node.op not in writer:
            index = ("0",) * node.ndim
            self.names[node] = self.element(node, index, whole=False)
            return
        if not named:
            self.names[node] = self.fresh()
            self.line(self.language.held(self.names[node], node.size, node.kind))
        if node.op in writer:
            writer[node.op](node)
        else:
            self._each(node.shape, lambda index: self._assign(node, index))

    def _assign(self, node: TracedNode, index: tuple[str, ...]) -> None:
        value = self.element(node, index, whole=False)
        self.line(f"{self.names[node]}[{_flat(node.shape, index)}] = {value};")

    def _each(self, shape: tuple[int, ...], write: Any, index: tuple[str, ...] = ()) -> None:
        if len(index) == len(shape):
            write(index)
            return
        with self.loop(shape[len(index)]) as i:
            self._each(shape, write, (*index, i))

    # Elements ---------------------------------------------------------------------------------

    def element(self, node: TracedNode, index: tuple[str, ...], *, whole: bool = True) -> str:
        """The text of one entry; `whole`: of an array that is held, if it is."""
        index = tuple("0" if size == 1 else i for i, size in zip(index, node.shape, strict=True))
        place = _flat(node.shape, index)
        if node.op == "constant":
            return self._constant(node, place)
        if node.op == "input":
            return f"{self._given(node)}[{place}]" if node.ndim > 1 else str(node.data)
        if whole and node in self.names:
            name = self.names[node]
            return name if node in self.stored and self._is_scalar(node) else f"{name}[{place}]"
        if node.op == "placed":
            return self._placed(node, index)
        key = (node, index)
        for scope in self.scopes:
            if key in scope:
                return scope[key]
        text = self._computed(node, index)
        if text.isidentifier():
            return text
        name = self.fresh()
        self.line(self.language.variable(name, node.kind, text, fixed=True))
        self.scopes[-1][key] = name
        return name

    def _is_scalar(self, node: TracedNode) -> bool:
        return node.size == 1 and node.op not in (*ARRAYS, "write")

    def _given(self, node: TracedNode) -> str:
        """The name of an input: the caller's, or inside a loop that of the array it stands for."""
        return str(self.names.get(node, node.data))

    def _constant(self, node: TracedNode, place: str) -> str:
        if node.size == 1 or (node.data == node.data.flat[0]).all():
            return self.language.literal(node.data.flat[0], node.kind)
        return f"{self.constants.name(node.data, node.kind)}[{place}]"

    def _placed(self, node: TracedNode, index: tuple[str, ...]) -> str:
        source = node.inputs[0]
        if _passes(node):
            left = iter(i for i, size in zip(index, node.shape) if size > 1)
            inner = tuple("0" if size == 1 else next(left) for size in source.shape)
            return self.element(source, inner)
        places = node.data
        first = int(places.flat[0])
        strides = [
            int(np.take(places, 1, axis=a).flat[0]) - first if size > 1 else 0
            for a, size in enumerate(places.shape)
        ]
        lattice = first + sum(
            (s * i for s, i in zip(strides, np.indices(places.shape))), np.zeros(places.shape, int)
        )
        if np.array_equal(lattice, places):
            terms = [str(first)] if first else []
            terms += [i if s == 1 else f"{s} * {i}" for s, i in zip(strides, index) if s]
            place = " + ".join(terms) or "0"
        else:
            place = f"{self.constants.name(places, 'i')}[{_flat(node.shape, index)}]"
        if source.op == "input":
            return f"{self._given(source)}[{place}]"
        name = self.names[source]
        return name if self._is_scalar(source) else f"{name}[{place}]"

    def _computed(self, node: TracedNode, index: tuple[str, ...]) -> str:
        if node.op in ("sum", "max", "min", "all", "any", "argmax"):
            return self._reduced(node, index)
        if node.op == "take":
            table, places = node.inputs
            place = self.element(places, index[: places.ndim])
            if table.ndim > 1:
                width = int(np.prod(table.shape[1:]))
                rest = _flat(table.shape[1:], index[places.ndim :])
                place = f"{place} * {width} + {rest}"
            return f"{self.constants.name(table.data, table.kind)}[{place}]"
        if node.op == "pick":
            values, places = node.inputs
            place = self.element(places, ("0", "0"))
            if values.op == "constant":
                return f"{self.constants.name(values.data, values.kind)}[{place}]"
            name = self._given(values) if values.op == "input" else self.names[values]
            return name if values in self.names and self._is_scalar(values) else f"{name}[{place}]"
        sides = [
            self.element(side, index[len(index) - side.ndim :] if side.ndim else ())
            for side in node.inputs
        ]
        return self.language.operate(node.op, sides)

    def _reduced(self, node: TracedNode, index: tuple[str, ...]) -> str:
        source, axis = node.inputs[0], node.data
        count, op = source.shape[axis], node.op
        if count == 1 and op != "argmax":
            return self.element(source, (*index[:axis], "0", *index[axis:]))
        start = {"max": -np.inf, "min": np.inf, "all": 1, "argmax": 0}.get(op, 0.0)
        found = self.variable("i" if op in ("all", "any", "argmax") else "f", start)
        top = self.variable("f", -np.inf) if op == "argmax" else ""
        with self.loop(count) as i:
            one = self.element(source, (*index[:axis], i, *index[axis:]))
            if op == "argmax":
                self.line(f"if ({one} > {top}) {{")
                self.line(f"    {top} = {one};")
                self.line(f"    {found} = {i};")
                self.line("}")
            elif op in ("max", "min"):
                sign = ">" if op == "max" else "<"
                self.line(f"if ({one} {sign} {found} || {one} != {one}) {{")
                self.line(f"    {found} = {one};")
                self.line("}")
            else:
                how = {
                    "sum": "{0} + {1}", "all": "{0} && {1}", "any": "{0} || {1}"
                }[op].format(found, one)  # fmt: skip
                self.line(f"{found} = {how};")
        return found

    # Products ---------------------------------------------------------------------------------

    def _matmul(self, node: TracedNode) -> None:
        source, name = node.inputs[0], self.names[node]
        matrix = node.inputs[1].data
        r, k = matrix.shape
        with self.loop(k) as j:
            self.line(f"{name}[{j}] = {self.language.literal(0.0, 'f')};")
        if _is_sparse(matrix):
            rows, columns = np.nonzero(matrix)
            values = matrix[rows, columns]
            with self.loop(max(len(rows), 1)) as p:
                at = f"{self.constants.name(columns, 'i')}[{p}]" if len(rows) else "0"
                one = f"{self.constants.name(rows, 'i')}[{p}]" if len(rows) else "0"
                value = f"{self.names.get(source) or source.data}[{one}]"
                factor = self._constant(node.trace.constant(values if len(rows) else 0.0), p)
                self.line(f"{name}[{at}] += {value} * {factor};")
            return
        with self.loop(r) as i:
            value = self.element(source, ("0", i))
            with self.loop(k) as j:
                factor = self._constant(node.inputs[1], _flat((r, k), (i, j)))
                self.line(f"{name}[{j}] += {value} * {factor};")

    def _contract(self, node: TracedNode) -> None:
        """x'Mx or T(x, x, x), of one triangle or corner: what is next stands in order."""
        source, r, name = node.inputs[0], node.inputs[0].shape[1], self.names[node]
        table = self.constants.name(node.inputs[1].data, "f")
        place = self.variable("i", 0)
        with self.loop(node.shape[1]) as k:
            total = self.variable("f", 0.0)
            self._corner(source, r, (table, place, total), node.data, "0")
            self.line(f"{name}[{k}] = {total};")

    def _corner(
        self, source: TracedNode, r: int, names: tuple[str, str, str], left: int, start: str
    ) -> None:
        table, place, total = names
        with self.loop(r, start) as i:
            value = self.element(source, ("0", i))
            if left == 1:
                self.line(f"{total} += {table}[{place}] * {value};")
                self.line(f"{place} += 1;")
            else:
                inner = self.variable("f", 0.0)
                self._corner(source, r, (table, place, inner), left - 1, i)
                self.line(f"{total} += {value} * {inner};")

    def _concat(self, node: TracedNode) -> None:
        offset, axis = 0, node.data
        for part in node.inputs:

            def write(
                index: tuple[str, ...], part: TracedNode = part, offset: int = offset
            ) -> None:
                value = self.element(part, index)
                moved = [i if a != axis or not offset else f"{offset} + {i}"
                         for a, i in enumerate(index)]  # fmt: skip
                place = _flat(node.shape, tuple(moved))
                self.line(f"{self.names[node]}[{place}] = {value};")

            self._each(part.shape, write)
            offset += part.shape[axis]

    def _iterate(self, node: TracedNode) -> None:
        """A loop that ends itself: what it computes goes to another array first."""
        (state, *others), new, running, most = node.data
        name, after = self.names[node], self.fresh()
        self.line(self.language.held(after, node.size, node.kind))
        first = node.inputs[0]
        self._each(node.shape, lambda index: self._put(name, first, index))
        written = node.trace.node("write", (new,), new.shape, node.kind, after)
        with self.loop(most):
            body = _Body(self.constants, [running, written])
            body.lines, body.scopes, body.count = self.lines, self.scopes, self.count
            body.names |= {state: name, written: after}
            for side, other in zip(node.inputs[1:], others):
                body.names[other] = self.names[side] if side.op != "input" else self._given(side)
            body.run()
            self.count = body.count
            self.line(f"if (!{body.element(running, ('0',))}) {{")
            self.line("    break;")
            self.line("}")
            self._each(node.shape, lambda index: self._put(name, written, index, after))

    def _put(self, name: str, node: TracedNode, index: tuple[str, ...], held: str = "") -> None:
        """One entry of an array, from a node or from the array that holds it."""
        place = _flat(node.shape, index)
        value = f"{held}[{place}]" if held else self.element(node, index)
        self.line(f"{name}[{place}] = {value};")


def _flat(shape: tuple[int, ...], index: tuple[str, ...]) -> str:
    """The place in a run: "i1 * 3 + i2".

    Examples
    --------
    >>> _flat((1, 4, 3), ("0", "i", "j"))
    'i * 3 + j'
    """
    text = ""
    for size, i in zip(shape, index):
        if size == 1:
            continue
        factor = f"({text})" if " + " in text else text
        text = f"{factor} * {size} + {i}" if text else i
    return text or "0"

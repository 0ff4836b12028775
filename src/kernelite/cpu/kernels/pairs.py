"""One-vs-one in single precision: the winner's pairs alone, from kernel values kept in cache.

A class that wins all of its K - 1 pairs is the winner, whatever the other pairs say. So of each row
one class's pairs are summed up, with their bounds; if it surely loses one, the class that beats it
by most comes next. Rows that no class wins so are left open.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.core import cgutils, types

from kernelite.cpu.kernels.compiling import array_type, helper, instruction, kernel
from kernelite.cpu.kernels.exp2 import SINGLE, Code
from kernelite.cpu.kernels.panel_errors import growth
from kernelite.cpu.kernels.panels import value_entries, value_rows

__all__ = ["TURN", "walk_entries", "walk_rows"]

TURN = 2  # vectors of coefficients per turn of the loop


def _dotting(*, sizes: bool) -> Any:
    """An instruction: out[0] = k.a, and out[1] = k.|a| if `sizes`, in doubles.

    It takes addresses, and turns of the loop.
    """

    @instruction
    def dots(_context: Any, _values: Any, _coefficients: Any, _turns: Any, _out: Any) -> Any:
        def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            values, coefficients, turns, out = arguments
            code, i64 = Code(builder, SINGLE), turns.type
            sums = [[code.variable() for _ in range(TURN)] for _ in range(2 if sizes else 1)]
            with cgutils.for_range(builder, turns) as loop:
                far = builder.mul(loop.index, i64(4 * TURN * SINGLE.lanes))
                k_at, a_at = builder.add(values, far), builder.add(coefficients, far)
                for v in range(TURN):
                    k, a = code.load(k_at, v), code.load(a_at, v)
                    for line, factor in zip(sums, (a, code.magnitude(a))):
                        added = code.multiply_add(k, factor, builder.load(line[v]))
                        builder.store(added, line[v])
            for number, line in enumerate(sums):
                whole = builder.load(line[0])
                for other in line[1:]:
                    whole = builder.fadd(whole, builder.load(other))
                code.store_total(whole, builder.add(out, i64(8 * number)))
            return context.get_dummy_value()

        address = types.uintp
        return types.void(address, address, types.intp, address), build

    return dots


_dots, _dot = _dotting(sizes=True), _dotting(sizes=False)


@helper
def _side(
    values: Any, starts: Any, offsets: Any, coefficients: Any, c: int, j: int, out: Any
) -> None:
    """Sums of class c's centers for its pair with class j; for j = c, of their weights."""
    turns = (offsets[c + 1] - offsets[c]) // ((len(starts) - 1) * TURN * _LANES)
    _dots(
        np.uintp(values.ctypes.data) + np.uintp(4 * starts[c]),
        np.uintp(coefficients.ctypes.data) + np.uintp(4 * (offsets[c] + j * turns * TURN * _LANES)),
        turns,
        np.uintp(out.ctypes.data),
    )


_LANES = SINGLE.lanes


@helper
def _pair(K: int, i: int, j: int) -> int:
    """The column of the pair of classes i < j."""
    return i * (2 * K - i - 1) // 2 + j - i - 1


@helper
def _heaviest(values: Any, starts: Any, offsets: Any, coefficients: Any, found: Any) -> int:
    """The class whose centers weigh most at this row: a good guess at the winner."""
    best, most = 0, -1.0
    for c in range(len(starts) - 1):
        _side(values, starts, offsets, coefficients, c, c, found)
        if found[0] > most:
            best, most = c, found[0]
    return best


@helper
def _walk(
    values: Any,
    starts: Any,
    offsets: Any,
    coefficients: Any,
    intercept: Any,
    fixed: Any,
    errors: Any,
    seen: Any,
    found: Any,
) -> tuple[int, float]:
    """The class that surely wins all of its pairs, and by how much at least; else -1."""
    K = len(starts) - 1
    seen[:] = 0
    c = _heaviest(values, starts, offsets, coefficients, found)
    while seen[c] == 0:
        seen[c] = 1
        rival, worst, sure = -1, 0.0, math.inf
        for j in range(K):
            if j == c:
                continue
            column = _pair(K, min(c, j), max(c, j))
            _side(values, starts, offsets, coefficients, c, j, found)
            score, bound = found[0], errors[c] * (found[1] + _CUT)
            _side(values, starts, offsets, coefficients, j, c, found)
            score += found[0] + intercept[column]
            bound += errors[j] * (found[1] + _CUT) + fixed[column]
            lead = score if c < j else -score  # of c over j
            sure = min(sure, lead - bound)
            if lead < -bound and lead < worst:
                rival, worst = j, lead
        if sure > 0.0:
            return c, sure
        if rival < 0:
            break
        c = rival
    return -1, 0.0


_CUT = 1e-30  # infinite errors of a class without centers must not become NaN


@helper
def _class_errors(terms: Any, relative: Any, norms: Any, i: int, most: float, errors: Any) -> None:
    """What each class's sums err by relatively at row i."""
    square, chain = norms[i, 0], norms[i, 1]
    norm = math.sqrt(square)
    for c in range(len(terms)):
        e = terms[c, 0] * chain + terms[c, 1] + terms[c, 2] * norm + terms[c, 3] * square
        errors[c] = 1.05 * (growth(e) + relative[c]) if square <= most else math.inf


@helper
def _walk_tile(
    values: Any,
    count: int,
    first: int,
    norms: Any,
    starts: Any,
    offsets: Any,
    coefficients: Any,
    intercept: Any,
    fixed: Any,
    terms: Any,
    relative: Any,
    most: float,
    winners: Any,
    leads: Any,
) -> None:
    K = len(starts) - 1
    errors, seen, found = np.empty(K), np.empty(K, np.int8), np.empty(2)
    for i in range(count):
        _class_errors(terms, relative, norms, first + i, most, errors)
        winners[first + i], leads[first + i] = _walk(
            values[i],
            starts,
            offsets,
            coefficients,
            intercept,
            fixed,
            errors,
            seen,
            found,
        )


_FLAT, _LONG = array_type(1, "float32"), array_type(1, "int64")
_PANELS = _FLAT, _FLAT, _LONG
_MODEL = (
    *(_LONG, _LONG, _FLAT),
    *(array_type(1), array_type(1), array_type(2), array_type(1), "float64"),
)
_OUT = (
    array_type(2, "float32", writable=True),
    array_type(1, "int64", writable=True),
    array_type(1, writable=True),
)


@kernel(array_type(2, "float32"), _FLAT, array_type(2), "int64", *_PANELS, *_MODEL, *_OUT)
def walk_rows(
    rows: Any,
    shifts: Any,
    norms: Any,
    many: int,
    panels: Any,
    exponents: Any,
    blocks: Any,
    starts: Any,
    offsets: Any,
    coefficients: Any,
    intercept: Any,
    fixed: Any,
    terms: Any,
    relative: Any,
    most: float,
    values: Any,
    winners: Any,
    leads: Any,
) -> None:
    """Winners (m,) of rows, -1 where none is proven, and by how much they lead at least.

    `values` is room for the kernel values of a tile of rows.
    """
    for first in range(0, len(rows), len(values)):
        count = min(len(values), len(rows) - first)
        value_rows(
            rows[first : first + count],
            shifts[first : first + count],
            panels,
            exponents,
            blocks,
            many,
            values,
        )
        _walk_tile(
            values,
            count,
            first,
            norms,
            starts,
            offsets,
            coefficients,
            intercept,
            fixed,
            terms,
            relative,
            most,
            winners,
            leads,
        )


@kernel(_LONG, array_type(1, "int32"), _FLAT, _FLAT, array_type(2), *_PANELS, *_MODEL, *_OUT)
def walk_entries(
    indptr: Any,
    indices: Any,
    data: Any,
    shifts: Any,
    norms: Any,
    panels: Any,
    exponents: Any,
    blocks: Any,
    starts: Any,
    offsets: Any,
    coefficients: Any,
    intercept: Any,
    fixed: Any,
    terms: Any,
    relative: Any,
    most: float,
    values: Any,
    winners: Any,
    leads: Any,
) -> None:
    """As `walk_rows` for rows given by their entries."""
    for first in range(0, len(shifts), len(values)):
        count = min(len(values), len(shifts) - first)
        value_entries(
            indptr[first : first + count + 1],
            indices,
            data,
            shifts[first : first + count],
            panels,
            exponents,
            blocks,
            values,
        )
        _walk_tile(
            values,
            count,
            first,
            norms,
            starts,
            offsets,
            coefficients,
            intercept,
            fixed,
            terms,
            relative,
            most,
            winners,
            leads,
        )

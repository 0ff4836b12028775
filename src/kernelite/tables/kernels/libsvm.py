"""The compiled reader of LIBSVM text: whole lines of bytes in, labels and CSR arrays out.

Accepts what `libsvm_data` accepts and stops at anything else, so that the careful reader can say
what is wrong with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.kernels.compiling import array_type, helper, kernel
from kernelite.rows.inputs import FloatArray
from kernelite.tables.kernels.decimal import BAD, HARD, byte_at, read_decimal

__all__ = ["read_lines"]

_TAB, _LINE_FEED, _RETURN, _BLANK, _HASH, _COLON, _ZERO, _END = (
    np.uint64(ord(c)) for c in "\t\n\r #:0\x7f"
)
_TEN = np.uint64(10)


@helper
def _line_end(text: int, p: int) -> int:
    """Where the next line starts if this one ends at p, comment and CR included; else -1."""
    if byte_at(text, p) == _HASH:
        while byte_at(text, p) == _TAB or (byte_at(text, p) >= _BLANK and byte_at(text, p) < _END):
            p += 1
    if byte_at(text, p) == _RETURN:
        p += 1
    return p + 1 if byte_at(text, p) == _LINE_FEED else -1


@helper
def _skip_blanks(text: int, p: int) -> int:
    while byte_at(text, p) == _BLANK or byte_at(text, p) == _TAB:
        p += 1
    return p


@helper
def _read_index(text: int, p: int, largest: int) -> tuple[int, int]:
    """Read digits and a colon: the place behind them, and the index or -1."""
    index, start = np.int64(0), p
    digit = byte_at(text, p) - _ZERO
    while digit < _TEN:
        index = min(10 * index + np.int64(digit), np.int64(largest + 1))
        p += 1
        digit = byte_at(text, p) - _ZERO
    if p == start or byte_at(text, p) != _COLON or index < 1 or index > largest:
        return p, -1
    return p + 1, int(index)


@kernel(
    array_type(1, "uint8"),
    "boolean",
    "int64",
    array_type(1, writable=True),
    array_type(1, "int64", writable=True),
    array_type(1, "int32", writable=True),
    array_type(1, writable=True),
    array_type(2, "int64", writable=True),
    array_type(1, "int64", writable=True),
)
def read_lines(
    lines: NDArray[np.uint8],
    labelled: bool,
    largest: int,
    labels: FloatArray,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: FloatArray,
    hard: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> bool:
    """Read all lines; whether all are right.

    `lines` end with a line feed. `counts` become rows, entries, hard numbers and lines. `hard`
    holds where numbers that need `float` start and end, and the entry they belong to, or
    -1 - row for a label. The arrays must have room for len(lines) / 2 rows and / 4 entries.
    """
    p, n_rows, n_entries, n_hard, n_lines = 0, 0, 0, 0, 0
    indptr[0] = 0
    text = lines.ctypes.data
    while p < len(lines):
        n_lines += 1
        p = _skip_blanks(text, p)
        following = _line_end(text, p)
        if following >= 0:
            p = following
            continue
        fresh = not labelled  # whether a pair may come without a blank before it
        if labelled:
            start = p
            p, labels[n_rows], state = read_decimal(text, p)
            if state == BAD:
                return False
            if state == HARD:
                if n_hard == len(hard):
                    return False
                hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = start, p, -1 - n_rows
                n_hard += 1
        previous = 0
        while True:
            start = p
            p = _skip_blanks(text, p)
            following = _line_end(text, p)
            if following >= 0:
                p = following
                break
            if p == start and not fresh:
                return False
            fresh = False
            p, index = _read_index(text, p, largest)
            if index <= previous:
                return False
            previous = index
            start = p
            p, values[n_entries], state = read_decimal(text, p)
            if state == BAD:
                return False
            if state == HARD:
                if n_hard == len(hard):
                    return False
                hard[n_hard, 0], hard[n_hard, 1], hard[n_hard, 2] = start, p, n_entries
                n_hard += 1
            indices[n_entries] = index - 1
            n_entries += 1
        n_rows += 1
        indptr[n_rows] = n_entries
    counts[0], counts[1], counts[2], counts[3] = n_rows, n_entries, n_hard, n_lines
    return True

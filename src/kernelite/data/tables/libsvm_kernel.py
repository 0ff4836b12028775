"""The compiled reader of LIBSVM text: decimal numbers, then whole lines.

Decimal numbers in bytes to doubles, correctly rounded, or an honest "cannot tell".

A number is w 10^q with w of at most 19 digits. If w < 2^53 and |q| <= 22, then w and 10^|q| are
doubles and one product or quotient rounds once. Otherwise, with T = floor(10^q 2^k) of 128 bits,

    Z = floor(w 2^l T / 2^64)   has   w 10^q 2^(k + l - 64)  in  [Z, Z + 2)

so the nearest double is known unless Z is within 2 of the middle between two doubles; then, and
outside the range of normal doubles, the number is called hard and the caller uses `float`.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels.compiling import (
    OutInts,
    OutLongs,
    OutVector,
    helper,
    instruction,
    ir,
    kernel,
    types,
)

__all__ = ["read_lines"]

GOOD, HARD, BAD = 0, 1, 2
_LEAST, _MOST = -342, 308  # of q: beyond them a nonzero w is zero or infinite

_U = np.uint64
_ZERO, _TEN, _ONE = _U(ord("0")), _U(10), _U(1)
_POINT, _PLUS, _MINUS, _E, _CASE = (_U(ord(c)) for c in ".+-e ")
_EXACT, _FRACTION = _U(2**53), _U(2**52 - 1)
_ALMOST = _U(2**64 - 2)


def _powers() -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """T of every q, upper and lower half, and its k."""
    halves, shifts = [], []
    for q in range(_LEAST, _MOST + 1):
        over, under = (10**q, 1) if q >= 0 else (1, 10**-q)
        k = 128 - (over.bit_length() - under.bit_length())
        scaled = (over << k) // under if k >= 0 else over // (under << -k)
        while scaled.bit_length() > 128:
            k -= 1
            scaled = (over << k) // under if k >= 0 else over // (under << -k)
        halves.append((scaled >> 64, scaled & (2**64 - 1)))
        shifts.append(k)
    return np.array(halves, dtype=np.uint64), np.array(shifts, dtype=np.int64)


_T, _K = _powers()
_TENS = 10.0 ** np.arange(23)


@instruction(types.uint64(types.uintp, types.intp))
def byte_at(builder: Any, address: Any, offset: Any) -> Any:
    """The byte at an address: an array would look whether each index counts from its end."""
    byte, word = ir.IntType(8), ir.IntType(64)
    place = builder.inttoptr(builder.add(address, offset), byte.as_pointer())
    return builder.zext(builder.load(place), word)


@instruction(types.uint64(types.uint64, types.uint64))
def _upper_half(builder: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of a product of 128."""
    wide, narrow = ir.IntType(128), ir.IntType(64)
    product = builder.mul(builder.zext(a, wide), builder.zext(b, wide))
    return builder.trunc(builder.lshr(product, wide(64)), narrow)


@instruction(types.uint64(types.uint64))
def _leading_zeros(builder: Any, a: Any) -> Any:
    return builder.ctlz(a, ir.IntType(1)(0))


@instruction(types.float64(types.uint64))
def _as_double(builder: Any, bits: Any) -> Any:
    return builder.bitcast(bits, ir.DoubleType())


@helper
def _nearest(w: np.uint64, q: int) -> tuple[np.uint64, bool]:
    """The bits of the double nearest to w 10^q, w > 0, and whether that is certain."""
    if q < _LEAST or q > _MOST:
        return _U(0), False
    zeros = _leading_zeros(w)
    w <<= zeros
    upper, lower = _upper_half(w, _T[q - _LEAST, 0]), w * _T[q - _LEAST, 0]
    total = lower + _upper_half(w, _T[q - _LEAST, 1])
    if total < lower:
        upper += _ONE
    spare = _U(10) + (upper >> _U(63))  # bits below the 53 of a double
    mantissa = upper >> spare
    rest, half = upper & ((_ONE << spare) - _ONE), _ONE << (spare - _ONE)
    certain = not ((rest == half and total == _U(0)) or (rest == half - _ONE and total >= _ALMOST))
    if rest >= half:
        mantissa += _ONE
    exponent = 128 - np.int64(zeros) - _K[q - _LEAST] + np.int64(spare)
    if mantissa == _EXACT:
        mantissa >>= _ONE
        exponent += 1
    biased = exponent + 52 + 1023
    normal = biased >= 1 and biased <= 2046
    return (_U(biased) << _U(52)) | (mantissa & _FRACTION), bool(certain and normal)


@helper
def _read_long(text: int, p: int) -> tuple[np.uint64, int, bool]:
    """Digits and a point from p on: the first 19 digits that count, their power of ten, and
    whether others than zeros were left out."""
    w, q, count, left_out, after = _U(0), 0, 0, False, 0
    while True:
        c = byte_at(text, p)
        digit = c - _ZERO
        if digit < _TEN:
            q -= after
            if count < 19:
                w = w * _TEN + digit
                if w > _U(0):
                    count += 1
            else:
                q += 1
                left_out = left_out or digit > _U(0)
        elif c == _POINT and after == 0:
            after = 1
        else:
            return w, q, left_out
        p += 1


@helper
def read_decimal(text: int, p: int) -> tuple[int, float, int]:
    """Read [sign] digits [. digits] [e [sign] digits] at p: where it ends, the double, and
    GOOD, HARD (the caller must convert it) or BAD (this is no number).

    `text` is an address; behind the number must stand what belongs to no number, such as the end
    of a line.
    """
    c = byte_at(text, p)
    negative = c == _MINUS
    if negative or c == _PLUS:
        p += 1
    start = p
    w = _U(0)
    digit = byte_at(text, p) - _ZERO
    while digit < _TEN:
        w = w * _TEN + digit
        p += 1
        digit = byte_at(text, p) - _ZERO
    count, q = p - start, 0
    if byte_at(text, p) == _POINT:
        p += 1
        point = p
        digit = byte_at(text, p) - _ZERO
        while digit < _TEN:
            w = w * _TEN + digit
            p += 1
            digit = byte_at(text, p) - _ZERO
        q = point - p
        count += p - point
    if count == 0:
        return p, 0.0, BAD
    left_out = False
    if count > 19:
        w, q, left_out = _read_long(text, start)
    if (byte_at(text, p) | _CASE) == _E:
        p, power = _read_power(text, p + 1)
        if p < 0:
            return p, 0.0, BAD
        q += power
    value, state = 0.0, GOOD
    if w < _EXACT and q >= -22 and q <= 22 and not left_out:
        value = float(w) / _TENS[-q] if q < 0 else float(w) * _TENS[q]
    elif w > _U(0):
        bits, certain = _nearest(w, q)
        if left_out:
            # Between w and w + 1: both must round to the same double.
            more, sure = _nearest(w + _ONE, q)
            certain = certain and sure and more == bits
        value, state = _as_double(bits), GOOD if certain else HARD
    return p, -value if negative else value, state


@helper
def _read_power(text: int, p: int) -> tuple[int, int]:
    """Read [sign] digits, at most a million; -1 for the place if there are none."""
    c = byte_at(text, p)
    negative = c == _MINUS
    if negative or c == _PLUS:
        p += 1
    start, power = p, np.int64(0)
    digit = byte_at(text, p) - _ZERO
    while digit < _TEN:
        # int() keeps unsigned numbers unsigned, and their sums with signed ones are floats.
        power = min(10 * power + np.int64(digit), np.int64(1_000_000))
        p += 1
        digit = byte_at(text, p) - _ZERO
    if p == start:
        return -1, 0
    return p, int(-power if negative else power)


# The compiled reader of LIBSVM text: whole lines of bytes in, labels and CSR arrays out.
#
# Accepts what `libsvm_data` accepts and stops at anything else, so that the careful reader can say
# what is wrong with it.


_TAB, _LINE_FEED, _RETURN, _BLANK, _HASH, _COLON, _END = (_U(ord(c)) for c in "\t\n\r #:\x7f")


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


_Bytes: TypeAlias = Annotated[NDArray[np.uint8], 1, "uint8", False]
_Hard: TypeAlias = Annotated[NDArray[np.int64], 2, "int64", True]


@kernel()
def read_lines(
    lines: _Bytes,
    labelled: bool,
    largest: int,
    labels: OutVector,
    indptr: OutLongs,
    indices: OutInts,
    values: OutVector,
    hard: _Hard,
    counts: OutLongs,
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

"""Rows that a form leaves open, summed, judged and labelled by the thread that found them open.

A kernel of a form has labels, and which rows stay open, of the rows that it was given. Here these
are put together, mapped if rows are, and given to a kernel of sums over all centers; what that one
settles gets its label. So nobody is woken twice for a batch, and no row goes through Python.

An `InsideCall` has what the kernel of a form is told of the other one: the address of its code
(`compiling.kernel`, `inside`), then its arguments as objects of Python's, which must be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels import providers
from kernelite.backends.cpu.kernels.compiling import helper, instruction, ir, types
from kernelite.backends.cpu.kernels.judging import add_count, judge_tile

__all__ = ["InsideCall", "sum_open"]

OPEN_ROWS = 240  # that are put together at once: a whole number of what kernels of sums take
MAP_LINES = 3  # from which the lines of a form's way are a map: shift, scale, point[, low]
SUMMED = 3  # the place of the rows that are settled here among the counts


class InsideCall:
    """A kernel and its arguments, as another kernel calls it; those of its own rows are any
    others.
    """

    def __init__(self, kernel: Any, arguments: Sequence[Any]) -> None:
        own = kernel.kernel
        self.kernel, self.arguments = kernel, own.ordinary(arguments)
        code = providers.address(own, own.symbols[2])
        self._addresses = np.array([code, *map(id, self.arguments)], np.int64)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """That of the addresses; what NumPy makes of it keeps this object, and so the arguments."""
        return self._addresses.__array_interface__

    @property
    def told(self) -> NDArray[np.int64]:
        """Addresses: of the code, then of arguments, which live as long as this array does."""
        return np.asarray(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has addresses of its own."""
        return InsideCall, (self.kernel, tuple(self.arguments))


@instruction(types.int64(types.int64, types.uintp, types.uintp, types.int64))
def _sums(builder: Any, code: Any, given: Any, places: Any, count: Any) -> Any:
    """Call an entry that is meant for other kernels; whether it failed."""
    i64 = ir.IntType(64)
    addresses = ir.IntType(8).as_pointer().as_pointer()
    kind = ir.FunctionType(i64, [addresses, addresses, i64]).as_pointer()
    objects, rows = (builder.inttoptr(one, addresses) for one in (given, places))
    return builder.call(builder.inttoptr(code, kind), [objects, rows, count])


@helper
def sum_open(
    rows: Any,
    way: Any,
    behind: Any,
    rule: Any,
    words: Any,
    counts: Any,
    answers: Any,
    is_open: Any,
    n_open: int,
) -> None:
    """Settle open rows by sums, as many as these can; a row whose bound is infinite stays open.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
    way : ndarray of shape (w, d)
        How rows are mapped, from `MAP_LINES` lines on: shift, scale, point[, low].
    behind : ndarray of int64
        What an `InsideCall` tells.
    rule, words, counts, answers, is_open
        As `judging.judge_tile` has them, the rule that of sums.
    n_open : int
    """
    d, tall = rows.shape[1], min(n_open, OPEN_ROWS)
    index, some = np.empty(tall, np.int64), np.empty((tall, d))
    scores, bounds = np.empty((tall, 1)), np.empty((tall, 1))
    labels, still, places = (
        np.empty(tall, np.int64),
        np.empty(tall, np.bool_),
        np.empty(3, np.int64),
    )
    places[0], places[1], places[2] = some.ctypes.data, scores.ctypes.data, bounds.ctypes.data
    given, count, summed = np.uintp(behind.ctypes.data) + np.uintp(8), 0, 0
    for i in range(len(is_open)):
        if is_open[i]:
            index[count] = i
            for j in range(d):
                number = rows[i, j]
                if len(way) >= MAP_LINES:
                    number -= way[0, j]
                    if len(way) > MAP_LINES:
                        number -= way[MAP_LINES, j]
                    number *= way[1, j]
                some[count, j] = number
            count += 1
        if count == tall or (count and i == len(is_open) - 1):
            if not _sums(behind[0], given, np.uintp(places.ctypes.data), count):
                tile = scores.reshape(tall), bounds.reshape(tall), bounds.reshape(tall)
                judge_tile(tile, 0, count, rule, words, labels, still)
                for r in range(count):
                    if not still[r] and bounds[r, 0] < np.inf:
                        answers[index[r]], is_open[index[r]] = labels[r], False
                        summed += 1
            count = 0
    add_count(counts, SUMMED, summed)

"""Rows that a form leaves open, settled by the thread that found them open.

A kernel of a form has labels, and which rows stay open, of the rows that it was given. Here these
are put together, mapped if rows are, and given to other kernels, one after the other: to that of a
second form, if there is one, then to one of sums over all centers. What a kernel settles gets its
label. So nobody is woken twice for a batch, and no row goes through Python.

`InsideCalls` has what the kernel of a form is told of the others: for each how long that is, from
how many rows on it is worth its time, the address of its code (`compiling.kernel`, `inside`), then
its arguments as objects of Python's, which must be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels import providers
from kernelite.backends.cpu.kernels.compiling import helper, instruction, ir, types
from kernelite.backends.cpu.kernels.judging import add_count, judge_tile

__all__ = ["InsideCalls", "Link", "settle_open"]

OPEN_ROWS = 240  # that are put together at once: a whole number of what kernels of sums take
MAP_LINES = 3  # from which the lines of a form's way are a map: shift, scale, point[, low]
SUMMED = 3  # among the counts, the rows that the last kernel settles; those of others stand behind
HEAD = 3  # numbers of a kernel that come before its arguments


class Link(NamedTuple):
    """A kernel and its arguments as another kernel calls it; those of its own rows are any others.

    Parameters
    ----------
    kernel : callable
    arguments : sequence
    fewest : int
        Rows from which it is worth its time; the last kernel gets whatever is left.
    """

    kernel: Any
    arguments: Sequence[Any]
    fewest: int = 1


class InsideCalls:
    """Kernels in the order in which another kernel calls them."""

    def __init__(self, *links: Link) -> None:
        self.links = tuple(
            link._replace(arguments=link.kernel.kernel.ordinary(link.arguments)) for link in links
        )
        told: list[int] = []
        for kernel, arguments, fewest in self.links:
            code = providers.address(kernel.kernel, kernel.kernel.symbols[2])
            told += [HEAD + len(arguments), fewest, code, *map(id, arguments)]
        self._addresses = np.array(told, np.int64)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """That of the addresses; what NumPy makes of it keeps this object, and so the arguments."""
        return self._addresses.__array_interface__

    @property
    def told(self) -> NDArray[np.int64]:
        """What a kernel is told; the arguments live as long as this array does."""
        return np.asarray(self)

    def after(self, link: Link) -> InsideCalls:
        """The same, after another kernel."""
        return InsideCalls(link, *self.links)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy has addresses of its own."""
        return InsideCalls, self.links


@instruction(types.int64(types.int64, types.uintp, types.uintp, types.int64))
def _called(builder: Any, code: Any, given: Any, places: Any, count: Any) -> Any:
    """Call an entry that is meant for other kernels; whether it failed."""
    i64 = ir.IntType(64)
    addresses = ir.IntType(8).as_pointer().as_pointer()
    kind = ir.FunctionType(i64, [addresses, addresses, i64]).as_pointer()
    objects, rows = (builder.inttoptr(one, addresses) for one in (given, places))
    return builder.call(builder.inttoptr(code, kind), [objects, rows, count])


@helper
def settle_open(
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
    """Settle open rows, as many as can be; a row whose bound is infinite stays open.

    Parameters
    ----------
    rows : ndarray of shape (m, d)
    way : ndarray of shape (w, d)
        How rows are mapped, from `MAP_LINES` lines on: shift, scale, point[, low].
    behind : ndarray of int64
        What `InsideCalls` tells.
    rule, words, counts, answers, is_open
        As `judging.judge_tile` has them, the rule that of what is called.
    n_open : int
    """
    d, tall = rows.shape[1], min(n_open, OPEN_ROWS)
    some, index = np.empty((tall, d)), np.empty((2, tall), np.int64)
    found, flags = np.empty((3, tall)), np.empty((2, tall), np.bool_)
    places = np.empty(6, np.int64)
    # Rows, scores, bounds; of a second form also its rows once more, |u|^2, and stages.
    places[0], places[1], places[2] = some.ctypes.data, found[0].ctypes.data, found[1].ctypes.data
    places[3], places[4], places[5] = places[0], found[2].ctypes.data, flags[1].ctypes.data
    lines, count = (found[0], found[1], found[1]), 0
    for i in range(len(is_open)):
        if is_open[i]:
            index[0, count] = i
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
            at = 0
            while at < len(behind) and count:
                following, at = at + behind[at], at
                last = following >= len(behind)
                given = np.uintp(behind.ctypes.data) + np.uintp(8 * (at + HEAD))
                code, to = behind[at + 2], np.uintp(places.ctypes.data)
                if (last or count >= behind[at + 1]) and not _called(code, given, to, count):
                    judge_tile(lines, 0, count, rule, words, index[1], flags[0])
                    left = 0
                    for r in range(count):
                        if not flags[0, r] and found[1, r] < np.inf:
                            answers[index[0, r]], is_open[index[0, r]] = index[1, r], False
                            continue
                        index[0, left] = index[0, r]
                        if left < r:
                            some[left] = some[r]
                        left += 1
                    add_count(counts, SUMMED if last else SUMMED + 1, count - left)
                    count = left
                at = following
            count = 0

"""What follows an engine's pass over the rows: bounds, which rows are settled, the open ones' sums.

Twins: `exact_rounding.ExactRounding.bounds`, `rows.Damped.defined`, `program.criteria`, and
`predict` of the heads, which take several passes of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels import providers
from kernelite.backends.cpu.kernels.compiling import (
    Bools,
    Longs,
    Matrix,
    OutBools,
    OutLongs,
    OutMatrix,
    Vector,
    helper,
    instruction,
    ir,
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.exp import exp_nonpositive
from kernelite.series.rounding import LOST_TERMS, SAFETY, UNIT

__all__ = [
    "ROWS_PER_THREAD",
    "UNJUDGED",
    "InsideCalls",
    "Link",
    "add_count",
    "add_counts",
    "bound_rows",
    "damp_rows",
    "judge_rows",
    "judge_tile",
    "label_rows",
    "rows_per_thread",
    "settle_open",
    "settle_rows",
    "spell_rows",
    "take_open",
    "vote_rows",
]

ROWS_PER_THREAD = 1 << 16  # some twenty microseconds, of one output
FEWEST_ROWS_PER_THREAD = 64
_NONE = np.empty(0, np.int64)
UNJUDGED = np.empty(0), _NONE, _NONE, np.empty(0), _NONE, _NONE, np.empty(0, np.bool_)
"""Rule, words, sums behind and their rule, counts, answers and open rows where none is judged."""


def rows_per_thread(numbers: int) -> int:
    """Rows of so many numbers that are worth a thread; fewer keep the interpreter's lock."""
    return max(FEWEST_ROWS_PER_THREAD, ROWS_PER_THREAD // max(numbers, 1))


@instruction(types.void(types.uintp, types.int64))
def _add(builder: Any, address: Any, number: Any) -> None:
    """Add to a number that other threads add to as well."""
    place = builder.inttoptr(address, ir.IntType(64).as_pointer())
    builder.atomic_rmw("add", place, number, "monotonic")


@helper
def add_count(counts: Any, place: int, number: int) -> None:
    """Add to one of them; nothing is not worth the wait for the others."""
    if number != 0:
        _add(np.uintp(counts.ctypes.data) + np.uintp(8 * place), number)


@helper
def add_counts(counts: Any, n_open: int, outside: int, unknown: int) -> None:
    """Add to the three counts, which all threads share."""
    add_count(counts, 0, n_open)
    add_count(counts, 1, outside)
    add_count(counts, 2, unknown)


@helper
def judge_tile(
    tile: Any, start: int, count: int, rule: Any, words: Any, answers: Any, is_open: Any
) -> tuple[int, int, int]:
    """What is made of one output's tile while it is in cache: open rows, and labels if asked for.

    Parameters
    ----------
    tile : scores, bounds and |u|^2 of its rows
    start, count : int
        Its first row, and how many rows it has.
    rule : ndarray of shape (10,)
        Whether |score - threshold| should exceed the bound, whether it should exceed a margin,
        whether the bound should be within a tolerance; threshold, margin, tolerance; the |u|^2
        from which rows are outside. For labels: whether scores above the threshold get the first
        word, whether one at the threshold does, and that threshold.
    words : ndarray of shape (2,)
    answers : ndarray of shape (m,), or empty where no labels are asked for
    is_open : ndarray of shape (m,)

    Returns
    -------
    How many rows are open, outside the validity bound, and not surely finite.
    """
    scores, bounds, squares = tile
    by_bound, by_margin, by_tolerance = rule[0] > 0.0, rule[1] > 0.0, rule[2] > 0.0
    threshold, margin, tolerance, farthest = rule[3], rule[4], rule[5], rule[6]
    n_open, outside, unknown = 0, 0, 0
    for r in range(count):
        away = abs(scores[r] - threshold)
        bad = by_bound & (not away > bounds[r])
        bad = bad | (by_margin & (not away > margin))
        bad = bad | (by_tolerance & (not bounds[r] <= tolerance))
        is_open[start + r] = bad
        n_open += bad
        outside += not squares[r] < farthest
        unknown += not squares[r] < np.inf
    if len(answers) > 0:
        first, second = words[0], words[1]
        above, closed, threshold = rule[7] > 0.0, rule[8] > 0.0, rule[9]
        for r in range(count):
            score = scores[r]
            beyond = score > threshold if above else score < threshold
            beyond = beyond | (closed & (score == threshold))
            answers[start + r] = first if beyond else second
    return n_open, outside, unknown


@kernel(by_row=("is_open",))
def take_open(is_open: Bools, rows: Matrix, index: OutLongs, out: OutMatrix) -> None:
    """The numbers of open rows, and these rows, as many as there is room for.

    It is called for all rows at once; NumPy's own way gives the interpreter's lock up twice.
    """
    count = 0
    for i in range(len(is_open)):
        if is_open[i] and count < len(index):
            index[count] = i
            for j in range(rows.shape[1]):
                out[count, j] = rows[i, j]
            count += 1


@kernel(by_row=("scores", "bounds", "answers", "is_open"))
def judge_rows(
    scores: Matrix,
    bounds: Matrix,
    rule: Vector,
    words: Longs,
    counts: OutLongs,
    answers: OutLongs,
    is_open: OutBools,
) -> None:
    """As `judge_tile`, of one output's rows; those with a bound that is infinite are not known."""
    m = len(is_open)
    bound = bounds.reshape(m)
    tile = scores.reshape(m), bound, bound
    found = judge_tile(tile, 0, m, rule, words, answers, is_open)
    add_counts(counts, found[0], 0, found[2])


@kernel(by_row=("scores", "bounds", "squares", "settled"))
def settle_rows(
    scores: Matrix,
    bounds: Matrix,
    squares: Vector,
    tolerance: Vector,
    by_bound: bool,
    threshold: float,
    margin: float,
    farthest: float,
    settled: OutBools,
    counts: OutLongs,
) -> None:
    """Whether |score - threshold| is above bound or margin, and all bounds within the tolerance.

    Without a tolerance, or with a margin below 0, nothing is asked of these; one tolerance may do
    for all outputs. `counts` gets the rows that stay open, those with |u|^2 of `farthest` or more,
    and those with an |u|^2, or else a bound, that is not finite.
    """
    m, k, asked = settled.shape[0], scores.shape[1], len(tolerance) > 0
    last = len(tolerance) - 1
    by_margin = margin >= 0.0
    n_open, outside, unknown = 0, 0, 0
    for i in range(m):
        good = True
        if by_bound:
            for j in range(k):
                good = good & (abs(scores[i, j] - threshold) > bounds[i, j])
        if by_margin:
            good = abs(scores[i, 0] - threshold) > margin
        if asked:
            for j in range(k):
                good = good & (bounds[i, j] <= tolerance[min(j, last)])
        settled[i] = good
        n_open += not good
    if len(squares) > 0:
        for i in range(m):
            outside += not squares[i] < farthest
            unknown += not squares[i] < np.inf
    elif len(bounds) > 0:
        for i in range(m):
            for j in range(k):
                unknown += not bounds[i, j] < np.inf
    add_counts(counts, n_open, outside, unknown)


@kernel(by_row=("squares", "scores", "bounds"))
def bound_rows(
    squares: Vector,
    numbers: Vector,
    weight: Vector,
    constant: Vector,
    intercept: Vector,
    scores: OutMatrix,
    bounds: OutMatrix,
) -> None:
    """Rounding bounds of exact sums; rows far from all centers get the intercepts.

    Bounds are as many as there are weights: one for each output, or the factor of all.
    """
    shrunk, radius, root, underflows = numbers[0], numbers[1], numbers[2], numbers[3]
    lengths, spread, largest, gamma = numbers[4], numbers[5], numbers[6], numbers[7]
    for i in range(len(squares)):
        gap = max(np.sqrt(squares[i]) * shrunk - radius, 0.0) * root
        nearest = gap * gap * shrunk
        near = nearest < underflows and squares[i] < np.inf
        relative = exp_nonpositive(-nearest) * (lengths + spread * (largest + gamma * squares[i]))
        relative = relative if near else 0.0
        for j in range(len(weight)):
            bound = relative * weight[j] + constant[j]
            bounds[i, j] = bound if bound < np.inf else np.inf
        if not near:
            for j in range(len(intercept)):
                scores[i, j] = intercept[j]


@kernel(by_row=("beyond", "scores", "bounds"))
def damp_rows(
    beyond: Vector,
    intercept: Vector,
    gamma: float,
    error: float,
    scores: OutMatrix,
    bounds: OutMatrix,
) -> None:
    """E (f - b) + b in place of f, E = exp(-gamma beyond), and its bound in place of f's.

    `beyond` errs by `error`, relatively.
    """
    for i in range(len(beyond)):
        exponent = min(gamma * beyond[i], 1e300)
        E = exp_nonpositive(-exponent)
        relative = (error + 4.0 * UNIT) * min(exponent, 800.0) + 8.0 * UNIT
        for j in range(len(intercept)):
            above = scores[i, j] - intercept[j]
            out = (E * above if E > 0.0 else 0.0) + intercept[j]
            scores[i, j] = out
            if len(bounds) > 0:
                size, own = abs(above), bounds[i, j]
                rounding = E * size * relative if E > 0.0 else 0.0
                rounding += 4.0 * UNIT * (abs(intercept[j]) + abs(out))
                total = E * own * (1.0 + 1e-12) if E > 0.0 else 0.0
                total += SAFETY * rounding + LOST_TERMS * (1.0 + size + own)
                bounds[i, j] = np.inf if np.isnan(total) else total


@kernel(by_row=("scores", "labels"))
def label_rows(
    scores: Matrix, words: Longs, threshold: float, above: bool, closed: bool, labels: OutLongs
) -> None:
    """The first word where the score is above the threshold (or below), the second elsewhere.

    `closed`: a score at the threshold gets the first one too.
    """
    first, second = words[0], words[1]
    for i in range(len(labels)):
        score = scores[i, 0]
        beyond = score > threshold if above else score < threshold
        if closed:
            beyond = beyond | (score == threshold)
        labels[i] = first if beyond else second


@kernel(by_row=("found", "out"))
def spell_rows(
    found: Longs,
    labels: Annotated[NDArray[np.uint8], 2, "uint8", False],
    out: Annotated[NDArray[np.uint8], 2, "uint8", True],
) -> None:
    """The bytes of labels of any width, which are found by number.

    NumPy's own ways give the interpreter's lock up, which another caller may then take.
    """
    for i in range(len(found)):
        for j in range(labels.shape[1]):
            out[i, j] = labels[found[i], j]


@kernel(by_row=("scores", "out"))
def vote_rows(scores: Matrix, out: OutMatrix) -> None:
    """Votes of each class and its squashed sum, (m, K), from scores of pairs, (m, K (K - 1) / 2).

    Sums are taken in scikit-learn's order, and a score of zero votes for the first class.
    """
    K = out.shape[1]
    for row in range(len(scores)):
        for c in range(K):
            total, votes, pair = 0.0, 0.0, c - 1
            for other in range(c):
                score = scores[row, pair]
                total -= score
                votes += 0.0 if score >= 0.0 else 1.0
                pair += K - 2 - other
            pair += 1  # that of this class and the next
            for _ in range(c + 1, K):
                score = scores[row, pair]
                total += score
                votes += 1.0 if score >= 0.0 else 0.0
                pair += 1
            out[row, c] = votes + total / (3.0 * (abs(total) + 1.0))


# Rows that a form leaves open, settled by the thread that found them open.
#
# A kernel of a form has labels, and which rows stay open, of the rows that it was given. Here these
# are put together, mapped if rows are, and given to other kernels, one after the other: to that of
# a second form, if there is one, then to one of sums over all centers. What a kernel settles gets
# its label. So nobody is woken twice for a batch, and no row goes through Python.
#
# `InsideCalls` has what the kernel of a form is told of the others: for each how long that is, from
# how many rows on it is worth its time, the address of its code (`compiling.kernel`, `inside`),
# then its arguments as objects of Python's, which must be kept.

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
        for called, arguments, fewest in self.links:
            code = providers.address(called.kernel, called.kernel.symbols[2])
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

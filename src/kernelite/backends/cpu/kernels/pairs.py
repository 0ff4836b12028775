"""One-vs-one in single precision: the winner's pairs, from kernel values kept in cache.

A class that wins all of its K - 1 pairs is the winner, whatever the other pairs say. Of few classes
all pairs are summed up at once, a vector of them per center. Of many, one class's pairs are, with
their bounds; if it surely loses one, the class that beats it by most comes next. Where no class
wins so, the votes of all pairs are counted. Rows that they do not settle are left open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernelite.backends.cpu.kernels.compiling import (
    Ints,
    Longs,
    Matrix,
    OutLongs,
    OutVector,
    SingleMatrix,
    Singles,
    Vector,
    cgutils,
    helper,
    inlined,
    instruction,
    kernel,
    types,
)
from kernelite.backends.cpu.kernels.exp2 import SINGLE, Code
from kernelite.backends.cpu.kernels.panel_sums import growth
from kernelite.backends.cpu.kernels.panels import (
    chain_weights,
    ready_rows,
    value_entries,
    value_rows,
)

__all__ = [
    "RUN",
    "TURN",
    "one_side",
    "pair_size",
    "pair_sum",
    "several_sides",
    "walk_entries",
    "walk_rows",
    "weight",
]

# Sums of kernel values times coefficients of classes, in vector instructions.
#
# In: addresses of kernel values of a row, of coefficients, and how many there are. Out: totals over
# vectors of centers, or vectors that hold a number per other class.

TURN = 2  # vectors of coefficients per turn of a loop
RUN = 32  # centers whose products are added up before they go to the whole


@contextmanager
def _each_turn(code: Code, values: Any, coefficients: Any, turns: Any) -> Iterator[list[Any]]:
    """A loop over vectors, a few per turn: kernel values and coefficients."""
    builder, i64 = code.builder, turns.type
    with cgutils.for_range(builder, turns) as loop:
        far = builder.mul(loop.index, i64(4 * TURN * SINGLE.lanes))
        k_at, a_at = builder.add(values, far), builder.add(coefficients, far)
        yield [(code.load(k_at, v), code.load(a_at, v)) for v in range(TURN)]


def _total(code: Code, sums: list[Any]) -> Any:
    """All lanes of some variables together, as a double."""
    whole = code.builder.load(sums[0])
    for other in sums[1:]:
        whole = code.builder.fadd(whole, code.builder.load(other))
    return code.total(whole)


_ADDRESS, _COUNT = types.uintp, types.intp
_SIDE = _ADDRESS, _ADDRESS, _COUNT


@instruction(types.float64(*_SIDE, *_SIDE))
def pair_sum(
    builder: Any, k: Any, a: Any, turns: Any, other_k: Any, other_a: Any, others: Any
) -> Any:
    """k.a of one class's centers and another's, as a double."""
    code, sums = Code(builder, SINGLE), []
    for side in ((k, a, turns), (other_k, other_a, others)):
        own = [code.variable() for _ in range(TURN)]
        with _each_turn(code, *side) as found:
            for (value, coefficient), total in zip(found, own, strict=True):
                code.add_product(total, value, coefficient)
        sums += own
    return _total(code, sums)


@instruction(types.float64(*_SIDE))
def pair_size(builder: Any, k: Any, a: Any, turns: Any) -> Any:
    """k.|a|, as a double."""
    code = Code(builder, SINGLE)
    sums = [code.variable() for _ in range(TURN)]
    with _each_turn(code, k, a, turns) as found:
        for (value, coefficient), total in zip(found, sums, strict=True):
            code.add_product(total, value, code.magnitude(coefficient))
    return _total(code, sums)


@instruction(types.float64(*_SIDE, types.float32, _ADDRESS))
def weight(builder: Any, k: Any, a: Any, turns: Any, number: Any, nearest: Any) -> Any:
    """k.a as a double, and `nearest` kept: the largest k so far in each lane, and whose it is.

    `nearest` is the address of two vectors. Beyond its last center a class may be taken for the
    next one's, which sees them later.
    """
    code = Code(builder, SINGLE)
    sums = [code.variable() for _ in range(TURN)]
    most, owner = code.variable(code.load(nearest)), code.variable(code.load(nearest, 1))
    here = code.everywhere(number)
    with _each_turn(code, k, a, turns) as found:
        for (value, coefficient), total in zip(found, sums, strict=True):
            code.add_product(total, value, coefficient)
            before = builder.load(most)
            closer = builder.fcmp_ordered(">=", value, before)
            builder.store(builder.select(closer, value, before), most)
            builder.store(builder.select(closer, here, builder.load(owner)), owner)
    code.store(builder.load(most), nearest)
    code.store(builder.load(owner), nearest, 1)
    return _total(code, sums)


def _sides(rows: int) -> Callable[..., Any]:
    """An instruction: out = sum_i k_i a_i over centers, a_i a vector, for so many rows.

    It takes addresses, steps in bytes and the number of centers; sums go to single precision.
    """

    @instruction(types.void(_ADDRESS, _COUNT, _ADDRESS, _COUNT, _COUNT, _ADDRESS, _COUNT))
    def run(
        builder: Any,
        values: Any,
        step: Any,
        lines: Any,
        line_step: Any,
        centers: Any,
        out: Any,
        out_step: Any,
    ) -> None:
        code, i64 = Code(builder, SINGLE), centers.type
        totals = [code.variable() for _ in range(rows)]
        runs = builder.sdiv(builder.add(centers, i64(RUN - 1)), i64(RUN))
        with cgutils.for_range(builder, runs) as outer:
            first = builder.mul(outer.index, i64(RUN))
            left = builder.sub(centers, first)
            count = builder.select(builder.icmp_signed("<", left, i64(RUN)), left, i64(RUN))
            sums = [code.variable() for _ in range(rows)]
            with cgutils.for_range(builder, count) as loop:
                i = builder.add(first, loop.index)
                a = code.load(builder.add(lines, builder.mul(i, line_step)))
                at = builder.add(values, builder.mul(i, i64(4)))
                for total in sums:
                    code.add_product(total, code.spread(at), a)
                    at = builder.add(at, step)
            for whole, part in zip(totals, sums, strict=True):
                builder.store(builder.fadd(builder.load(whole), builder.load(part)), whole)
        for i, whole in enumerate(totals):
            code.store(builder.load(whole), builder.add(out, builder.mul(out_step, i64(i))))

    return run


several_sides, one_side = _sides(SINGLE.rows), _sides(1)


# Rows, tile by tile, from kernel values to the class that wins.

_LANES, _SEVERAL = SINGLE.lanes, SINGLE.rows
PAIR_PADDING = TURN * _LANES  # entries by which a class's coefficients may be padded
_CUT = 1e-30  # infinite errors of a class without centers must not become NaN


@inlined
def _place(table: Any, c: int, j: int) -> Any:
    """The address of the coefficients of class c's centers for its pair with j.

    A line of the table, one per class: how many bytes its kernel values come after the first, the
    address of its coefficients, and turns over either. (Tuples of arrays would be counted.)
    """
    return np.uintp(table[c, 1] + j * table[c, 2] * (4 * TURN * _LANES))


@inlined
def _pair(K: int, i: int, j: int) -> int:
    """The column of the pair of classes i < j."""
    return i * (2 * K - i - 1) // 2 + j - i - 1


@helper
def _all_sides(k: Any, step: int, count: int, starts: Any, lines: Any, sides: Any) -> None:
    """sides[r, c, j]: what class c's centers say for c against j, at each of `count` rows.

    In place of a pair with itself: what they weigh at most in any pair. Kernel values begin at the
    address k, rows `step` bytes apart.
    """
    K, wide = len(starts) - 1, sides.shape[2]
    far, whole = 4 * K * wide, count // _SEVERAL * _SEVERAL
    for c in range(K):
        first, centers = starts[c], starts[c + 1] - starts[c]
        for part in range(0, wide, _LANES):
            a = np.uintp(np.intp(lines.ctypes.data) + 4 * (first * wide + part))
            at, to = k + 4 * first, np.intp(sides.ctypes.data) + 4 * (c * wide + part)
            for r in range(0, whole, _SEVERAL):
                here, there = np.uintp(at + r * step), np.uintp(to + r * far)
                several_sides(here, step, a, 4 * wide, centers, there, far)
            for r in range(whole, count):
                here, there = np.uintp(at + r * step), np.uintp(to + r * far)
                one_side(here, step, a, 4 * wide, centers, there, far)


@helper
def _champion(sides: Any, i: int, offset: Any, error: float, fixed: float) -> tuple[int, float]:
    """The class that surely wins all of its pairs at row i, and by how much at least; else -1.

    Whoever wins all pairs is left when each class has met the winner of those before it.
    """
    K, c = len(offset), 0
    for j in range(1, K):
        lead = np.float64(sides[i, c, j]) - np.float64(sides[i, j, c]) + offset[c, j]
        c = c if lead > 0.0 else j
    sure = math.inf
    for j in range(K):
        if j != c:
            lead = np.float64(sides[i, c, j]) - np.float64(sides[i, j, c]) + offset[c, j]
            lead -= error * (np.float64(sides[i, c, c]) + np.float64(sides[i, j, j]))
            sure = sure if lead >= sure else lead  # NaN too
    sure -= fixed
    return (c, sure) if sure > 0.0 else (-1, 0.0)


@helper
def _weigh(k: Any, table: Any, sizes: Any, nearest: Any) -> int:
    """What each class's centers weigh at most in any pair; returns the class of the nearest one.

    `k` is the address of kernel values.
    """
    nearest[:], kept = 0.0, np.uintp(nearest.ctypes.data)
    for c in range(len(table)):
        values, own = np.uintp(k + table[c, 0]), _place(table, c, c)
        sizes[c] = weight(values, own, table[c, 2], np.float32(c), kept)
    best = 0
    for lane in range(1, _LANES):
        same = nearest[0, lane] == nearest[0, best] and nearest[1, lane] > nearest[1, best]
        if nearest[0, lane] > nearest[0, best] or same:  # of one center twice, it is the later's
            best = lane
    return int(nearest[1, best])


@inlined
def _score(k: Any, table: Any, i: int, j: int) -> float:
    """What the centers of classes i and j say for the first of the two."""
    one, other = np.uintp(k + table[i, 0]), np.uintp(k + table[j, 0])
    mine, others = _place(table, i, j), _place(table, j, i)
    return pair_sum(one, mine, table[i, 2], other, others, table[j, 2])


@inlined
def _size(k: Any, table: Any, i: int, j: int) -> float:
    """What class i's centers weigh at most in its pair with j."""
    return pair_size(np.uintp(k + table[i, 0]), _place(table, i, j), table[i, 2])


@helper
def _leads(k: Any, table: Any, offset: Any, c: int, leads: Any) -> None:
    """By how much class c beats each other one."""
    for j in range(len(leads)):
        if j != c:
            score = _score(k, table, c, j)
            leads[j] = (score if c < j else -score) + offset[c, j]


@helper
def _bounds(k: Any, table: Any, fixed: Any, errors: Any, c: int, bounds: Any) -> None:
    """How far those leads may be off, by each pair's own coefficients and each class's error."""
    K = len(bounds)
    for j in range(K):
        if j != c:
            mine, other = _size(k, table, c, j) + _CUT, _size(k, table, j, c) + _CUT
            pair = _pair(K, min(c, j), max(c, j))
            bounds[j] = errors[c] * mine + errors[j] * other + fixed[pair]


@helper
def _verdict(leads: Any, bounds: Any, c: int) -> tuple[float, int]:
    """By how much class c surely leads; if it surely loses, the class that beats it by most."""
    rival, worst, sure = -1, 0.0, math.inf
    for j in range(len(leads)):
        if j != c:
            lead, bound = leads[j], bounds[j]
            sure = sure if lead - bound >= sure else lead - bound  # NaN too
            if lead < -bound and lead < worst:
                rival, worst = j, lead
    return sure, rival


@inlined
def _error(terms: Any, relative: Any, c: int, square: float, chain: float) -> float:
    """What class c's sums err by relatively at a row."""
    e = terms[c, 0] * chain + terms[c, 1] + terms[c, 2] * math.sqrt(square) + terms[c, 3] * square
    return 1.05 * (growth(e) + relative[c])


@helper
def _walk(
    k: Any,
    table: Any,
    offset: Any,
    fixed: Any,
    terms: Any,
    relative: Any,
    row: Any,
    room: Any,
    nearest: Any,
) -> tuple[int, float]:
    """The class that surely wins all of its pairs, and by how much at least; else -1.

    Bounds are taken from what classes weigh, and again from coefficients where that is not enough.
    """
    square, chain, error, constant = row
    sizes, leads, bounds, seen, errors = room[0], room[1], room[2], room[3], room[4]
    c = _weigh(k, table, sizes, nearest)
    seen[:] = 0.0
    while seen[c] == 0.0:
        seen[c] = 1.0
        _leads(k, table, offset, c, leads)
        for j in range(len(sizes)):
            bounds[j] = error * (sizes[c] + sizes[j]) + constant
        sure, rival = _verdict(leads, bounds, c)
        if not sure > 0.0 and rival < 0:
            for j in range(len(sizes)):
                errors[j] = _error(terms, relative, j, square, chain)
            _bounds(k, table, fixed, errors, c, bounds)
            sure, rival = _verdict(leads, bounds, c)
        if sure > 0.0:
            return c, sure
        if rival < 0:
            break
        c = rival
    return -1, 0.0


@helper
def _elected(k: Any, table: Any, offset: Any, row: Any, ties_to_first: bool, room: Any) -> int:
    """The class that surely has most votes, or is the first of those; -1 where none is sure.

    `room[0]` has what classes weigh.
    """
    _, _, error, constant = row
    sizes, least, most = room[0], room[1], room[2]
    K = len(sizes)
    least[:], most[:] = 0.0, 0.0
    for i in range(K):
        for j in range(i + 1, K):
            lead = offset[i, j] + _score(k, table, i, j)
            bound = error * (sizes[i] + sizes[j]) + constant
            least[i] += lead > bound
            least[j] += lead < -bound
            most[i] += not lead < -bound  # NaN too
            most[j] += not lead > bound
    c = int(np.argmax(least))
    for j in range(K):
        ahead = least[c] > most[j] or (ties_to_first and c < j and least[c] == most[j])
        if j != c and not ahead:
            return -1
    return c


@helper
def _walk_tile(
    values: Any, norms: Any, classes: Any, model: Any, rules: Any, first: int, out: Any
) -> None:
    """Winners of rows whose kernel values and norms are at hand; the first one is row `first`.

    The last line of `terms` and `relative` is the largest of all classes.
    """
    starts, offsets, coefficients, lines = classes
    offset, fixed, terms, relative = model
    most, ties_to_first = rules
    winners, leads = out
    K, wide, count = len(starts) - 1, lines.shape[1], len(norms)
    room, table = np.empty((5, K)), np.empty((K, 3), np.int64)
    nearest = np.empty((2, _LANES), np.float32)
    for c in range(K):
        table[c, 0] = 4 * starts[c]
        table[c, 1] = np.intp(coefficients.ctypes.data) + 4 * offsets[c]
        table[c, 2] = (offsets[c + 1] - offsets[c]) // (K * TURN * _LANES)
    k, step = np.intp(values.ctypes.data), 4 * values.shape[1]
    sides, constant = np.empty((count, K, wide), np.float32), fixed.max()
    if wide:
        _all_sides(k, step, count, starts, lines, sides)
    for i in range(count):
        winner, lead, square, chain = -1, 0.0, norms[i, 0], norms[i, 1]
        if square <= most:  # not NaN either
            error = _error(terms, relative, K, square, chain)
            row = square, chain, error, constant
            if wide:
                winner, lead = _champion(sides, i, offset, error, constant)
            if winner < 0:
                here = k + i * step
                winner, lead = _walk(
                    here, table, offset, fixed, terms, relative, row, room, nearest
                )
                if winner < 0:
                    winner = _elected(here, table, offset, row, ties_to_first, room)
        winners[first + i], leads[first + i] = winner, lead


@helper
def _room(tall: int, width: int, spare: int) -> Any:
    """For kernel values of a tile of rows, and zeros beyond, where coefficients are padded."""
    values = np.empty((tall, width + spare), np.float32)
    values[:, width:] = 0.0
    return values


@kernel(by_row=("rows", "winners", "leads"))
def walk_rows(
    rows: Matrix,
    point: Vector,
    order: Longs,
    g: float,
    panels: Singles,
    exponents: Singles,
    blocks: Longs,
    starts: Longs,
    offsets: Longs,
    coefficients: Singles,
    lines: SingleMatrix,
    offset: Matrix,
    fixed: Vector,
    terms: Matrix,
    relative: Vector,
    most: float,
    ties_to_first: bool,
    tall: int,
    winners: OutLongs,
    leads: OutVector,
) -> None:
    """Winners (m,) of rows, -1 where none is proven, and by how much they lead at least.

    Those that won by votes lead by 0. Kernel values of `tall` rows are kept at a time.
    """
    classes, model = (starts, offsets, coefficients, lines), (offset, fixed, terms, relative)
    rules, out = (most, ties_to_first), (winners, leads)
    tall = max(1, min(tall, len(rows)))
    weights, values = chain_weights(order, rows.shape[1]), _room(tall, len(exponents), PAIR_PADDING)
    w, shifts = np.empty((tall, len(order)), np.float32), np.empty(tall, np.float32)
    norms = np.empty((tall, 2))
    for first in range(0, len(rows), tall):
        count = min(tall, len(rows) - first)
        ready_rows(rows[first : first + count], point, order, weights, g, w, shifts, norms)
        value_rows(w[:count], shifts, panels, exponents, blocks, values)
        _walk_tile(values, norms[:count], classes, model, rules, first, out)


@kernel()
def walk_entries(
    indptr: Longs,
    indices: Ints,
    data: Singles,
    shifts: Singles,
    norms: Matrix,
    panels: Singles,
    exponents: Singles,
    blocks: Longs,
    starts: Longs,
    offsets: Longs,
    coefficients: Singles,
    lines: SingleMatrix,
    offset: Matrix,
    fixed: Vector,
    terms: Matrix,
    relative: Vector,
    most: float,
    ties_to_first: bool,
    tall: int,
    winners: OutLongs,
    leads: OutVector,
) -> None:
    """As `walk_rows` for rows given by their entries."""
    values = _room(min(tall, len(shifts)), len(exponents), PAIR_PADDING)  # none where no rows are
    classes, model = (starts, offsets, coefficients, lines), (offset, fixed, terms, relative)
    rules, out = (most, ties_to_first), (winners, leads)
    for first in range(0, len(shifts), tall):
        count = min(tall, len(shifts) - first)
        some, own = slice(first, first + count), indptr[first : first + count + 1]
        value_entries(own, indices, data, shifts[some], panels, exponents, blocks, values)
        _walk_tile(values, norms[some], classes, model, rules, first, out)

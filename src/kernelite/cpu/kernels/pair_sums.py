"""Sums of kernel values times coefficients of classes, in vector instructions of single precision.

In: addresses of kernel values of a row, of coefficients, and how many there are. Out: totals over
vectors of centers, or vectors that hold a number per other class.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import cgutils, types

from kernelite.cpu.kernels.compiling import instruction
from kernelite.cpu.kernels.exp2 import SINGLE, Code

__all__ = ["RUN", "TURN", "one_side", "pair_size", "pair_sum", "several_sides", "weight"]

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


@instruction
def pair_sum(
    _context: Any, _k: Any, _a: Any, _turns: Any, _other_k: Any, _other_a: Any, _others: Any
) -> Any:
    """k.a of one class's centers and another's, as a double."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        code, sums = Code(builder, SINGLE), []
        for side in (arguments[:3], arguments[3:]):
            own = [code.variable() for _ in range(TURN)]
            with _each_turn(code, *side) as found:
                for (k, a), total in zip(found, own, strict=True):
                    builder.store(code.multiply_add(k, a, builder.load(total)), total)
            sums += own
        return _total(code, sums)

    return types.float64(*_SIDE, *_SIDE), build


@instruction
def pair_size(_context: Any, _k: Any, _a: Any, _turns: Any) -> Any:
    """k.|a|, as a double."""

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        code = Code(builder, SINGLE)
        sums = [code.variable() for _ in range(TURN)]
        with _each_turn(code, *arguments) as found:
            for (k, a), total in zip(found, sums, strict=True):
                added = code.multiply_add(k, code.magnitude(a), builder.load(total))
                builder.store(added, total)
        return _total(code, sums)

    return types.float64(*_SIDE), build


@instruction
def weight(_context: Any, _k: Any, _a: Any, _turns: Any, _number: Any, _nearest: Any) -> Any:
    """k.a as a double, and `nearest` kept: the largest k so far in each lane, and whose it is.

    `nearest` is the address of two vectors. Beyond its last center a class may be taken for the
    next one's, which sees them later.
    """

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        k_at, a_at, turns, number, nearest = arguments
        code = Code(builder, SINGLE)
        sums = [code.variable() for _ in range(TURN)]
        most, owner = code.variable(), code.variable()
        builder.store(code.load(nearest), most)
        builder.store(code.load(nearest, 1), owner)
        here = code.everywhere(number)
        with _each_turn(code, k_at, a_at, turns) as found:
            for (k, a), total in zip(found, sums, strict=True):
                builder.store(code.multiply_add(k, a, builder.load(total)), total)
                before = builder.load(most)
                closer = builder.fcmp_ordered(">=", k, before)
                builder.store(builder.select(closer, k, before), most)
                builder.store(builder.select(closer, here, builder.load(owner)), owner)
        code.store(builder.load(most), nearest)
        code.store(builder.load(owner), nearest, 1)
        return _total(code, sums)

    return types.float64(*_SIDE, types.float32, _ADDRESS), build


def _sides(rows: int) -> Any:
    """An instruction: out = sum_i k_i a_i over centers, a_i a vector, for so many rows.

    It takes addresses, steps in bytes and the number of centers; sums go to single precision.
    """

    @instruction
    def run(
        _context: Any,
        _values: Any,
        _step: Any,
        _lines: Any,
        _line_step: Any,
        _centers: Any,
        _out: Any,
        _out_step: Any,
    ) -> Any:
        def build(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            values, step, lines, line_step, centers, out, out_step = arguments
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
                        added = code.multiply_add(code.spread(at), a, builder.load(total))
                        builder.store(added, total)
                        at = builder.add(at, step)
                for whole, part in zip(totals, sums, strict=True):
                    builder.store(builder.fadd(builder.load(whole), builder.load(part)), whole)
            for i, whole in enumerate(totals):
                at = builder.add(out, builder.mul(out_step, i64(i)))
                code.store(builder.load(whole), at)
            return context.get_dummy_value()

        arguments = _ADDRESS, _COUNT, _ADDRESS, _COUNT, _COUNT, _ADDRESS, _COUNT
        return types.void(*arguments), build

    return run


several_sides, one_side = _sides(SINGLE.rows), _sides(1)

"""Sums of kernel values times coefficients of classes, in vector instructions of single precision.

In: addresses of kernel values of a row, of coefficients, and how many there are. Out: totals over
vectors of centers, or vectors that hold a number per other class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernelite.backends.cpu.kernels.compiling import cgutils, instruction, types
from kernelite.backends.cpu.kernels.exp2 import SINGLE, Code

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

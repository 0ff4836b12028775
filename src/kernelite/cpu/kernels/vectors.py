"""Vectors of doubles, as wide as the machine's, in code that is written in LLVM's instructions.

In: a builder and addresses. Out: loads, broadcasts, and sums that stay in registers.
"""

from __future__ import annotations

from typing import Any, cast

from llvmlite import ir
from numba.core import cgutils

from kernelite.cpu.kernels.compiling import wide_vectors

__all__ = ["LANES", "add_product", "loaded", "offset", "spread", "sums", "vector"]

LANES = 8 if wide_vectors() else 4  # with 512-bit vectors a core has 32 registers, else 16


def vector(builder: Any, address: Any) -> Any:
    """An address as that of a vector."""
    return builder.inttoptr(address, ir.VectorType(ir.DoubleType(), LANES).as_pointer())


def sums(builder: Any, count: int) -> list[Any]:
    """Variables for vectors of sums; the compiler keeps them in registers."""
    variable = cast(Any, cgutils.alloca_once)
    return [variable(builder, ir.VectorType(ir.DoubleType(), LANES)) for _ in range(count)]


def add_product(builder: Any, total: Any, a: Any, b: Any) -> None:
    """Add a b to a variable, in one instruction where there is one."""
    product = builder.fmul(a, b, flags=("contract",))
    builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)


def offset(builder: Any, address: Any, vectors: int) -> Any:
    """The address so many vectors further on."""
    return builder.add(address, address.type(8 * LANES * vectors))


def loaded(builder: Any, address: Any, count: int) -> list[Any]:
    """So many vectors from memory."""
    places = (vector(builder, offset(builder, address, i)) for i in range(count))
    return [builder.load(place, align=8) for place in places]


def spread(builder: Any, address: Any) -> Any:
    """The double at an address in every lane of a vector."""
    double, i32 = ir.DoubleType(), ir.IntType(32)
    nothing = ir.Constant(ir.VectorType(double, LANES), ir.Undefined)
    value = builder.load(builder.inttoptr(address, double.as_pointer()), align=8)
    first = builder.insert_element(nothing, value, i32(0))
    lanes = ir.Constant(ir.VectorType(i32, LANES), [0] * LANES)
    return builder.shuffle_vector(first, nothing, lanes)

"""Kernels compiled by numba: what is behind a library that is built, and behind numba alone.

The functions that are declared in `compiling` are given to numba with their helpers in place. Each
kernel gets an entry, written in LLVM's own instructions: it looks at the objects whose addresses it
is given, refuses what are not arrays of the declared kind, and calls the kernel with views of them.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache, wraps
from types import CellType, FunctionType
from typing import Any

import llvmlite.binding as llvm
import llvmlite.ir as ir
import numba
import numpy as np
from numba.core import cgutils, sigutils, types
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from kernelite.cpu.kernels.compiling import FAILED, OPTIONS, ArrayType, Kernel, Traced
from kernelite.cpu.kernels.providers import DTYPES, HEAD, TABLE, array_table

__all__ = ["compiled_now", "intrinsic_of", "jitted", "library_of", "target_is_wide"]

_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400  # flags of NumPy's arrays
_table = array_table()
llvm.add_symbol(TABLE, ctypes.addressof(_table))
_compiling = threading.RLock()  # numba's own could be held by a thread that a forked child lacks
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_compiling.acquire,
        after_in_parent=_compiling.release,
        after_in_child=_compiling.release,
    )


def target_is_wide() -> bool:
    """Whether numba compiles for vectors of 512 bits; not this machine's, under NUMBA_CPU_NAME."""
    target: Any = cpu_target.target_context
    _triple, processor, features = target.codegen().magic_tuple()
    return processor == "x86-64-v4" or {"+avx512f", "+avx512dq"} <= set(features.split(","))


def jitted(function: Callable[..., Any], **more: Any) -> Any:
    """A function as numba compiles it into others."""
    return numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS, **more)(function)


def intrinsic_of(build: Callable[..., Any], signature: str) -> Any:
    """A function that writes LLVM's instructions, as numba calls it."""
    arguments, result = sigutils.normalize_signature(signature)
    typed_as = result(*arguments)

    def lower(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        found = build(builder, *given)
        return context.get_dummy_value() if found is None else found

    @wraps(build)  # numba takes the arguments' names from it: all but the first
    def typed(_context: Any, *_types: Any) -> Any:
        return typed_as, lower

    return intrinsic(typed)


@cache
def _seen(traced: Traced) -> Any:
    return traced.compiled(_with_helpers(traced.function))


def _with_helpers(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a function that finds what numba sees where the original finds declarations."""
    assert isinstance(function, FunctionType)

    def seen(value: Any) -> Any:
        return _seen(value) if isinstance(value, Traced) else value

    names, cells = function.__code__.co_names, function.__closure__
    known = {n: seen(function.__globals__[n]) for n in names if n in function.__globals__}
    space = {**function.__globals__, **known}
    closure = cells and tuple(CellType(seen(cell.cell_contents)) for cell in cells)
    copy = FunctionType(function.__code__, space, function.__name__, function.__defaults__, closure)
    copy.__qualname__ = function.__qualname__
    return copy


class _Compiler(_FunctionCompiler):  # type: ignore[misc]
    """numba's compiler without what would call the code from Python."""

    def _customize_flags(self, flags: Any) -> Any:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
        flags.enable_pyobject = False
        return flags


def library_of(kernel: Kernel) -> Any:
    """numba's library with a kernel and its entry, whose name is the kernel's symbol."""
    with _compiling, global_compiler_lock:
        cpu_target.target_context.refresh()
        signature = tuple(_numba_type(one) for one in kernel.arguments)
        options = {"nopython": True, **OPTIONS}
        compiler = _Compiler(_with_helpers(kernel.function), cpu_target, options, {}, Compiler)
        compiled = compiler.compile(signature, None)
        library = compiled.target_context.codegen().create_library(kernel.symbol)
        module = library.create_ir_module(kernel.symbol)
        _write_entry(compiled, module, kernel)
        library.add_ir_module(module)
        library.add_linking_library(compiled.library)
        library.finalize()
        return library


@cache
def compiled_now(kernel: Kernel) -> int:
    """The address of a kernel that is compiled in this process."""
    with _compiling:
        address: int = library_of(kernel).get_pointer_to_function(kernel.symbol)
        return address


def _numba_type(kind: ArrayType | str) -> Any:
    if isinstance(kind, ArrayType):
        number = from_dtype(np.dtype(kind.dtype))
        return types.Array(number, kind.n_dims, "C", readonly=not kind.writable)
    return getattr(types, kind)


def _write_entry(compiled: Any, module: Any, kernel: Kernel) -> None:
    """int64 entry(void *array, double number, ...): a whole number, or a status."""
    i64, context = ir.IntType(64), compiled.target_context
    numbers = {"float64": ir.DoubleType(), "float32": ir.FloatType()}
    passed = [
        ir.IntType(8).as_pointer() if isinstance(kind, ArrayType) else numbers.get(kind, i64)
        for kind in kernel.arguments
    ]
    entry = ir.Function(module, ir.FunctionType(i64, passed), kernel.symbol)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    table = ir.GlobalVariable(module, ir.ArrayType(i64, 1 + len(DTYPES)), TABLE)
    given = []
    for i, (kind, value) in enumerate(zip(kernel.arguments, entry.args)):
        if isinstance(kind, ArrayType):
            _refuse_others(builder, table, kind, value, FAILED - 1 - i)
            value = _view(context, builder, kind, value)
        elif kind == "boolean":
            value = builder.icmp_signed("!=", value, i64(0))
        given.append(value)
    function = context.declare_function(module, compiled.fndesc)
    result, arguments = compiled.fndesc.restype, compiled.fndesc.argtypes
    status, found = context.call_conv.call_function(builder, function, result, arguments, given)
    with cgutils.if_unlikely(builder, status.is_error):
        builder.ret(i64(FAILED))
    if isinstance(result, types.Integer):
        widen = builder.sext if result.signed else builder.zext
        builder.ret(widen(found, i64) if result.bitwidth < 64 else found)
    elif isinstance(result, types.Boolean):
        builder.ret(builder.zext(found, i64))
    else:
        assert isinstance(result, types.NoneType), f"{kernel.symbol} returns {result}"
        builder.ret(i64(0))


def _field(builder: Any, array: Any, at: int, kind: Any) -> Any:
    """A field of an array's object, so many bytes from its beginning."""
    place = builder.gep(array, [ir.IntType(64)(at)])
    return builder.load(builder.bitcast(place, kind.as_pointer()))


def _refuse_others(builder: Any, table: Any, kind: ArrayType, array: Any, status: int) -> None:
    """Return a status for what is not an array of a kind."""
    i64, i32 = ir.IntType(64), ir.IntType(32)

    def known(number: int) -> Any:
        return builder.load(builder.gep(table, [i64(0), i64(number)]))

    def refuse_unless(good: Any) -> None:
        with cgutils.if_unlikely(builder, builder.not_(good)):
            builder.ret(i64(status))

    refuse_unless(builder.icmp_unsigned("==", _field(builder, array, HEAD - 8, i64), known(0)))
    flags = i32(_CONTIGUOUS | _ALIGNED | (_WRITEABLE if kind.writable else 0))
    held = builder.and_(_field(builder, array, HEAD + 48, i32), flags)
    good = builder.icmp_unsigned("==", held, flags)
    n_dims = _field(builder, array, HEAD + 8, i32)
    good = builder.and_(good, builder.icmp_unsigned("==", n_dims, i32(kind.n_dims)))
    dtype, wanted = _field(builder, array, HEAD + 40, i64), known(1 + DTYPES.index(kind.dtype))
    refuse_unless(builder.and_(good, builder.icmp_unsigned("==", dtype, wanted)))


def _view(context: Any, builder: Any, kind: ArrayType, array: Any) -> Any:
    """numba's view of an array's object."""
    i64, seen = ir.IntType(64), _numba_type(kind)
    view = make_array(seen)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(seen.dtype))
    dimensions = _field(builder, array, HEAD + 16, i64.as_pointer())
    shape = [builder.load(builder.gep(dimensions, [i64(n)])) for n in range(kind.n_dims)]
    strides: list[Any] = []
    step = i64(size)
    for length in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, length)
    data = _field(builder, array, HEAD, context.get_data_type(seen.dtype).as_pointer())
    populate_array(view, data, shape, strides, size, None)
    return view._getvalue()

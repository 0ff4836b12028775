"""Kernels compiled by numba: what is behind a library that is built, and behind numba alone.

The functions that are declared in `compiling` are given to numba with their helpers in place. Each
kernel gets an entry, written in LLVM's own instructions, that Python calls as one of its functions.
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
import numba
from numba.core import sigutils
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import _FunctionCompiler
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from kernelite.backends.cpu.kernels.compiling import OPTIONS, KernelSource, Traced
from kernelite.backends.cpu.kernels.entries import Entry, InsideEntry, SharedEntry, numba_type
from kernelite.backends.cpu.kernels.objects import SERVER, SHARE, TABLE, object_table
from kernelite.backends.cpu.kernels.pool import pool_text

__all__ = [
    "compiled_now",
    "intrinsic_of",
    "jitted",
    "library_of",
    "pool_compiled_now",
    "target_is_wide",
]

_table = object_table()
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


def library_of(kernel: KernelSource) -> Any:
    """numba's library with a kernel and its entry, whose name is the kernel's symbol."""
    with _compiling, global_compiler_lock:
        cpu_target.target_context.refresh()
        signature = tuple(numba_type(one) for one in kernel.arguments)
        options = {"nopython": True, **OPTIONS}
        compiler = _Compiler(_with_helpers(kernel.function), cpu_target, options, {}, Compiler)
        compiled = compiler.compile(signature, None)
        library = compiled.target_context.codegen().create_library(kernel.symbol)
        module = library.create_ir_module(kernel.symbol)
        Entry(compiled, module, kernel).write()
        if kernel.by_row:
            SharedEntry(compiled, module, kernel).write()
        if kernel.inside:
            InsideEntry(compiled, module, kernel).write()
        library.add_ir_module(module)
        library.add_linking_library(compiled.library)
        library.finalize()
        return library


_library_now = cache(library_of)


@cache
def compiled_now(kernel: KernelSource, symbol: str) -> int:
    """The address of an entry of a kernel that is compiled in this process."""
    with _compiling:
        if kernel.by_row:
            pool_compiled_now()  # which the second entry calls
        address: int = _library_now(kernel).get_pointer_to_function(symbol)
        return address


@cache
def pool_compiled_now() -> int:
    """The address of what a thread of the pool runs, compiled in this process."""
    with _compiling, global_compiler_lock:
        library = cpu_target.target_context.codegen().create_library("pool")
        library.add_llvm_module(llvm.parse_assembly(pool_text()))
        library.finalize()
        llvm.add_symbol(SHARE, library.get_pointer_to_function(SHARE))
        address: int = library.get_pointer_to_function(SERVER)
        return address

"""Compiling kernels with numba: whether it can be done, and with what freedom.

A kernel is compiled for one signature when it is first needed, in the background where a twin in
NumPy can answer meanwhile (`kernels.background`), and kept between processes (`kernels.cache`). The
optimiser may contract a product and a sum into one fma and nothing more: the proof allows any order
of summation, but `exp` needs its (x + c) - c, and rows whose polynomial overflows need infinities
and NaN to behave.
"""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import Annotated, Any, TypeAlias, TypeVar, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from kernelite.cpu.kernels.background import declare, notice, ready
from kernelite.cpu.kernels.cache import KernelCache
from kernelite.rows.inputs import FloatArray

__all__ = [
    "Blocks",
    "Ints",
    "JitWarning",
    "Longs",
    "Matrix",
    "OutInts",
    "OutLongs",
    "OutMatrix",
    "OutSingles",
    "OutVector",
    "SingleMatrix",
    "Singles",
    "Vector",
    "array_type",
    "helper",
    "inlined",
    "instruction",
    "jit_available",
    "kernel",
    "ready",
    "wide_vectors",
]

Function = TypeVar("Function", bound=Callable[..., Any])

# Arguments of kernels: dimensions, numbers, and whether they are written.
Vector: TypeAlias = Annotated[FloatArray, 1, "float64", False]
Matrix: TypeAlias = Annotated[FloatArray, 2, "float64", False]
Blocks: TypeAlias = Annotated[FloatArray, 3, "float64", False]
Ints: TypeAlias = Annotated[NDArray[np.int32], 1, "int32", False]
Longs: TypeAlias = Annotated[NDArray[np.int64], 1, "int64", False]
Singles: TypeAlias = Annotated[NDArray[np.float32], 1, "float32", False]
SingleMatrix: TypeAlias = Annotated[NDArray[np.float32], 2, "float32", False]
OutVector: TypeAlias = Annotated[FloatArray, 1, "float64", True]
OutMatrix: TypeAlias = Annotated[FloatArray, 2, "float64", True]
OutSingles: TypeAlias = Annotated[NDArray[np.float32], 1, "float32", True]
OutInts: TypeAlias = Annotated[NDArray[np.int32], 1, "int32", True]
OutLongs: TypeAlias = Annotated[NDArray[np.int64], 1, "int64", True]


class JitWarning(UserWarning):
    """The fused kernels cannot be used, or not be kept; answers stay the same, only slower."""


@cache
def jit_available() -> bool:
    """Whether fused kernels can be used; says once, in a warning, why not.

    Examples
    --------
    >>> isinstance(jit_available(), bool)
    True
    """
    reason = _reason_against()
    if reason:
        warnings.warn(JitWarning(f"{reason}; prediction runs on BLAS alone."), stacklevel=2)
    return reason is None


def _reason_against() -> str | None:
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed"
    try:
        numba = _loaded()
    except Exception as error:  # an old numba under a new NumPy raises more than ImportError
        return f"numba does not load ({error})"
    off = getattr(numba.config, "DISABLE_JIT", False)
    return "numba is switched off by NUMBA_DISABLE_JIT" if off else None


def _loaded() -> Any:
    """numba, without SciPy's linear algebra, which takes longer to load than the rest.

    numba looks for it once, when it first meets a kernel, to know whether `dot` could be compiled.
    SciPy is installed (we depend on it) and our kernels have no `dot`; others' find it as ever.
    """
    import numba

    try:
        from numba.np import linalg

        look, linalg.ensure_blas = linalg.ensure_blas, lambda: None
        try:
            importlib.import_module("numba.np.arraymath")
        finally:
            linalg.ensure_blas = look
    except (ImportError, AttributeError):
        pass  # a numba that is built otherwise; slower to load, no more
    return numba


def wide_vectors() -> bool:
    """Whether kernels are compiled for vectors of 512 bits, with what `exp2` asks of them.

    Asked of numba's target, not of this machine (they differ under NUMBA_CPU_NAME): numba's cache
    is keyed by the target alone, so what is built into a kernel may depend on nothing else.
    """
    from numba.core.registry import cpu_target

    target: Any = cpu_target.target_context
    _triple, _processor, features = target.codegen().magic_tuple()
    return {"+avx512f", "+avx512dq"} <= set(features.split(","))


def array_type(n_dims: int, dtype: str = "float64", *, writable: bool = False) -> Any:
    """The type of a C-contiguous array in a kernel's signature."""
    from numba import types

    return types.Array(getattr(types, dtype), n_dims, "C", readonly=not writable)


def helper(function: Function) -> Function:
    """Compile a function that only kernels call; it goes into them."""
    from numba import njit

    compiled: Any = njit(fastmath={"contract"}, error_model="numpy")(function)
    return compiled


def instruction(signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function that kernels call of one that writes it in LLVM's own instructions.

    That one is given a builder and the arguments, of the types that `signature` has; it returns the
    result, or None where there is none.
    """
    from numba.extending import intrinsic

    def made(build: Callable[..., Any]) -> Callable[..., Any]:
        def lower(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            result = build(builder, *arguments)
            return context.get_dummy_value() if result is None else result

        @wraps(build)  # numba takes the arguments' names from it: all but the first
        def typed(_context: Any, *_types: Any) -> Any:
            return signature, lower

        callable_: Any = intrinsic(typed)
        return callable_

    return made


def inlined(function: Function) -> Function:
    """As `helper`, but surely part of the loop that calls it, however long it is."""
    from numba import njit

    compiled: Any = njit(fastmath={"contract"}, error_model="numpy", inline="always")(function)
    return compiled


def kernel(*argument_types: Any) -> Callable[[Function], Function]:
    """Declare a function that is compiled for these arguments when it is first called.

    Types are those of `array_type`, or names of scalars; those of its annotations if none is given.
    The compiled function releases the interpreter's lock. Where there is a slow twin, ask `ready`
    before each call.
    """
    from numba import njit, types

    def made(function: Function) -> Function:
        given = argument_types or _annotated(function)
        signature = tuple(getattr(types, t) if isinstance(t, str) else t for t in given)
        compiled: Any = njit(fastmath={"contract"}, error_model="numpy", nogil=True)(function)
        compiled._cache = KernelCache(function, notice, _note_unkept)
        declare(compiled, signature)
        declared: Function = compiled
        return declared

    return made


def _annotated(function: Callable[..., Any]) -> list[Any]:
    """The types that a function's annotations say: those above, and Python's numbers."""
    hints = get_type_hints(function, include_extras=True)
    del hints["return"]
    scalars = {float: "float64", int: "int64", bool: "boolean"}
    return [
        array_type(*hint.__metadata__[:2], writable=hint.__metadata__[2])
        if get_origin(hint) is Annotated
        else scalars[hint]
        for hint in hints.values()
    ]


_said: list[str] = []


def _note_unkept(reason: str) -> None:
    """Warn once, whatever the number of kernels."""
    if _said:
        return
    _said.append(reason)
    message = (
        f"compiled kernels cannot be kept ({reason}), so each process compiles them for seconds; "
        "set KERNELITE_CACHE to a folder of your own that nobody else can write, or run "
        "`kernelite warm-up` where kernelite is installed."
    )
    warnings.warn(JitWarning(message), stacklevel=2)

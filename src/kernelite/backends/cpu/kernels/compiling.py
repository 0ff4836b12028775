"""Kernels are declared here: Python functions that become addresses with a C signature.

Declaring needs nothing but Python. Who provides the address is another matter (`providers`): a
library that was built ahead, or numba, which compiles the same source now (`tracing`). Either is
called in one way, as Python calls its own functions: compiled code is given the addresses of the
arguments' objects, and looks what they are before it reads on. If one is something else than an
array of the declared kind, or a number of Python's, Python makes it fit or says why it cannot.

The optimiser may contract a product and a sum into one fma and nothing more: the proof allows any
order of summation, but `exp` needs its (x + c) - c, and rows whose polynomial overflows need
infinities and NaN to behave.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from kernelite.backends.cpu.kernels import providers
from kernelite.backends.cpu.kernels.objects import callable_at
from kernelite.backends.cpu.kernels.providers import jit_available, wide_vectors
from kernelite.data.rows.inputs import FloatArray

__all__ = [
    "CONTRACT",
    "OPTIONS",
    "ArrayType",
    "Blocks",
    "Bools",
    "Ints",
    "KernelSource",
    "Longs",
    "Matrix",
    "OutBools",
    "OutInts",
    "OutLongs",
    "OutMatrix",
    "OutSingles",
    "OutVector",
    "SingleMatrix",
    "Singles",
    "Traced",
    "Vector",
    "array_type",
    "cgutils",
    "helper",
    "imported",
    "inlined",
    "instruction",
    "ir",
    "jit_available",
    "kernel",
    "types",
    "wide_vectors",
]

Function = TypeVar("Function", bound=Callable[..., Any])

# The freedom of the optimiser, for whoever compiles; infinities where numbers are divided by zero.
CONTRACT = ("contract",)
OPTIONS = {"fastmath": {*CONTRACT}, "error_model": "numpy"}

# Arguments of kernels: dimensions, numbers, and whether they are written.
Vector: TypeAlias = Annotated[FloatArray, 1, "float64", False]
Matrix: TypeAlias = Annotated[FloatArray, 2, "float64", False]
Blocks: TypeAlias = Annotated[FloatArray, 3, "float64", False]
Ints: TypeAlias = Annotated[NDArray[np.int32], 1, "int32", False]
Longs: TypeAlias = Annotated[NDArray[np.int64], 1, "int64", False]
Singles: TypeAlias = Annotated[NDArray[np.float32], 1, "float32", False]
SingleMatrix: TypeAlias = Annotated[NDArray[np.float32], 2, "float32", False]
Bools: TypeAlias = Annotated[NDArray[np.bool_], 1, "bool", False]
OutVector: TypeAlias = Annotated[FloatArray, 1, "float64", True]
OutMatrix: TypeAlias = Annotated[FloatArray, 2, "float64", True]
OutBools: TypeAlias = Annotated[NDArray[np.bool_], 1, "bool", True]
OutSingles: TypeAlias = Annotated[NDArray[np.float32], 1, "float32", True]
OutInts: TypeAlias = Annotated[NDArray[np.int32], 1, "int32", True]
OutLongs: TypeAlias = Annotated[NDArray[np.int64], 1, "int64", True]


class ArrayType(NamedTuple):
    """A C-contiguous array in a kernel's signature."""

    n_dims: int
    dtype: str
    writable: bool


def array_type(n_dims: int, dtype: str = "float64", *, writable: bool = False) -> ArrayType:
    """The type of a C-contiguous array in a kernel's signature."""
    return ArrayType(n_dims, dtype, writable)


class _Later:
    """A module that is loaded when something of it is needed: when a kernel is compiled."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


ir: Any = _Later("llvmlite.ir")
cgutils: Any = _Later("numba.core.cgutils")


class _Type(str):
    """The name of a number's type; called with those of arguments, a signature."""

    def __call__(self, *arguments: str) -> _Type:
        return _Type(f"{self}({', '.join(arguments)})")


class _Types:
    def __getattr__(self, name: str) -> _Type:
        return _Type(name)


types: Any = _Types()
"""What signatures of instructions are made of: `types.float64(types.int64)`."""


@dataclass(frozen=True, eq=False)
class Traced:
    """A function that only kernels call, and what numba is to see in its place.

    Parameters
    ----------
    function : callable
        Called from Python, it answers itself, unless it writes instructions.
    compiled : callable
        Given `function`, makes what numba sees, when a kernel is compiled.
    """

    function: Callable[..., Any]
    compiled: Callable[[Callable[..., Any]], Any]

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def helper(function: Function) -> Function:
    """Compile a function that only kernels call; it goes into them."""
    declared: Any = Traced(function, _jitted)
    return declared


def inlined(function: Function) -> Function:
    """As `helper`, but surely part of the loop that calls it, however long it is."""
    declared: Any = Traced(function, lambda found: _jitted(found, inline="always"))
    return declared


def _jitted(function: Callable[..., Any], **more: Any) -> Any:
    from kernelite.backends.cpu.kernels.tracing import jitted

    return jitted(function, **more)


def instruction(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function that kernels call of one that writes it in LLVM's own instructions.

    That one is given a builder and the arguments, of the types that `signature` has; it returns the
    result, or None where there is none.
    """

    def intrinsic(build: Callable[..., Any]) -> Any:
        from kernelite.backends.cpu.kernels.tracing import intrinsic_of

        return intrinsic_of(build, signature)

    return lambda build: Traced(build, intrinsic)


def imported(module: str, name: str) -> Any:
    """Something of another module, for kernels alone, which is loaded when they are compiled."""
    return Traced(lambda: getattr(import_module(module), name), lambda found: found())


@dataclass(frozen=True, eq=False)
class KernelSource:
    """A function that is compiled for one signature.

    Parameters
    ----------
    function : callable
        Its source.
    symbol : str
        What it is called in a library.
    arguments : tuple
        An `ArrayType`, or the name of a scalar, for each.
    by_row : tuple of int
        Arguments with an entry per row, so that rows may be given to several threads.
    inside : tuple of int
        Those of them that another kernel gives it rows of its own in.
    """

    function: Callable[..., Any]
    symbol: str
    arguments: tuple[ArrayType | str, ...]
    by_row: tuple[int, ...] = ()
    inside: tuple[int, ...] = ()

    @property
    def symbols(self) -> tuple[str, ...]:
        """Of its entries: the second one shares rows out, the third is for other kernels."""
        more = [""] + ["_shared"] * bool(self.by_row) + ["_inside"] * bool(self.inside)
        return tuple(self.symbol + one for one in more)

    def ordinary(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Arguments as compiled code takes them: arrays of no subclass, Python's numbers.

        Raises
        ------
        TypeError
            If one is of another kind.
        """
        if len(arguments) != len(self.arguments):
            raise TypeError(f"{self.symbol} takes {len(self.arguments)} arguments.")
        return [
            self._ordinary(i, one, kind)
            for i, (one, kind) in enumerate(zip(arguments, self.arguments))
        ]

    def _ordinary(self, i: int, given: Any, kind: ArrayType | str) -> Any:
        if not isinstance(kind, ArrayType):
            if kind == "boolean":
                return bool(given)
            return float(given) if kind.startswith("float") else operator.index(given)
        dtype = np.dtype(kind.dtype)
        if not isinstance(given, np.ndarray):
            raise TypeError(f"argument {i} of {self.symbol} is no array: {type(given).__name__}.")
        flags, wanted = given.flags, f"{kind.n_dims} dimensions of {kind.dtype}"
        fits = given.ndim == kind.n_dims and given.dtype == dtype and flags.aligned
        if not (fits and flags.c_contiguous and (flags.writeable or not kind.writable)):
            raise TypeError(
                f"argument {i} of {self.symbol} should be a C-contiguous array of {wanted}"
                f"{', writable' if kind.writable else ''}; it has {given.ndim} of {given.dtype}."
            )
        # dtype: an equal one may be another object.
        return np.ndarray(given.shape, dtype, given.data if given.size else None)


def kernel(
    *argument_types: Any, name: str = "", by_row: tuple[str, ...] = (), inside: tuple[str, ...] = ()
) -> Callable[[Function], Function]:
    """Declare a function that providers give an address for when it is first called.

    Types are those of `array_type`, or names of scalars; those of its annotations if none is given.
    It returns a whole number or nothing, and may be called by any thread: it runs without the
    interpreter's lock. `name` is for functions that are made several times. `by_row` names
    arguments with an entry per row: `cpu.threads.share_rows` then has all threads run it. `inside`
    names those that another kernel gives it, with rows that it has found (`judging`).
    """

    def made(function: Function) -> Function:
        given = tuple(argument_types) or tuple(_annotated(function))
        place = function.__module__.rpartition(".")[2]
        names = list(signature(function).parameters)
        rows, within = (tuple(names.index(one) for one in some) for some in (by_row, inside))
        own = KernelSource(function, f"{place}_{name or function.__name__}", given, rows, within)
        # Once their code is found, attributes are that itself, which saves a call of Python's.
        call: Any = _caller(own, own.symbol, lambda entry: setattr(call, "alone", entry))
        call = wraps(function)(call)
        call.kernel, call.alone = own, call
        if by_row:
            share = own.symbols[1], lambda entry: setattr(call, "shared", entry), 3
            call.shared = _caller(own, *share)
        providers.declare(own)
        declared: Function = call
        return declared

    return made


def _caller(
    own: KernelSource, symbol: str, found: Callable[[Any], None], before: int = 0
) -> Callable[..., Any]:
    """What is called: a function that finds its compiled code when it is called first.

    `found` is then told the code, as a function of Python's. `before` is how many whole numbers
    stand before the kernel's own arguments.
    """
    entry: Callable[..., Any]
    strict: Callable[..., Any]

    def call(*arguments: Any) -> Any:
        return entry(*arguments)

    def first(*arguments: Any) -> Any:
        nonlocal entry, strict
        place = providers.address(own, symbol)
        strict = callable_at(place, symbol, refused)
        entry = callable_at(place, symbol, fitted)
        found(entry)
        return entry(*arguments)

    def fitted(*arguments: Any) -> Any:
        """Called by compiled code that is given something else than it takes."""
        return strict(*map(int, arguments[:before]), *own.ordinary(arguments[before:]))

    def refused(*_: Any) -> Any:
        raise TypeError(f"{own.symbol} cannot take these arguments.")

    entry = strict = first
    return call


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

"""Objects of Python and NumPy as compiled code reads them, and that code as a function of Python's.

Behind an object's count and type stands a float's value, or an array's data, dimensions, dtype and
flags, at places that every extension of NumPy relies on. Python without its lock has a longer head;
`why_unlike` looks before any code is called.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "HEADER_BYTES",
    "OBJECTS",
    "POOL",
    "SERVER",
    "SHARE",
    "TABLE",
    "WORDS",
    "callable_at",
    "object_table",
    "why_unlike",
]

HEADER_BYTES = 16  # bytes: a count and a type
TABLE = "kernelite_objects"  # a library's variable: where objects and functions are in this process
SERVER, SHARE = "kernelite_serve", "kernelite_share"  # its functions for the pool of threads
ARRAY_DTYPES = (
    *("float64", "float32", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool"),
)
RUNTIME_FUNCTIONS = (
    *("PyLong_AsLongLong", "PyLong_FromLongLong", "PyErr_Occurred", "PyErr_NoMemory"),
    *("PyEval_SaveThread", "PyEval_RestoreThread", "PyObject_Vectorcall"),
)
SYSTEM = ("sem_wait", "sem_post", "clock_gettime")  # functions of the C library
# Whose addresses the table holds.
OBJECTS = (
    *("array", "float", "float of NumPy", "int", "True", "False"),
    *(*ARRAY_DTYPES, *RUNTIME_FUNCTIONS, *SYSTEM, "pool"),
)
# The memory of `pool`, in words of eight bytes: two semaphores of four words; the function and its
# argument; how many helpers may still begin; how many have finished; whether a call has the
# threads, how many there are, how many of them sleep, and whether the caller does. What threads
# write at the same time lies two cache lines apart, since a line is one core's at a time.
WORDS = {"work": 0, "done": 16, "function": 32, "given": 33, "tickets": 48, "finished": 64}
WORDS |= {"busy": 80, "started": 81, "sleepers": 82, "listens": 83}
POOL = (ctypes.c_int64 * 96)()
ctypes.pythonapi.Py_IncRef(ctypes.py_object(POOL))  # threads sleep in it until the process ends


def object_table() -> Any:
    """The addresses of `OBJECTS` in this process."""
    objects = (np.ndarray, float, np.float64, int, True, False, *map(np.dtype, ARRAY_DTYPES))
    functions = [getattr(ctypes.pythonapi, name) for name in RUNTIME_FUNCTIONS]
    # Elsewhere nobody waits: see `pool`.
    here = ctypes.CDLL(None) if sys.platform == "linux" else None
    functions += [here and getattr(here, name) for name in SYSTEM]
    found = [ctypes.cast(one, ctypes.c_void_p).value for one in functions]
    return (ctypes.c_void_p * len(OBJECTS))(*map(id, objects), *found, ctypes.addressof(POOL))


def why_unlike() -> str | None:
    """Why objects are not what compiled code takes them for; None if they are."""
    reason = "objects of this Python and NumPy are laid out in another way"
    for number in (1.5, np.float64(2.5)):
        if number.__sizeof__() < HEADER_BYTES + 8:
            return reason
        kind = ctypes.c_void_p.from_address(id(number) + HEADER_BYTES - 8).value
        if kind != id(type(number)):
            return reason
        if ctypes.c_double.from_address(id(number) + HEADER_BYTES).value != number:
            return reason
    probe = np.zeros((3, 5))
    if np.ndarray.__basicsize__ < HEADER_BYTES + 56:
        return reason
    words = (ctypes.c_void_p * 7).from_address(id(probe) + HEADER_BYTES - 8)
    nd, flags = (ctypes.c_int.from_address(id(probe) + HEADER_BYTES + at).value for at in (8, 48))
    kept = 0x1 | 0x100 | 0x400  # contiguous, aligned, writable
    if (words[0], words[1], nd) != (id(np.ndarray), probe.ctypes.data, 2) or not words[3]:
        return reason
    shape = tuple((ctypes.c_ssize_t * 2).from_address(words[3]))
    same = shape == (3, 5) and flags & kept == kept and words[6] == id(np.dtype("float64"))
    return None if same else reason


class _Definition(ctypes.Structure):
    """Python's definition of a function that takes an array of arguments."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


_TAKES_ARRAY = 0x80
_definitions: list[_Definition] = []  # which Python goes on using
_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.POINTER(_Definition), ctypes.py_object, ctypes.c_void_p
)(("PyCFunction_NewEx", ctypes.pythonapi))


def callable_at(place: int, name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled code as a function of Python's; `otherwise` is called with what it cannot take."""
    definition = _Definition(name.encode(), place, _TAKES_ARRAY, None)
    _definitions.append(definition)
    function: Callable[..., Any] = _new_function(ctypes.byref(definition), otherwise, None)
    return function

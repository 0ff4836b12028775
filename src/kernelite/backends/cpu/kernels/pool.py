"""Threads that work inside compiled code, so that a kernel's rows go to all cores in one call.

A kernel that is declared with `by_row` has a second entry, which is given a number of helpers and
of rows. It lets threads that wait here take part: each of them, and the caller, takes the next so
many rows until none is left (`entries` writes that loop). No thread needs the interpreter's lock
meanwhile, neither to begin nor to end. While one call has the threads, others do their work alone.
A thread without work watches for some for 50 microseconds before it sleeps: calls in a row find it.

The threads are Python's own, started when first asked for, and wait in `kernelite_serve` for good.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
from functools import cache
from typing import Any

from kernelite.backends.cpu.kernels import providers
from kernelite.backends.cpu.kernels.objects import POOL, WORDS

__all__ = ["ensure_helpers"]


def ensure_helpers(count: int) -> int:
    """Have at least so many threads wait for work; how many there are, which may be fewer.

    There are none but on Linux: other systems have no semaphores in a program's own memory.
    """
    if sys.platform != "linux":
        return 0
    with _starting:
        while len(_started) < count:
            try:
                _thread.start_new_thread(_serve(), ())
            except RuntimeError:  # the interpreter is ending, or the system has no thread left
                break
            _started.append(None)
        return min(len(_started), count)


_started: list[None] = []  # one entry per thread
_starting = _thread.allocate_lock()


@cache
def _serve() -> Any:
    serve: Any = ctypes.CFUNCTYPE(None)(providers.pool_server())
    return serve


def _begin_anew() -> None:
    """Make the pool's memory what it is without threads: at first, and in a forked child."""
    global _starting
    POOL[:] = [0] * len(POOL)
    library = ctypes.CDLL(None)
    for name in ("work", "done"):
        library.sem_init(ctypes.byref(POOL, 8 * WORDS[name]), 0, 0)
    _started.clear()
    _starting = _thread.allocate_lock()


if sys.platform == "linux":
    _begin_anew()  # while this is imported, which one thread does: no call can be under way
    os.register_at_fork(after_in_child=_begin_anew)

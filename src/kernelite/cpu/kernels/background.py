"""Kernels compiled on a thread of their own, while answers come from the slow twins.

`ready(kernel)` says whether a kernel can be called now; if not, it is on its way. With
KERNELITE_COMPILE=wait, for tests and benchmarks, it is always ready, after a wait and without a
word. A kernel that is called without having been asked for is compiled there and then.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

__all__ = ["declare", "declared", "is_prepared", "no_notice", "notice", "prepare_now", "ready"]

_signatures: dict[Any, Any] = {}  # of every kernel, in the order of their declaration
_prepared: set[Any] = set()
_compiling = threading.Lock()  # held while numba is at work on a kernel


def declare(kernel: Any, signature: Any) -> None:
    """Say which arguments a kernel is compiled for, when it comes to that."""
    _signatures[kernel] = signature
    _end_well()

    def compiled(*_: Any) -> Any:
        """What numba asks for code when it has none; it calls what it is given."""
        prepare_now(kernel)
        return kernel  # which now compares the arguments with the signature

    kernel._compile_for_args = compiled


def declared() -> list[Any]:
    """All kernels so far."""
    return list(_signatures)


def is_prepared(kernel: Any) -> bool:
    """Whether a kernel is compiled and loaded; asks for nothing."""
    return kernel in _prepared


def ready(kernel: Callable[..., Any], /) -> bool:
    """Whether a kernel can be called without waiting for the compiler; if not, it is begun.

    A kernel that is kept on disk is loaded at once.
    """
    if kernel in _prepared:
        return True
    made: Any = kernel
    signature = _signatures[made]
    waits = _waits() or made in _worker.failed
    # numba's lock is held while a kernel compiles: even loading one would wait for it.
    if waits or (not _worker.busy and made._cache.holds(signature, made.targetctx)):
        prepare_now(made)
        return True
    _worker.add(made)
    return False


def _waits() -> bool:
    return os.environ.get("KERNELITE_COMPILE") == "wait"


def prepare_now(kernel: Any) -> None:
    """Load or compile a kernel, and wait for it."""
    with _compiling:
        if kernel not in _prepared:
            kernel.compile(_signatures[kernel])
            kernel.disable_compile()
            _prepared.add(kernel)


_notices = [True]  # whether they are wanted


@contextmanager
def no_notice() -> Iterator[None]:
    """Compile without a word: who calls knows."""
    wanted, _notices[0] = _notices[0], False
    try:
        yield
    finally:
        _notices[0] = wanted


def notice() -> None:
    """Say once, in one line, that something is being compiled.

    Through `logging`, at a level that shows on stderr where nothing is configured: a warning might
    be turned into an error, and there is nothing wrong.
    """
    if not _notices[0] or _waits():
        return
    _notices[0] = False
    logging.getLogger("kernelite").warning(
        "kernelite: compiling kernels for this processor, once; answers are slower until then "
        "(`kernelite warm-up` compiles them ahead)"
    )


class _Worker:
    """A thread that compiles what is in a queue, and ends with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of the queue
        self._queue: list[Any] = []
        self._thread: threading.Thread | None = None
        self._ending = False
        self.failed: set[Any] = set()

    @property
    def busy(self) -> bool:
        return bool(self._queue)

    def add(self, kernel: Any) -> None:
        with self._lock:
            if kernel not in self._queue:
                self._queue.append(kernel)
            if self._thread is not None:
                return
            thread = threading.Thread(target=self._work, name="kernelite compiler")
            try:
                thread.start()
                self._thread = thread
            except RuntimeError:  # no thread or memory left: asked again when it is next needed
                self._queue.remove(kernel)

    def _work(self) -> None:
        # One is compiled even if the program ends at once: the next process finds it.
        ending = False
        while True:
            with self._lock:
                if not self._queue or ending:
                    self._thread = None
                    return
                kernel = self._queue[0]
            try:
                prepare_now(kernel)
            except Exception:  # whoever calls the kernel next gets to see it
                self.failed.add(kernel)
            with self._lock:
                self._queue.remove(kernel)
            ending = self._ending or not threading.main_thread().is_alive()

    def end(self) -> None:
        """Wait for the kernel under way, so that the next process finds it; leave the others."""
        self._ending = True
        thread = self._thread
        if thread is not None:
            try:
                thread.join()
            except KeyboardInterrupt:
                return  # its user has waited long enough

    def begin_anew(self) -> None:
        """In a forked child, which has the queue but not the thread."""
        self._lock = threading.Lock()
        self._queue, self._thread = [], None


_worker = _Worker()


@cache
def _end_well() -> None:
    atexit.register(_worker.end)
    if not hasattr(os, "register_at_fork"):
        return

    def in_child() -> None:
        _compiling.release()
        _worker.begin_anew()

    # A child would inherit numba's lock, held by a thread that it has not: forks wait.
    os.register_at_fork(
        before=_compiling.acquire, after_in_parent=_compiling.release, after_in_child=in_child
    )

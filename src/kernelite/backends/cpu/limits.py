"""How many cores there are, and how many threads may be used: by our kernels and by BLAS.

A limit of our kernels holds for the calling thread; BLAS keeps one setting a process.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from kernelite.support.errors import InputError

__all__ = [
    "available",
    "limit_here",
    "limit_threads",
    "one_thread",
    "one_thread_each",
    "single_threaded_blas",
    "thread_count",
]

Function = TypeVar("Function", bound=Callable[..., Any])

# Control groups of version 2 hold quota and period in one file, those of version 1 in two.
_QUOTA_FILES = (
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)


class _Asked:
    """A number of threads that was asked for.

    Parameters
    ----------
    threads : int
    of_blas : bool
        Whether BLAS is to keep to it as well, as long as it is in force.
    """

    __slots__ = ("__weakref__", "of_blas", "threads")

    def __init__(self, threads: int, *, of_blas: bool) -> None:
        self.threads, self.of_blas = threads, of_blas


_limit: ContextVar[_Asked | None] = ContextVar("kernelite_threads", default=None)
# Blocks of `with` that have begun, outer ones first: limits, what they put in force, what was then.
_blocks: ContextVar[tuple[tuple[Any, _Asked, _Asked | None], ...]] = ContextVar(
    "kernelite_blocks", default=()
)


def thread_count(n_jobs: int | None = None) -> int:
    """Threads to use.

    Parameters
    ----------
    n_jobs : int, optional
        A number; negative ones count from all available cores (-1: all, -2: all but one). By
        default what `limit_threads` set, else all cores this process may use (its affinity and
        the container's quota), or OMP_NUM_THREADS if that is fewer.

    Examples
    --------
    >>> thread_count(3)
    3
    >>> with limit_threads(1):
    ...     thread_count()
    1
    """
    if n_jobs is None:
        limit = _limit.get()
        return _default_count() if limit is None else limit.threads
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0:
        raise InputError(f"`n_jobs` must be a positive or negative integer, got {n_jobs!r}.")
    return n_jobs if n_jobs > 0 else max(1, available() + 1 + n_jobs)


class ThreadLimit:
    """A limit in force: what `limit_threads` gives.

    It may be entered any number of times, by any thread, also while it is in force.

    Parameters
    ----------
    threads : int, optional
        None changes nothing.
    """

    def __init__(self, threads: int | None) -> None:
        self.threads = thread_count() if threads is None else threads
        self._limits = threads is not None
        # What a plain call put in force, and instead of what, until a block takes it over.
        self._plain = self._begin() if self._limits else None

    def _begin(self) -> tuple[_Asked, _Asked | None]:
        """Put the limit in force for this thread: what was asked for, and what was before."""
        own, outer = _Asked(self.threads, of_blas=True), _limit.get()
        _limit.set(own)
        _ask_of_blas(own, outer)
        return own, outer

    def __enter__(self) -> int:
        if self._limits:
            begun = self._taken_over() or self._begin()
            _blocks.set((*_blocks.get(), (self, *begun)))
        return self.threads

    def __exit__(self, *_: object) -> None:
        blocks = _blocks.get()
        for place in reversed(range(len(blocks))):
            limit, own, outer = blocks[place]
            if limit is self:
                _blocks.set((*blocks[:place], *blocks[place + 1 :]))
                return _end(own, outer)
        if (plain := self._taken_over()) is not None:
            _end(*plain)

    def _taken_over(self) -> tuple[_Asked, _Asked | None] | None:
        """What a plain call put in force, once; None where it is not in force for this thread."""
        plain = self._plain
        if plain is None or plain[0] is not _limit.get():
            return None
        self._plain = None
        return plain

    def __call__(self, function: Function) -> Function:
        """As a decorator: each call of the function is limited, and nothing else."""
        self.__exit__()
        threads = self.threads if self._limits else None

        @wraps(function)
        def limited(*arguments: Any, **options: Any) -> Any:
            with ThreadLimit(threads):
                return function(*arguments, **options)

        found: Any = limited
        decorated: Function = found
        return decorated


def _end(own: _Asked, outer: _Asked | None) -> None:
    """Put in force again what was before a limit."""
    own.of_blas = False
    _limit.set(outer)
    _ask_of_blas(outer, own)


def limit_threads(n_jobs: int | None) -> ThreadLimit:
    """Use this many threads from now on, in our kernels and in BLAS.

    In a `with` statement the limit ends with the block; after a plain call it stays until the next
    one, `limit_threads(-1)` for all cores. None changes nothing.

    The limit of our kernels holds for the calling thread: others, a server's say, need a call of
    their own. BLAS keeps one setting a process: the smallest that any living thread has asked for.

    Examples
    --------
    >>> with limit_threads(2) as threads:
    ...     threads
    2
    """
    return ThreadLimit(None if n_jobs is None else thread_count(n_jobs))


@contextmanager
def limit_here(threads: int) -> Iterator[None]:
    """Our kernels use at most so many threads where they are called inside the block."""
    token = _limit.set(_Asked(threads, of_blas=False))
    try:
        yield
    finally:
        _limit.reset(token)


def one_thread() -> AbstractContextManager[int]:
    """As `limit_threads(1)`.

    Examples
    --------
    >>> with one_thread():
    ...     thread_count()
    1
    """
    return limit_threads(1)


def single_threaded_blas() -> AbstractContextManager[None]:
    """BLAS uses one thread inside the block, because our own threads call it."""
    return _blas_limited(1)


def one_thread_each(n_items: int, chunk: int) -> AbstractContextManager[None]:
    """`single_threaded_blas` where several of our threads will call it, else nothing.

    Setting and lifting the limit takes longer than a single row does.

    Examples
    --------
    >>> with one_thread_each(1, 1):
    ...     pass
    """
    several = n_items > chunk and thread_count() > 1
    return single_threaded_blas() if several else nullcontext()


_blas_lock = threading.RLock()
_asked: WeakSet[_Asked] = WeakSet()  # limits of BLAS that are in force: the smallest one counts
_before: list[tuple[Any, int]] = []  # BLAS libraries, and their threads without a limit
_limited = False  # whether BLAS was told a limit, also by threads that ended, or before a fork


@contextmanager
def _blas_limited(count: int) -> Iterator[None]:
    """BLAS uses at most so many threads inside the block.

    Blocks of several threads may overlap: the last one out lifts the limit, so that no caller
    restores what another one had set.
    """
    own = _Asked(count, of_blas=True)
    _ask_of_blas(own, None)
    try:
        yield
    finally:
        _ask_of_blas(None, own)


def _ask_of_blas(asked: _Asked | None, instead: _Asked | None) -> None:
    """Have BLAS keep to a limit from now on, instead of to another one."""
    global _before, _limited
    with _blas_lock:
        known = {library.filepath: without for library, without in _before if _limited}
        _before = [(one, known.get(one.filepath) or one.get_num_threads()) for one in _blas()]
        if instead is not None:
            _asked.discard(instead)
        if asked is not None and asked.of_blas:
            _asked.add(asked)
        _limited = len(_asked) > 0
        _set_blas()


def _set_blas() -> None:
    """Tell every BLAS library how many threads it may use now.

    Newer versions of threadpoolctl give OpenBLAS to the thread that first set a limit, and
    ignore all others for as long as that one lives: ours could neither set nor lift theirs.
    """
    for library, without in _before:
        free = getattr(library, "clear_controlling_thread", None)
        if free is not None:
            free(force=True)
        library.set_num_threads(min([without, *(one.threads for one in _asked)]))
        if free is not None:
            free(force=True)


def _blas() -> list[Any]:
    """The BLAS libraries of this process, looked up again when SciPy has brought its own."""
    return _blas_libraries("scipy.linalg" in sys.modules)


@cache
def _blas_libraries(_with_scipy: bool) -> list[Any]:
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController().lib_controllers
    return [library for library in found if library.user_api == "blas"]


def _default_count() -> int:
    # Whether it is set is asked of the dictionary inside, where there is one: `os.environ` takes
    # longer to say no than a row takes to be labelled.
    known: Any = getattr(os.environ, "_data", None)
    if known is not None and b"OMP_NUM_THREADS" not in known and "OMP_NUM_THREADS" not in known:
        return available()
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    most = available()
    return max(1, min(most, int(wanted))) if wanted.isdecimal() and int(wanted) else most


@cache
def available() -> int:
    """Cores that this process may use (joblib counts them too, but takes 50 ms to load)."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        cores = os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _quota())))


def _quota() -> float:
    """Cores that a Linux container may use at a time; infinite where nothing limits them."""
    for names in _QUOTA_FILES:
        try:
            quota, period = " ".join(Path(name).read_text() for name in names).split()
            return int(quota) / int(period) if int(quota) > 0 else math.inf
        except (OSError, ValueError, ZeroDivisionError):  # "max" is no number
            continue
    return math.inf


def _start_anew() -> None:
    """In a forked child: the threads that were about to lift a limit of BLAS are not there."""
    global _asked, _blas_lock
    _blas_lock = threading.RLock()
    own = _limit.get()  # the thread that forked goes on in the child, with its limit
    _asked = WeakSet([] if own is None or not own.of_blas else [own])


if hasattr(os, "register_at_fork"):
    # The lock is held meanwhile: BLAS stops its threads for a fork, and hangs if told to start
    # some just then.
    os.register_at_fork(
        before=lambda: _blas_lock.acquire(),
        after_in_parent=lambda: _blas_lock.release(),
        after_in_child=_start_anew,
    )

"""How many threads are used, and how work is given to them.

Kernels are serial and release the interpreter's lock; rows are handed out in chunks to a few
threads that live as long as the process. So there is no threading layer that fails under forks
or concurrent calls, and any number of callers share the same threads.
"""

from __future__ import annotations

import _thread
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

from kernelite.errors import InputError

__all__ = [
    "for_each_chunk",
    "limit_threads",
    "one_thread",
    "one_thread_each",
    "single_threaded_blas",
    "thread_count",
]

# Control groups of version 2 hold quota and period in one file, those of version 1 in two.
_QUOTA_FILES = (
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)
_limit: ContextVar[int | None] = ContextVar("kernelite_threads", default=None)


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
        return _default_count() if limit is None else limit
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0:
        raise InputError(f"`n_jobs` must be a positive or negative integer, got {n_jobs!r}.")
    return n_jobs if n_jobs > 0 else max(1, _available() + 1 + n_jobs)


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[int]:
    """Use this many threads inside the block, in our kernels and in BLAS; None changes nothing.

    BLAS keeps one setting a process, so callers on several threads should agree.

    Examples
    --------
    >>> with limit_threads(2) as threads:
    ...     threads
    2
    """
    if n_jobs is None:
        yield thread_count()
        return
    from threadpoolctl import threadpool_limits

    threads = thread_count(n_jobs)
    token = _limit.set(threads)
    try:
        with _in_control():
            limits = threadpool_limits(threads)
        try:
            yield threads
        finally:
            with _in_control():
                limits.restore_original_limits()
    finally:
        _limit.reset(token)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """BLAS uses one thread inside the block, because our own threads call it.

    Callers on several threads may overlap: the first one in sets the limit, the last one out
    lifts it, so that no caller restores what another one had set.
    """
    global _inside, _inherited, _lift
    with _in_control():
        if _inside == 0:
            # Set in a forked child too, which need not have what its parent had set.
            limit = _controller().limit(limits=1, user_api="blas")
            _lift = _lift if _inherited else limit
        _inherited = False
        _inside += 1
    try:
        yield
    finally:
        with _in_control():
            _inside = max(0, _inside - 1)  # 0 already in a child that was forked in here
            if _inside == 0:
                _lift.restore_original_limits()


@contextmanager
def one_thread() -> Iterator[None]:
    """As `limit_threads(1)`, for callers on several threads whose blocks overlap.

    Examples
    --------
    >>> with one_thread():
    ...     thread_count()
    1
    """
    token = _limit.set(1)
    try:
        with single_threaded_blas():
            yield
    finally:
        _limit.reset(token)


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
_inside = 0
_inherited = False  # whether `_lift` is that of a parent that forked in here
_lift: Any = None


@contextmanager
def _in_control() -> Iterator[None]:
    """BLAS listens to this thread inside the block.

    Newer versions of threadpoolctl give OpenBLAS to the thread that first set a limit, and
    ignore all others for as long as that one lives: ours could neither set nor lift theirs.
    """
    with _blas_lock:
        _let_go()
        try:
            yield
        finally:
            _let_go()


def _let_go() -> None:
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def for_each_chunk(
    work: Callable[[slice], None], n_items: int, chunk: int, *, blas: bool = False
) -> None:
    """Call `work` on slices that cover `n_items`, on several threads; each takes the next one.

    A slice has at most `chunk` items. The caller works too, so it waits for nobody but those who
    have begun, and does everything where no thread can be had: while the interpreter ends, say.
    `blas`: whether `work` calls BLAS, which then has one thread in each of ours.

    Examples
    --------
    >>> done = []
    >>> for_each_chunk(done.append, 5, 2)
    >>> sorted(part.start for part in done)
    [0, 2, 4]
    """
    if blas:
        with one_thread_each(n_items, chunk):
            return for_each_chunk(work, n_items, chunk)
    if 0 < n_items <= chunk:
        return work(slice(0, n_items))
    chunk = _even(n_items, chunk, thread_count())
    chunks = -(-n_items // chunk)
    threads = min(thread_count(), chunks)
    numbers = itertools.count()
    failed: list[bool] = []

    def take_chunks() -> None:
        try:
            while not failed and (number := next(numbers)) < chunks:
                work(slice(number * chunk, min((number + 1) * chunk, n_items)))
        except BaseException:
            failed.append(True)
            raise

    if threads <= 1:
        take_chunks()
        return
    helpers = [_Helper(take_chunks) for _ in range(threads - 1)]
    try:
        _ask(helpers)
        take_chunks()
    finally:
        # A helper that never began (other callers keep the pool busy) has nothing left to do.
        begun = [helper for helper in helpers if not helper.take()]
        for helper in begun:
            helper.done.acquire()
    for helper in begun:
        if helper.error is not None:
            raise helper.error


class _Helper:
    """Work that a thread may take over, once, and what became of it.

    Made of locks alone, which are taken in one step: an interrupt inside the futures and conditions
    of the standard library can leave one locked for good, and whoever asks next waits for ever.
    """

    __slots__ = ("begun", "done", "error", "work")

    def __init__(self, work: Callable[[], None]) -> None:
        self.work, self.error = work, cast("BaseException | None", None)
        self.begun, self.done = threading.Lock(), threading.Lock()
        self.done.acquire()

    def take(self) -> bool:
        """Whether nobody had taken it: a thread to do it, or its owner to have it left."""
        return self.begun.acquire(blocking=False)

    def run(self) -> None:
        """Do it, unless it was taken back."""
        if self.take():
            try:
                self.work()
            except BaseException as error:  # handed over, not swallowed
                self.error = error
            finally:
                self.done.release()


class _Pool:
    """Threads that wait for work; one more is started where none is idle."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[_Helper] = SimpleQueue()
        self.idle: list[None] = []  # one entry per thread that waits
        self.started: list[None] = []

    def submit(self, helper: _Helper) -> None:
        """Queue work; a RuntimeError where the system has no thread left."""
        self.tasks.put(helper)
        if self.idle:
            with suppress(IndexError):  # another caller may be faster
                self.idle.pop()
                return
        if len(self.started) < max(64, _available()):
            # Not by `threading`: its conditions, too, stay locked where an interrupt comes.
            _thread.start_new_thread(self._serve, ())
            self.started.append(None)

    def _serve(self) -> None:
        while True:
            self.tasks.get().run()
            self.idle.append(None)


def _ask(helpers: list[_Helper]) -> None:
    """Have threads of the pool take the work over, as many as can be had."""
    # RuntimeError: the interpreter is ending, or the system has no thread left.
    with suppress(RuntimeError):
        for helper in helpers:
            _pool().submit(helper)


def _even(n_items: int, chunk: int, threads: int) -> int:
    """A chunk, not above the given one, of which each thread gets about as many as the others.

    Multiples of eight stay so: the kernels take eight rows at a time.

    Examples
    --------
    >>> _even(1351, 256, 2), _even(300, 256, 2), _even(5, 2, 2)
    (232, 256, 2)
    """
    chunks = -(-n_items // chunk)
    if chunks <= threads:
        return chunk
    turns = -(-chunks // threads)
    even = -(-n_items // (threads * turns))
    return min(chunk, -(-even // 8) * 8 if chunk % 8 == 0 else even)


def _default_count() -> int:
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    most = _available()
    return max(1, min(most, int(wanted))) if wanted.isdecimal() and int(wanted) else most


@cache
def _available() -> int:
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


@cache
def _pool() -> _Pool:
    return _Pool()


def _start_anew() -> None:
    """In a forked child: threads do not survive a fork, nor does what they were about to undo."""
    global _blas_lock, _inside, _inherited
    _pool.cache_clear()
    _blas_lock = threading.RLock()
    _inside, _inherited = 0, _inside > 0 or _inherited


if hasattr(os, "register_at_fork"):
    # The lock is held meanwhile: BLAS stops its threads for a fork, and hangs if told to start
    # some just then.
    os.register_at_fork(
        before=lambda: _blas_lock.acquire(),
        after_in_parent=lambda: _blas_lock.release(),
        after_in_child=_start_anew,
    )

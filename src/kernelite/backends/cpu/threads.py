"""How work is given to threads.

Kernels take any number of rows in one call, without the interpreter's lock. `share_rows` gives a
kernel's rows to threads that wait inside compiled code. Kernels of sparse rows are called once or
twice per thread by `share_out`; votes and values of several outputs go block by block through
`map_blocks`, in which a thread does everything that is done with a block. Threads live as long as
the process. Callers on several threads share the cores: whoever comes while they are all at work
does its own work alone.
"""

from __future__ import annotations

import _thread
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from kernelite.backends.cpu import limits
from kernelite.backends.cpu.limits import (
    limit_here,
    limit_threads,
    one_thread,
    one_thread_each,
    single_threaded_blas,
    thread_count,
)

__all__ = [
    "for_each_chunk",
    "limit_threads",
    "map_blocks",
    "one_thread",
    "one_thread_each",
    "share_out",
    "share_rows",
    "single_threaded_blas",
    "thread_count",
]

QUICK_ROWS = 128  # where so many or more are worth a thread, less work than that is little
LITTLE = 16  # elsewhere, so many times fewer rows than are worth a thread
TURNS = 16  # in which a thread takes its rows, so that those which begin late take fewer
FEW_TURNS = 2  # likewise, of little work: each piece cuts a group of open rows
KEPT_PER_THREAD = 8  # times as many rows as are held: what threads do with the lock kept
SHARES = 1.5  # of what is left, per thread, that the next one takes: more even, but more calls


def share_out(work: Callable[[slice], None], n_items: int, least: int) -> None:
    """Call `work` on few, large slices that cover `n_items`, on several threads.

    For kernels that take any number of rows in one call. Each thread takes a share of what is
    left when it comes, with `least` items or more, so that all end together although they begin
    one after the other. Slices are multiples of eight, since kernels take eight rows at a time.

    Examples
    --------
    >>> done = []
    >>> share_out(done.append, 5, 100)
    >>> done
    [slice(0, 5, None)]
    """
    threads = min(_free(), n_items // max(least, 1))
    if threads <= 1:
        work(slice(0, n_items))
        return
    slices = _shrinking(n_items, threads, least)
    _on_threads(lambda number: work(slices[number]), len(slices))


def _shrinking(n_items: int, threads: int, least: int) -> list[slice]:
    """Slices in the order in which they are taken: a share of what is left, then of the rest.

    Examples
    --------
    >>> [part.stop - part.start for part in _shrinking(1000, 2, 100)]
    [336, 224, 152, 104, 104, 80]
    """
    slices, start = [], 0
    while start < n_items:
        share = max((n_items - start) / (SHARES * threads), least)
        stop = min(start + -(-int(share) // 8) * 8, n_items)
        slices.append(slice(start, stop))
        start = stop
    return slices


def share_rows(
    kernel: Any, n_rows: int, least: int, *arguments: Any, held: int | None = None
) -> None:
    """Call a kernel that is declared with `by_row` on all its rows, on all threads at once.

    A thread takes `least` rows or more at a time. The threads wait and take rows inside compiled
    code (`kernels.pool`): Python is not asked between. Up to `held` rows, some twenty or forty
    microseconds of work, keep the interpreter's lock: if other threads want it, to hand it over and
    to get it back takes longer. Where `held` is given, its time is known. Then calls that all
    threads finish in a few times as long keep the lock too, and so do those that have one core
    anyway: callers take turns, each with all threads. Little work wakes few threads; those still
    awake from the last call take part. Calls that give the lock up count as at work, even with one
    thread, so that callers who come meanwhile ask for fewer.
    """
    known = held is not None
    if held is None:  # few rows that are worth a thread may take any time
        held = least - 1 if least >= QUICK_ROWS else least // LITTLE
    if n_rows <= held and (n_rows < 2 * least or n_rows <= held // 4):
        kernel.shared(-1, 0, 0, *arguments)  # a single row would feel the questions that follow
        return
    threads = 1 if n_rows < 2 * least else min(_free(), n_rows // max(least, 1))
    if threads > 1:
        from kernelite.backends.cpu.kernels.pool import ensure_helpers

        threads = 1 + ensure_helpers(threads - 1)
    together = known and (threads > 1 or limits.available() == 1)
    if n_rows <= (KEPT_PER_THREAD * threads * held if together else held):
        step = max(least, n_rows // (FEW_TURNS * threads))
        woken = min(threads, 2 * n_rows // held) - 1
        kernel.shared(-threads, woken, -(-step // 8) * 8, *arguments)
        return
    mine = object()
    try:
        _at_work[mine] = threads
        if threads <= 1:
            kernel.alone(*arguments)
        else:
            step = max(least, n_rows // (TURNS * threads))
            kernel.shared(threads - 1, threads - 1, -(-step // 8) * 8, *arguments)
    finally:
        _at_work.pop(mine, None)


def for_each_chunk(
    work: Callable[[slice], None], n_items: int, chunk: int, *, blas: bool = False
) -> None:
    """Call `work` on slices that cover `n_items`, on several threads; each takes the next one.

    For work that needs room for each item, which is bounded by slices of at most `chunk` items.
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
    count = -(-n_items // chunk)
    _on_threads(lambda i: work(slice(i * chunk, min((i + 1) * chunk, n_items))), count)


Result = TypeVar("Result")


def map_blocks(function: Callable[[slice], Result], blocks: Sequence[slice]) -> list[Result]:
    """What a function makes of each block, in their order; threads take whole blocks.

    Inside the function there is one thread, for our kernels and for BLAS. Blocks are begun in
    order, and of several that fail the first one's error is raised.

    Examples
    --------
    >>> map_blocks(lambda block: block.stop, [slice(0, 3), slice(3, 5)])
    [3, 5]
    """
    if len(blocks) <= 1 or thread_count() <= 1:
        return [function(block) for block in blocks]
    found: dict[int, Result] = {}
    errors: dict[int, Exception] = {}

    def take(number: int) -> None:
        if errors:
            return
        try:
            with limit_here(1):
                found[number] = function(blocks[number])
        except Exception as error:
            errors[number] = error

    with single_threaded_blas():
        _on_threads(take, len(blocks))
    if errors:
        raise errors[min(errors)]
    return [found[number] for number in range(len(blocks))]


_at_work: dict[object, int] = {}  # threads that each caller or helper has been given work for


def _free() -> int:
    """Threads that a caller may use: one at least, no more than cores are free.

    Nor more than its share of all cores: others who are between two calls will be back before
    threads that were asked for have begun, and then all would wait for each other.
    """
    limit = thread_count()
    if limit <= 1:
        return limit
    cores, busy = limits.available(), list(_at_work.values())
    return max(1, min(limit, cores - sum(busy), cores // (1 + len(busy))))


def _on_threads(work: Callable[[int], None], count: int) -> None:
    """Call `work` with each number below `count`, on the threads that are free.

    The caller works too, so it waits for nobody but those who have begun, and does everything
    where no thread can be had: while the interpreter ends, say.
    """
    if thread_count() <= 1:
        for number in range(count):
            work(number)
        return
    threads = min(_free(), count)
    numbers = iter(range(count))  # `next` of it is one step: no two threads get the same
    failed: list[bool] = []

    def take_numbers() -> None:
        mine = object()
        try:
            _at_work[mine] = 1
            for number in numbers:
                if failed:
                    return
                work(number)
        except BaseException:
            failed.append(True)
            raise
        finally:
            _at_work.pop(mine, None)

    if threads <= 1:
        take_numbers()
        return
    helpers = [_Helper(take_numbers) for _ in range(threads - 1)]
    try:
        _ask(helpers)
        take_numbers()
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
        if len(self.started) < max(64, limits.available()):
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


@cache
def _pool() -> _Pool:
    return _Pool()


def _start_anew() -> None:
    """In a forked child: threads do not survive a fork."""
    _pool.cache_clear()
    _at_work.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)

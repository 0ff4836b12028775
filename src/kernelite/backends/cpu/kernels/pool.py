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
from kernelite.backends.cpu.kernels.objects import OBJECTS, POOL, SERVER, SHARE, TABLE, WORDS

__all__ = ["ensure_helpers", "pool_text"]


def ensure_helpers(count: int) -> int:
    """Have at least so many threads wait for work; how many there are, which may be fewer.

    There are none but on Linux: other systems have no semaphores in a program's own memory.
    """
    if sys.platform != "linux":
        return 0
    if len(_started) >= count:  # asked without the lock: who waits for it gives Python's up as well
        return count
    with _starting:
        while len(_started) < count:
            try:
                _thread.start_new_thread(_serve(), ())
            except RuntimeError:  # the interpreter is ending, or the system has no thread left
                break
            _started.append(None)
        return min(len(_started), count)


_started: list[None] = []  # one entry per thread
_starting = _thread.RLock()  # a signal's handler may predict, in the thread that holds it


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
    _starting = _thread.RLock()


if sys.platform == "linux":
    _begin_anew()  # while this is imported, which one thread does: no call can be under way
    os.register_at_fork(after_in_child=_begin_anew)


# In LLVM's instructions: what the threads run, `kernelite_serve`, and what shares work with them.

WATCHED_NANOSECONDS = 50_000  # about what it takes to have a thread woken
_MONOTONIC = 1  # the number of Linux's clock

# A helper that takes one of the tickets runs the function, and is counted when it has finished.
# When the caller has done its part, it takes back the tickets that are left, and waits for as many
# helpers as took one. Threads lower the number of tickets without asking first, so it may fall
# below none.
#
# To wake a thread takes as long as little work does. So a helper without work watches the tickets
# for a while before it sleeps, and whoever calls again meanwhile finds it awake; the caller watches
# for the last ones as long, before it says that it sleeps, and has itself woken. Who is about to
# sleep is counted first and looks once more: a caller takes a sleeper off that count before it
# posts, so that each post wakes one, and none is lost. A helper that finds a ticket after all takes
# itself off; if a caller was faster, its post is there. A signal may end a wait early, and so may a
# helper that finished before its caller slept: both look again.
_POOL_TEXT = """
@{table} = external global [{entries} x i64]

define internal i64 @now(ptr %clock) {{
start:
  %time = alloca [2 x i64]
  %told = call i32 %clock(i32 {monotonic}, ptr %time)
  %seconds = load i64, ptr %time
  %rest_at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %found = add i64 %whole, %rest
  ret i64 %found
}}

define void @{server}() {{
start:
{known}
  %one_more = atomicrmw add ptr %started, i64 1 seq_cst
  br label %look
look:
  %left = load atomic i64, ptr %tickets seq_cst, align 8
  %any = icmp sgt i64 %left, 0
  br i1 %any, label %take, label %idle
take:
  %found = atomicrmw sub ptr %tickets, i64 1 seq_cst
  %taken = icmp sgt i64 %found, 0
  br i1 %taken, label %run, label %idle
run:
  %called = load ptr, ptr %function
  %argument = load ptr, ptr %given
  call void %called(ptr %argument)
  %before = atomicrmw add ptr %finished, i64 1 seq_cst
  %listening = load atomic i64, ptr %listens seq_cst, align 8
  %heard = icmp ne i64 %listening, 0
  br i1 %heard, label %tell, label %look
tell:
  %told = call i32 %post(ptr %done)
  br label %look
idle:
  %begun = call i64 @now(ptr %clock)
  br label %watch
watch:
  %seen = load atomic i64, ptr %tickets seq_cst, align 8
  %some = icmp sgt i64 %seen, 0
  br i1 %some, label %take, label %older
older:
  %time = call i64 @now(ptr %clock)
  %age = sub i64 %time, %begun
  %tired = icmp sgt i64 %age, {watched}
  br i1 %tired, label %drowsy, label %watch
drowsy:
  %sleeping = atomicrmw add ptr %sleepers, i64 1 seq_cst
  %last = load atomic i64, ptr %tickets seq_cst, align 8
  %late = icmp sgt i64 %last, 0
  br i1 %late, label %rise, label %sleep
rise:
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %counted = icmp sgt i64 %asleep, 0
  br i1 %counted, label %leave, label %sleep
leave:
  %others = sub i64 %asleep, 1
  %risen = cmpxchg ptr %sleepers, i64 %asleep, i64 %others seq_cst seq_cst
  %up = extractvalue {{ i64, i1 }} %risen, 1
  br i1 %up, label %take, label %rise
sleep:
  %failed = call i32 %wait(ptr %work)
  %woken = icmp eq i32 %failed, 0
  br i1 %woken, label %look, label %sleep
}}

define {linkage} void @{share}(ptr %called, ptr %argument, i64 %helpers, i64 %most_woken) {{
start:
{known}
  %tried = cmpxchg ptr %busy, i64 0, i64 1 seq_cst seq_cst
  %free = extractvalue {{ i64, i1 }} %tried, 1
  br i1 %free, label %together, label %alone
alone:
  call void %called(ptr %argument)
  ret void
together:
  store ptr %called, ptr %function
  store ptr %argument, ptr %given
  store atomic i64 0, ptr %finished seq_cst, align 8
  store atomic i64 %helpers, ptr %tickets seq_cst, align 8
  %all_threads = load atomic i64, ptr %started seq_cst, align 8
  %unused = load atomic i64, ptr %sleepers seq_cst, align 8
  %awake = sub i64 %all_threads, %unused
  %lacking = sub i64 %helpers, %awake
  %less = icmp slt i64 %lacking, %most_woken
  %wanted = select i1 %less, i64 %lacking, i64 %most_woken
  br label %more
more:
  %i = phi i64 [ 0, %together ], [ %i, %claim ], [ %next, %wake ]
  %enough = icmp sge i64 %i, %wanted
  br i1 %enough, label %work_on, label %whom
whom:
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %some = icmp sgt i64 %asleep, 0
  br i1 %some, label %claim, label %work_on
claim:
  %others = sub i64 %asleep, 1
  %asked = cmpxchg ptr %sleepers, i64 %asleep, i64 %others seq_cst seq_cst
  %claimed = extractvalue {{ i64, i1 }} %asked, 1
  br i1 %claimed, label %wake, label %more
wake:
  %told = call i32 %post(ptr %work)
  %next = add i64 %i, 1
  br label %more
work_on:
  call void %called(ptr %argument)
  %found = atomicrmw xchg ptr %tickets, i64 0 seq_cst
  %too_few = icmp slt i64 %found, 0
  %left = select i1 %too_few, i64 0, i64 %found
  %begun = sub i64 %helpers, %left
  %since = call i64 @now(ptr %clock)
  br label %expect
expect:
  %ended = load atomic i64, ptr %finished seq_cst, align 8
  %all = icmp sge i64 %ended, %begun
  br i1 %all, label %free_again, label %younger
younger:
  %time = call i64 @now(ptr %clock)
  %age = sub i64 %time, %since
  %tired = icmp sgt i64 %age, {watched}
  br i1 %tired, label %listen, label %expect
listen:
  store atomic i64 1, ptr %listens seq_cst, align 8
  br label %still
still:
  %by_now = load atomic i64, ptr %finished seq_cst, align 8
  %last = icmp sge i64 %by_now, %begun
  br i1 %last, label %heard, label %hear
hear:
  %failed = call i32 %wait(ptr %done)
  br label %still
heard:
  store atomic i64 0, ptr %listens seq_cst, align 8
  br label %free_again
free_again:
  store atomic i64 0, ptr %busy seq_cst, align 8
  ret void
}}
"""
_FUNCTIONS = {"wait": "sem_wait", "post": "sem_post"}
_FUNCTIONS |= {"pool": "pool", "clock": "clock_gettime"}  # as the text calls what the table holds


def pool_text(linkage: str = "") -> str:
    """LLVM's text of the pool."""
    table = f"[{len(OBJECTS)} x i64], ptr @{TABLE}, i64 0, i64"
    known = [
        f"  %{name} = load ptr, ptr getelementptr ({table} {OBJECTS.index(of)})"
        for name, of in _FUNCTIONS.items()
    ]
    known += [f"  %{name} = getelementptr i64, ptr %pool, i64 {at}" for name, at in WORDS.items()]
    names = {"table": TABLE, "entries": len(OBJECTS), "server": SERVER, "share": SHARE}
    names |= {"monotonic": _MONOTONIC, "watched": WATCHED_NANOSECONDS}
    return _POOL_TEXT.format(linkage=linkage, known="\n".join(known), **names)

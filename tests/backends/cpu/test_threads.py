"""Thread counts, limits, and work handed out in chunks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from kernelite.backends.cpu import limits, threads
from kernelite.backends.cpu.threads import (
    for_each_chunk,
    limit_threads,
    single_threaded_blas,
    thread_count,
)
from kernelite.support.errors import InputError
from tests.helpers import PATIENCE

AVAILABLE = limits.available


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "available", lambda: 4)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def _two_threads_of_blas() -> Iterator[None]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, user_api="blas"):
        yield


def blas_threads() -> set[int]:
    from threadpoolctl import threadpool_info

    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize(("n_jobs", "count"), [(None, 4), (1, 1), (7, 7), (-1, 4), (-2, 3)])
def test_thread_count(n_jobs: int | None, count: int) -> None:
    assert thread_count(n_jobs) == count


@pytest.mark.parametrize(
    ("content", "quota"),
    [("max 100000\n", np.inf), ("150000 100000\n", 1.5), ("-1\n100000\n", np.inf), ("", np.inf)],
)
def test_quota_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, quota: float
) -> None:
    (tmp_path / "cpu.max").write_text(content)
    monkeypatch.setattr(limits, "_QUOTA_FILES", ((str(tmp_path / "cpu.max"),), ("nowhere",)))
    assert limits._quota() == quota


def test_cores_of_this_process() -> None:
    assert 1 <= AVAILABLE() <= (os.cpu_count() or 1)


def test_more_negative_than_cores_is_one() -> None:
    assert thread_count(-9) == 1


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_bad_n_jobs(n_jobs: object) -> None:
    with pytest.raises(InputError, match="`n_jobs` must be a positive or negative integer"):
        thread_count(n_jobs)  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "count"), [("3", 3), ("2,1", 2), ("9", 4), ("", 4), ("x", 4)])
def test_omp_num_threads_lowers_the_default(
    monkeypatch: pytest.MonkeyPatch, value: str, count: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert thread_count() == count


def test_limits_nest_reach_blas_and_end() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas_threads()
    with limit_threads(2):
        assert thread_count() == 2
        with limit_threads(1):
            assert thread_count() == 1
            assert blas_threads() == {1}
        with limit_threads(None) as same:
            assert same == 2
        assert thread_count() == 2
    assert blas_threads() == before
    assert thread_count() == 4


def test_a_plain_call_limits_until_the_next_one() -> None:
    before = blas_threads()

    def plainly() -> None:
        limit_threads(1)
        seen.append((thread_count(), blas_threads()))
        with limit_threads(2) as inside, limit_threads(None) as same:
            seen.append((inside, same, thread_count(), blas_threads()))
        seen.append((thread_count(), blas_threads()))
        limit_threads(3)
        seen.append((thread_count(), blas_threads() == before))
        limit_threads(1)

    seen: list[tuple[object, ...]] = []
    own = threading.Thread(target=plainly)
    own.start()
    own.join()
    assert seen == [(1, {1}), (2, 2, 2, {2}), (1, {1}), (3, True)]
    assert thread_count() == 4
    with limit_threads(4):
        assert blas_threads() == before  # nobody is left who asked for one thread
    assert not limits._asked


def test_a_limit_of_our_kernels_leaves_blas_and_ends_with_its_block() -> None:
    before = blas_threads()
    with limits.limit_here(2):
        assert (thread_count(), blas_threads()) == (2, before)
        with limit_threads(1):
            assert (thread_count(), blas_threads()) == (1, {1})
        assert (thread_count(), blas_threads()) == (2, before)
    assert thread_count() == 4


def test_a_limit_may_be_used_again_and_decorates() -> None:
    twice = limit_threads(1)
    for _ in range(2):
        with twice:
            assert thread_count() == 1
        assert thread_count() == 4

    @limit_threads(2)
    def limited(more: int) -> int:
        return thread_count() + more

    assert thread_count() == 4
    assert (limited(10), limited(more=20), thread_count()) == (12, 22, 4)
    assert limit_threads(None)(thread_count)() == 4


def test_a_limit_in_force_may_be_entered_again() -> None:
    before, one = blas_threads(), limit_threads(1)
    with one:
        with one:
            assert (thread_count(), blas_threads()) == (1, {1})
        assert (thread_count(), blas_threads()) == (1, {1})
        limit_threads(3)
        with one:
            assert thread_count() == 1
        assert thread_count() == 3
    assert (thread_count(), blas_threads()) == (4, before)


def test_several_threads_may_enter_one_limit() -> None:
    """A server's, say, which was made by the thread that started the others."""
    before, one, seen = blas_threads(), limit_threads(1), list[tuple[object, ...]]()

    def served() -> None:
        with one:
            seen.append((thread_count(), blas_threads()))
        seen.append((thread_count(),))

    for _ in range(2):
        own = threading.Thread(target=served)
        own.start()
        own.join()
    assert seen == [(1, {1}), (4,)] * 2
    assert (thread_count(), blas_threads()) == (1, {1})  # of this thread it is in force
    with one:
        assert thread_count() == 1
    assert (thread_count(), blas_threads()) == (4, before)


@pytest.mark.parametrize("n_jobs", [0, "2"])
def test_a_bad_limit_changes_nothing(n_jobs: object) -> None:
    with pytest.raises(InputError, match="`n_jobs`"):
        limit_threads(n_jobs)  # type: ignore[arg-type]
    assert thread_count() == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_keeps_the_limit_of_its_thread() -> None:
    with limit_threads(1):
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)
            with single_threaded_blas():
                pass
            os._exit(0 if blas_threads() == {1} and thread_count() == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_limit_holds_for_its_own_thread_only() -> None:
    seen: list[int] = []
    with limit_threads(1):
        other = threading.Thread(target=lambda: seen.append(thread_count()))
        other.start()
        other.join()
    assert seen == [4]


@pytest.mark.parametrize("n_items", [0, 1, 9, 10, 11, 1000])
def test_every_item_once(n_items: int) -> None:
    counts = np.zeros(n_items, dtype=int)

    def work(part: slice) -> None:
        counts[part] += 1

    for_each_chunk(work, n_items, 10)
    assert (counts == 1).all()


def test_several_threads_take_part() -> None:
    barrier = threading.Barrier(4, timeout=PATIENCE)
    for_each_chunk(lambda part: barrier.wait() and None, 4, 1)
    assert not barrier.broken


def test_an_error_of_any_thread_is_raised() -> None:
    def work(part: slice) -> None:
        if part.start <= 70 < part.stop:
            raise KeyError("seventy")

    with pytest.raises(KeyError, match="seventy"):
        for_each_chunk(work, 100, 10)


def test_callers_on_many_threads() -> None:
    totals: list[int] = []

    def call() -> None:
        parts: list[int] = []
        for_each_chunk(lambda part: parts.append(part.stop - part.start), 500, 3)
        totals.append(sum(parts))

    callers = [threading.Thread(target=call) for _ in range(12)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert totals == [500] * 12


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_starts_its_own_threads() -> None:
    for_each_chunk(lambda part: None, 8, 1)
    child = os.fork()
    if child == 0:
        done: list[int] = []
        for_each_chunk(lambda part: done.append(part.start), 8, 1)
        os._exit(0 if sorted(done) == list(range(8)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_blas_is_limited_lifts_that() -> None:
    with limits._blas_lock:  # as if another caller were just setting it
        child = os.fork()
        if child == 0:
            signal.alarm(600)  # what would wait for ever ends the child
            with single_threaded_blas():
                pass
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    before = blas_threads()
    with single_threaded_blas():
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)
            with single_threaded_blas():
                inside = blas_threads()
            os._exit(0 if inside == {1} and blas_threads() == before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_any_thread_sets_and_lifts_the_limit_of_blas() -> None:
    before = blas_threads()
    inside: list[set[int]] = []
    entered, leave = threading.Event(), threading.Event()

    def enter() -> None:
        with single_threaded_blas():
            inside.append(blas_threads())
            entered.set()
            leave.wait(PATIENCE)
        with limit_threads(1):
            inside.append(blas_threads())

    with single_threaded_blas():  # threadpoolctl listens to this thread from now on
        pass
    first = threading.Thread(target=enter)
    first.start()
    assert entered.wait(PATIENCE)
    with single_threaded_blas():  # and this one is the last one out
        leave.set()
        first.join()
    assert inside == [{1}, {1}]
    assert blas_threads() == before


FORKS = """
import os, signal, threading, time
import numpy as np
import kernelite as kl

rng = np.random.default_rng(0)
machine = kl.KernelExpansion(rng.normal(size=(2000, 60)), rng.normal(size=2000), 0.1, gamma=0.1)
model, rows = kl.compile(machine, guarantee="exact"), rng.normal(size=(2000, 60))
expected = model.predict(rows)

def predict_on():
    while True:
        model.predict(rows)

for _ in range(3):
    threading.Thread(target=predict_on, daemon=True).start()
for _ in range(4):
    time.sleep(0.05)
    child = os.fork()
    if child == 0:
        signal.alarm(600)  # what would wait for ever ends the child
        os._exit(0 if np.allclose(model.predict(rows), expected) else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_forked_while_threads_predict() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["0"] * 4, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_sets_the_limit_of_blas_itself() -> None:
    from threadpoolctl import threadpool_limits

    before = blas_threads()
    with single_threaded_blas():
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)
            threadpool_limits(3)  # as BLAS does when it starts its threads again
            with single_threaded_blas():
                inside = blas_threads()
            os._exit(0 if inside == {1} and blas_threads() == before else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


LATE = """
import atexit, sys, threading, time
import numpy as np
import kernelite as kl

rng = np.random.default_rng(0)
machine = kl.KernelExpansion(rng.normal(size=(200, 6)), rng.normal(size=200), 0.1, gamma=0.1)
model, rows = kl.compile(machine, guarantee="exact"), rng.normal(size=(8000, 6))
expected = model.predict(rows)

def late():
    threading.main_thread().join()  # ends before the threads of the pool do
    time.sleep(0.2)
    print(np.array_equal(model.predict(rows), expected))

def predict_on():
    while True:
        model.predict(rows)

if sys.argv[1] == "atexit":
    atexit.register(lambda: print(np.array_equal(model.predict(rows), expected)))
elif sys.argv[1] == "thread":
    threading.Thread(target=late).start()
else:
    for _ in range(4):
        threading.Thread(target=predict_on, daemon=True).start()
    time.sleep(0.3)
    print(True)
"""


@pytest.mark.parametrize("when", ["atexit", "thread", "daemon"])
def test_predicting_while_the_interpreter_ends(when: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE, when], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_the_caller_does_all_where_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = threads._Pool()
    monkeypatch.setattr(threads, "_pool", lambda: pool)

    def start(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    done: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(threads._thread, "start_new_thread", start)
        for_each_chunk(lambda part: done.append(part.start), 8, 1)
    assert sorted(done) == list(range(8))
    for_each_chunk(lambda part: None, 8, 1)  # threads are there again
    assert sorted(done) == list(range(8))  # what was queued had been taken back


INTERRUPTED = """
import _thread, signal, threading, time
from kernelite.backends.cpu import limits, threads
from kernelite.backends.cpu.threads import for_each_chunk
limits.available = lambda: 3
inside, interrupted, enough = [], [], 50
def interrupt(*_):
    if inside:  # once per round
        inside.clear()
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
def disturb():
    while len(interrupted) < enough:
        time.sleep(0.0003)
        _thread.interrupt_main()
disturber = threading.Thread(target=disturb)
disturber.start()
while len(interrupted) < enough:
    try:
        inside.append(True)
        for_each_chunk(lambda part: None, 64, 1)
        inside.clear()
    except KeyboardInterrupt:
        interrupted.append(True)
disturber.join()
done = []
for_each_chunk(lambda part: done.append(part.start), 64, 1)
print(sorted(done) == list(range(64)))
"""


def test_interrupts_leave_no_lock_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize(("cores", "most"), [(4, 64), (80, 80)])
def test_a_pool_has_no_more_threads_than_it_may(
    cores: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(limits, "available", lambda: cores)
    monkeypatch.setattr(threads._thread, "start_new_thread", lambda *_: started.append(_))
    pool = threads._Pool()
    for _ in range(200):
        pool.submit(threads._Helper(lambda: None))
    assert len(started) == most
    assert pool.tasks.qsize() == 200
    pool.idle.append(None)
    pool.submit(threads._Helper(lambda: None))
    assert not pool.idle


def test_an_error_of_a_helper_alone_is_raised() -> None:
    both, caller = threading.Barrier(2), threading.get_ident()

    def work(part: slice) -> None:
        both.wait(PATIENCE)
        if threading.get_ident() != caller:
            raise ValueError("in a helper")

    with limit_threads(2), pytest.raises(ValueError, match="in a helper"):
        for_each_chunk(work, 2, 1)


def test_nobody_returns_before_those_who_have_begun() -> None:
    both, caller = threading.Barrier(2), threading.get_ident()
    returned, done = threading.Event(), []

    def work(part: slice) -> None:
        both.wait(PATIENCE)
        if threading.get_ident() != caller:
            done.append(returned.wait(0.3))

    with limit_threads(2):
        for_each_chunk(work, 2, 1)
    returned.set()
    assert done == [False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_helpers_again() -> None:
    """Those that idled in its parent are not there."""
    while not threads._pool().idle:
        for_each_chunk(lambda part: None, 64, 1)
    child = os.fork()
    if child == 0:
        both, code = threading.Barrier(2), 1
        with suppress(threading.BrokenBarrierError), limit_threads(2):
            for_each_chunk(lambda part: both.wait(PATIENCE / 20) and None, 2, 1)
            code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

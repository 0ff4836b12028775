"""Rows given to threads inside compiled code: each row once, whoever takes it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from kernelite.backends.cpu import limits, threads
from kernelite.backends.cpu.kernels import objects, pool
from kernelite.backends.cpu.kernels.compiling import Matrix, OutLongs, OutVector, Vector, kernel
from kernelite.backends.cpu.kernels.providers import jit_available
from kernelite.backends.cpu.threads import limit_threads, share_rows
from tests.helpers import PATIENCE

pytestmark = pytest.mark.skipif(not jit_available(), reason="no kernels here")


@kernel(by_row=("rows", "out", "pieces", "unused"))
def sums_of_rows(
    rows: Matrix, weights: Vector, out: OutVector, pieces: OutLongs, unused: OutVector
) -> None:
    """out += w.z; the first row of each call gets the number of its rows, and whether `unused` is.

    Without a name of the package's, so that numba compiles it now.
    """
    pieces[0] = len(rows) + 1_000_000 * len(unused)
    for i in range(len(rows)):
        for j in range(rows.shape[1]):
            out[i] += rows[i, j] * weights[j]


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "available", lambda: 4)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def shared(rows: np.ndarray, least: int) -> tuple[np.ndarray, np.ndarray]:
    out, pieces = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
    share_rows(sums_of_rows, len(rows), least, rows, np.arange(3.0), out, pieces, np.empty(0))
    return out, pieces


@pytest.mark.parametrize("m", [0, 1, 7, 8, 63, 64, 65, 1000, 4001])
def test_every_row_is_taken_once(m: int) -> None:
    rows = np.random.default_rng(m).normal(size=(m, 3))
    for _ in range(20):
        if m:
            out, pieces = shared(rows, 8)
            np.testing.assert_allclose(out, rows @ np.arange(3.0))
            assert pieces.sum() == m


def test_python_is_called_once_and_pieces_are_few() -> None:
    """The old way was a call of Python's per 240 rows."""
    rows, calls = np.ones((100_000, 3)), []
    own = sums_of_rows.shared  # type: ignore[attr-defined]

    class Counted:
        @staticmethod
        def shared(*arguments: object) -> None:
            calls.append(arguments[:3])
            own(*arguments)

    out, pieces = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
    share_rows(Counted, len(rows), 64, rows, np.ones(3), out, pieces, np.empty(0))
    (helpers, woken, step), found = calls[0], pieces[pieces > 0]
    assert len(calls) == 1
    assert helpers == woken == 3
    assert len(found) == -(-len(rows) // int(step)) <= threads.TURNS * 4 + 1  # type: ignore[call-overload]
    assert (out == 3.0).all()


@pytest.mark.parametrize(("rows", "helpers"), [(199, None), (200, 1), (399, 2), (10_000, 3)])
def test_no_thread_is_asked_that_would_have_too_few_rows(rows: int, helpers: int | None) -> None:
    asked: list[int | None] = []

    class Counted:
        @staticmethod
        def shared(helpers: int, *_: object) -> None:
            asked.append(helpers)

        @staticmethod
        def alone(*_: object) -> None:
            asked.append(None)

    share_rows(Counted, rows, 100, held=0)
    assert asked == [helpers]


def test_few_rows_are_one_call_without_threads() -> None:
    _out, pieces = shared(np.ones((50, 3)), 30)
    assert pieces[0] == 50


def test_callers_on_many_threads_and_one_thread() -> None:
    rows = np.random.default_rng(0).normal(size=(5000, 3))
    wanted, wrong = rows @ np.arange(3.0), []

    def call() -> None:
        for _ in range(20):
            if not np.allclose(shared(rows, 16)[0], wanted):
                wrong.append(True)

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong
    assert not threads._at_work
    with limit_threads(1):
        assert shared(rows, 16)[1][0] == len(rows)


@pytest.mark.parametrize(("others", "share"), [([], 4), ([1], 2), ([3], 1), ([1, 1], 1), ([4], 1)])
def test_a_caller_takes_its_share_of_the_cores(
    others: list[int], share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where others have one thread each: they will be back after their calls."""
    monkeypatch.setattr(threads, "_at_work", dict(enumerate(others)))
    assert threads._free() == share


def test_little_work_keeps_the_interpreters_lock_and_one_thread_counts_as_work() -> None:
    rows, asked = np.ones((50, 3)), []

    class Counted:
        @staticmethod
        def shared(helpers: int, woken: int, step: int, *_: object) -> None:
            asked.append((helpers, woken, step, len(threads._at_work)))

        @staticmethod
        def alone(*_: object) -> None:
            asked.append(len(threads._at_work))

    share_rows(Counted, len(rows), 128, rows)
    share_rows(Counted, len(rows), 127, rows)  # each row may take long
    share_rows(Counted, len(rows), 26, rows, held=50)
    share_rows(Counted, 1, 24, rows)
    assert asked == [(-1, 0, 0, 0), 1, (-1, 0, 0, 0), (-1, 0, 0, 0)]
    assert not threads._at_work


def test_threads_share_little_work_with_the_lock_kept_and_few_are_woken() -> None:
    """The old way was one thread up to twice as many rows, and two calls' worth of waking."""
    asked, rows = [], np.ones((1000, 3))

    class Counted:
        @staticmethod
        def shared(*arguments: int) -> None:
            asked.append(arguments[:3])

        @staticmethod
        def alone(*_: object) -> None:
            asked.append((0, 0, 0))

    for m, held in ((100, 448), (112, 448), (200, 448), (1000, 448), (1000, 32), (1000, 31)):
        share_rows(Counted, m, 64, rows, held=held)
    assert asked[:2] == [(-1, 0, 0)] * 2
    # Helpers (with the lock if negative, less one), those to be woken, and rows at a time.
    assert asked[2:] == [(-3, -1, 64), (-4, 3, 128), (-4, 3, 128), (3, 3, 64)]
    share_rows(Counted, 1000, 256, rows)  # each row may take long
    assert asked[6:] == [(2, 2, 256)]
    assert not threads._at_work


def test_one_core_keeps_the_lock_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "available", lambda: 1)
    asked = []

    class Counted:
        @staticmethod
        def shared(*arguments: int) -> None:
            asked.append(arguments[0])

        @staticmethod
        def alone(*_: object) -> None:
            asked.append(0)

    for m in (1000, 2048, 2049):
        share_rows(Counted, m, 64, held=256)
    assert asked == [-1, -1, 0]


@pytest.mark.skipif(sys.platform != "linux", reason="no helpers here")
def test_no_waking_is_lost_or_left_over() -> None:
    """Whoever sleeps is counted, and is posted to once: no helper looks in vain for ever."""
    rows, rng = np.random.default_rng(0).normal(size=(5000, 3)), np.random.default_rng(1)
    wanted = rows @ np.arange(3.0)

    def call(pauses: np.ndarray) -> None:
        for pause, m in zip(pauses, rng.integers(100, 5000, len(pauses))):
            out, pieces = np.zeros(m), np.zeros(m, np.int64)
            given = rows[:m], np.arange(3.0), out, pieces, np.empty(0)
            share_rows(sums_of_rows, m, 16, *given, held=m // 2)  # with the lock
            share_rows(sums_of_rows, m, 16, *given)  # and without
            np.testing.assert_allclose(out, 2.0 * wanted[:m])
            time.sleep(pause)

    callers = [threading.Thread(target=call, args=(1e-4 * rng.random(60),)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    words, value, library = objects.WORDS, ctypes.c_int(-1), ctypes.CDLL(None)
    tried_until = time.monotonic() + PATIENCE
    while objects.POOL[words["sleepers"]] < len(pool._started) and time.monotonic() < tried_until:
        time.sleep(0.001)
    assert objects.POOL[words["sleepers"]] == len(pool._started) > 0
    assert objects.POOL[words["started"]] == len(pool._started)
    assert [objects.POOL[words[name]] for name in ("busy", "listens")] == [0, 0]
    assert objects.POOL[words["tickets"]] <= 0
    library.sem_getvalue(ctypes.byref(objects.POOL, 8 * words["work"]), ctypes.byref(value))
    assert value.value == 0


FIRST_USE = """
import threading
import numpy as np
from kernelite.backends.cpu import limits, threads
limits.available = lambda: 8
from kernelite.machine.expansion import KernelExpansion
from kernelite.backends.cpu.kernels import quadratic_dense
from kernelite.series.series import quadratic_form
one = KernelExpansion(np.eye(3), np.ones(3), 0.0, gamma=0.1)
form, rows = quadratic_dense.prepare(quadratic_form(one, np.zeros(3))), np.ones((30_000, 3))
gate = threading.Barrier(8)

def call():
    gate.wait()
    for _ in range(8):
        quadratic_dense.scores(form, rows)

callers = [threading.Thread(target=call) for _ in range(8)]
for caller in callers: caller.start()
for caller in callers: caller.join()
from kernelite.backends.cpu.kernels import pool
print(len(pool._started))
"""


def test_threads_that_come_first_at_the_same_time_do_not_wait_for_ever() -> None:
    """Each process has one first time; a pool begun anew under a call hung one in three."""
    for _ in range(6):
        command = [sys.executable, "-c", FIRST_USE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) <= 7


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own() -> None:
    rows = np.ones((5000, 3))
    shared(rows, 16)
    assert pool._started
    child = os.fork()
    if child == 0:
        good = not pool._started and (shared(rows, 16)[0] == 3.0).all() and bool(pool._started)
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_failure_in_any_thread_is_a_lack_of_memory() -> None:
    @kernel(name="failing", by_row=("out",))
    def failing(out: OutVector) -> None:
        room = np.empty((1 << 58) // len(out))
        out[0] = room[0]

    with pytest.raises(MemoryError):
        share_rows(failing, 1000, 8, np.zeros(1000))


def test_elsewhere_callers_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert pool.ensure_helpers(3) == 0
    places = dict(zip(objects.OBJECTS, objects.object_table(), strict=True))
    assert places["sem_wait"] is None
    assert places["PyErr_NoMemory"]


def test_as_many_threads_are_started_as_were_ever_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[object] = []
    monkeypatch.setattr(pool, "_started", [])
    monkeypatch.setattr(pool, "_serve", lambda: None)
    monkeypatch.setattr(pool._thread, "start_new_thread", lambda *_: begun.append(_))
    assert [pool.ensure_helpers(count) for count in (0, 2, 1, 3)] == [0, 2, 1, 3]
    assert len(begun) == len(pool._started) == 3

    def none_left(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool._thread, "start_new_thread", none_left)
    assert pool.ensure_helpers(9) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="no helpers here")
def test_a_signals_handler_may_ask_while_threads_are_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It runs in the thread that holds the lock, which waited for itself."""
    begun: list[int] = []

    def start(*_: object) -> None:
        begun.append(len(begun))
        if len(begun) == 1:
            assert pool.ensure_helpers(2) == 2  # as a handler does that predicts

    monkeypatch.setattr(pool, "_started", [])
    monkeypatch.setattr(pool, "_serve", lambda: None)
    monkeypatch.setattr(pool._thread, "start_new_thread", start)
    asking = threading.Thread(target=pool.ensure_helpers, args=(2,), daemon=True)
    asking.start()
    asking.join(PATIENCE)
    assert not asking.is_alive()
    assert len(begun) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="no helpers here")
def test_helpers_that_are_there_are_counted_without_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers who wait for it give the interpreter's lock up: each call was a turn of threads."""

    class Refusing:
        def __enter__(self) -> None:
            raise AssertionError("the lock was asked for")

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(pool, "_started", [None] * 3)
    monkeypatch.setattr(pool, "_starting", Refusing())
    assert [pool.ensure_helpers(count) for count in (1, 3)] == [1, 3]

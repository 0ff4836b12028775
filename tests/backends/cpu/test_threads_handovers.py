"""How often callers on several threads hand the interpreter's lock over, and wake threads.

With the interpreter's own switching off, a thread gets the lock only where another one gives it up.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelite as kl
from kernelite.backends.cpu import limits
from kernelite.backends.cpu.kernels.providers import jit_available
from tests.backends.cpu.test_one_pass import SIDE, X, boundary, with_third_order

pytestmark = pytest.mark.skipif(not jit_available(), reason="no kernels here")

CALLERS, CALLS = 4, 20
ROWS = 1000


@pytest.fixture
def lock_is_kept() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e4)
    yield
    sys.setswitchinterval(before)


def handovers(call: Callable[[], object]) -> int:
    """How often another of several callers goes on, each of which calls many times."""
    ready, order = threading.Barrier(CALLERS), list[int]()

    def caller(number: int) -> None:
        ready.wait()
        for _ in range(CALLS):
            order.append(number)
            call()

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(CALLERS)]
    for one in callers:
        one.start()
    for one in callers:
        one.join()
    assert len(order) == CALLERS * CALLS
    return len(list(itertools.groupby(order))) - CALLERS


@pytest.mark.parametrize("cores", [1, 2, 16])
@pytest.mark.parametrize("kind", ["form", "open rows", "second form", "one row", "small sums"])
def test_callers_of_little_work_take_turns_of_many_calls(
    kind: str, cores: int, lock_is_kept: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gives the lock up may wait for another's turn, which is many calls long: 16 callers
    got half the throughput of one alone when rows went through Python between stages."""
    monkeypatch.setattr(limits, "available", lambda: cores)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if kind == "second form":
        model, _, rows = with_third_order(scaled=False)
        rows = np.resize(rows[10:], (ROWS, X.shape[1]))
    elif kind == "small sums":
        source = SVC(gamma=1.0).fit(X[:50], SIDE[:50])
        model, rows = kl.compile(source, X, guarantee="exact"), X[:200]
    else:
        source = SVC(gamma=0.002, C=20.0).fit(X[:500], SIDE[:500])
        model = kl.compile(source, X, plan="form")
        near = boundary(source, 6)[: ROWS // 50]
        rows = X[: ROWS - len(near)]
        rows = np.concatenate([near, rows]) if kind == "open rows" else rows
        rows = rows[:1] if kind == "one row" else rows
    rows = np.ascontiguousarray(rows)
    model.predict(rows)
    model.predict(rows)
    assert handovers(lambda: model.predict(rows)) == 0


def test_a_caller_that_gives_the_lock_up_is_seen(lock_is_kept: None) -> None:
    """The measure itself."""
    released = threading.Lock()

    def call() -> None:
        with released:
            np.sort(np.arange(100_000)[::-1])

    assert handovers(call) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="no helpers here")
def test_a_thousand_rows_are_one_call_that_wakes_few_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 16 cores, of which all may take part if they are awake; nobody else gets the lock."""
    monkeypatch.setattr(limits, "available", lambda: 16)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(ROWS, 22))
    source = SVC(gamma=0.001, C=10.0).fit(rows[:400], rows[:400].sum(axis=1) > 0.0)
    model, asked = kl.compile(source, rows, plan="form"), list[tuple[int, int, int]]()
    model.predict(rows)
    front: Any = model._runner._passing.front(model._labels, model._for_predict)
    own = front.kernel

    class Counted:
        @staticmethod
        def shared(helpers: int, woken: int, step: int, *given: object) -> None:
            asked.append((helpers, woken, step))
            own.shared(helpers, woken, step, *given)

    front.kernel = Counted
    found = model.predict(rows)
    front.kernel = own
    np.testing.assert_array_equal(found, model.predict(rows))
    ((helpers, woken, step),) = asked
    assert helpers < -1  # with others, the lock kept
    assert woken <= 3
    assert step == 64

"""What every test may rely on, however the suite was started."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, settings

# Threads of BLAS that wait for each other on cores which several processes share take half of them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Examples have no time to be done in: where others work too, one would now and then be late.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_configure() -> None:
    """Take SIGINT again where it is ignored: behind `nohup` and `&`, children inherit that.

    Tests that interrupt a command would otherwise wait for nothing.
    """
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if ignored and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let all tests of one model of the table stand together.

    Processes of a run are given tests in a row, so a model is fitted and compiled in one of them.
    """
    table = sys.modules.get("tests.models")
    if table is None:
        return
    first: dict[str, int] = {}
    places = []
    for number, item in enumerate(items):
        name = item.callspec.params.get("name") if hasattr(item, "callspec") else None
        known = isinstance(name, str) and name in table.MODELS
        places.append(first.setdefault(name, number) if known else number)
    items[:] = [items[i] for i in sorted(range(len(items)), key=places.__getitem__)]


@pytest.fixture(scope="session", autouse=True)
def _plans_by_estimate() -> Iterator[None]:
    """Plans follow from the model, not from how busy the machine is: none is close enough to time.

    That close ones are timed is tested in `tests/planner/test_plan.py`.
    """
    from kernelite.planner import planner

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "CLOSE_RATIO", 0.0)
        yield


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def as_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[Terminal, Terminal]]:
    """Make stdout and stderr terminals; to be called by the test, as pytest swaps them before."""

    def swap() -> tuple[Terminal, Terminal]:
        out, err = Terminal(), Terminal()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        return out, err

    return swap

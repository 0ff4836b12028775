"""A run: chores in turn, a look after each round, a verdict at the end.

It may be done in pieces, each a process of its own, whose state is kept all the while.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelite import __version__
from tests.reliability.runs import keep, kept
from tests.soak.chores import chores, subjects
from tests.soak.watch import Held, growth, held

__all__ = ["soak"]

MOST_LOOKS = 4000
SAVED = 30.0  # seconds between two states


def soak(
    seconds: float,
    *,
    most: int | None = None,
    share: float | None = None,
    state: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Do chores for so long; counts, what is held at the end, and what grew.

    Parameters
    ----------
    seconds : float
        In all, in this and in earlier pieces.
    most : int, optional
        Chores after which it ends earlier.
    share : float, optional
        Of a core, at most, with children: there are pauses. By default there are none.
    state : Path, optional
        Kept all the while; a run of the same version goes on from it.
    tell : callable
    """
    whole = kept(state, {"version": __version__}) or _nothing()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    done: Counter[str] = Counter()
    looks: list[Held] = []
    ready = subjects()
    between = seconds / MOST_LOOKS if most is None else 0.0
    begin, worked = time.monotonic(), _worked()
    last = saved = begin
    try:
        with tempfile.TemporaryDirectory() as folder:
            for number, chore in enumerate(chores()):
                chore(ready[number % len(ready)], Path(folder))
                done[chore.__name__] += 1
                if share is not None:
                    due = begin + (_worked() - worked) / share
                    time.sleep(max(0.0, due - time.monotonic()))
                now = time.monotonic()
                if number % len(ready) == 0 and now - last >= between:
                    looks.append(held())
                    last = now
                    tell(f"{now - begin:.0f} s: {done.total()} chores, {looks[-1]}")
                if now - saved >= SAVED and looks:
                    keep(state, _joined(whole, done, looks, now - begin, _worked() - worked))
                    saved = now
                if whole["seconds"] + now - begin >= seconds or done.total() == most:
                    break
    finally:
        signal.signal(signal.SIGINT, before)
    found = _joined(whole, done, looks, time.monotonic() - begin, _worked() - worked)
    keep(state, found)
    return found


def _worked() -> float:
    """Seconds of cores that this process and its children had."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _nothing() -> dict[str, Any]:
    began = datetime.now(UTC).isoformat(timespec="seconds")
    none: dict[str, Any] = {"seconds": 0.0, "processor_seconds": 0.0, "chores": 0, "done": {}}
    return {"version": __version__, "began": began, "pieces": 0, **none, "grew": []}


def _joined(
    whole: dict[str, Any],
    done: Counter[str],
    looks: list[Held],
    seconds: float,
    worked: float,
) -> dict[str, Any]:
    """All pieces so far; what is held is of the last one."""
    quarter = len(looks) // 4
    return whole | {
        "pieces": whole["pieces"] + 1,
        "seconds": round(whole["seconds"] + seconds, 1),
        "processor_seconds": round(whole["processor_seconds"] + worked, 1),
        "chores": whole["chores"] + done.total(),
        "done": dict(Counter(whole["done"]) + done),
        "memory_mb": [one.memory >> 20 for one in (looks[quarter], looks[2 * quarter], looks[-1])],
        "descriptors": [looks[quarter].descriptors, looks[-1].descriptors],
        "threads": [looks[quarter].threads, looks[-1].threads],
        "grew": whole["grew"] + growth(looks),
    }

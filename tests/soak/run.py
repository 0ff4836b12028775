"""A run: chores in turn, a look after each round, a verdict at the end."""

from __future__ import annotations

import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.soak.chores import chores, subjects
from tests.soak.watch import Held, growth, held

__all__ = ["soak"]

MOST_LOOKS = 4000


def soak(seconds: float, tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Do chores for so long; counts, what is held at the end, and what grew."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    done: Counter[str] = Counter()
    looks: list[Held] = []
    begin = last = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            ready = subjects()
            for number, chore in enumerate(chores()):
                chore(ready[number % len(ready)], Path(folder))
                done[chore.__name__] += 1
                now = time.monotonic()
                if number % len(ready) == 0 and now - last >= seconds / MOST_LOOKS:
                    looks.append(held())
                    last = now
                    tell(f"{now - begin:.0f} s: {done.total()} chores, {looks[-1]}")
                if now - begin >= seconds:
                    break
    finally:
        signal.signal(signal.SIGINT, before)
    return _summary(done, looks, time.monotonic() - begin)


def _summary(done: Counter[str], looks: list[Held], seconds: float) -> dict[str, Any]:
    quarter = len(looks) // 4
    return {
        "seconds": round(seconds, 1),
        "chores": done.total(),
        "done": dict(done),
        "memory_mb": [one.memory >> 20 for one in (looks[quarter], looks[2 * quarter], looks[-1])],
        "descriptors": [looks[quarter].descriptors, looks[-1].descriptors],
        "threads": [looks[quarter].threads, looks[-1].threads],
        "grew": growth(looks),
    }

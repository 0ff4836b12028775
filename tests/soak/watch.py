"""What a process holds: memory, descriptors, threads; and whether it grows.

Memory is noisy: allocators keep pages, libraries fill caches. So the lowest of the last quarter is
compared with the highest of the second one, after a first quarter that warms up.
"""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Held", "growth", "held"]

MEMORY_ALLOWED = 8 << 20  # bytes, over the second half of a run


@dataclass(frozen=True)
class Held:
    """Bytes of memory, open descriptors, threads beside those of our pool."""

    memory: int
    descriptors: int
    threads: int


def held() -> Held:
    """Of this process, now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE")
    # The pool's own threads come as they are needed, up to a limit, and stay.
    others = [one for one in threading.enumerate() if not one.name.startswith("kernelite")]
    return Held(memory, len(os.listdir("/proc/self/fd")), len(others))


def growth(looks: list[Held]) -> list[str]:
    """What grew, in words; nothing, if all is flat.

    Examples
    --------
    >>> growth([Held(100 << 20, 9, 4)] * 16)
    []
    >>> growth([Held(i << 20, 9, 4 + i) for i in range(40)])
    ['memory: 19 MB to 30 MB', 'threads: 23 to 34']
    """
    quarter = len(looks) // 4
    if quarter < 2:
        return ["there were too few looks to tell"]
    second, last = looks[quarter : 2 * quarter], looks[-quarter:]
    found = []
    before, after = max(one.memory for one in second), min(one.memory for one in last)
    if after - before > MEMORY_ALLOWED:
        found.append(f"memory: {before >> 20} MB to {after >> 20} MB")
    for name in ("descriptors", "threads"):
        before = max(getattr(one, name) for one in second)
        after = min(getattr(one, name) for one in last)
        if after > before:
            found.append(f"{name}: {before} to {after}")
    return found

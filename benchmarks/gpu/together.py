"""Work in several processes at once: models are small, so one process leaves a GPU idle."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["in_processes", "process_count"]


def process_count(device: str) -> int:
    """One on a CPU; on a GPU as many as there are cores but three, and at most 14."""
    return 1 if device == "cpu" else max(1, min(14, (os.cpu_count() or 1) - 3))


def in_processes(call: Callable[..., Any], given: Sequence[Any], device: str) -> list[Any]:
    """What `call(*arguments)` finds for each of the given arguments, in their order."""
    count = min(process_count(device), len(given))
    if count <= 1:
        return [call(*arguments) for arguments in given]
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):  # processes, not threads
        os.environ[f"{library}_NUM_THREADS"] = "1"
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        return pool.starmap(call, given, chunksize=1)

"""One process of a campaign: makes its inputs from their numbers, and watches its own memory.

The parent reads from `State` which input is being tried and since when; so it can tell what a
process was doing that died or hangs.
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.corpus import ENDINGS, Seed, corpus
from tests.fuzz.mutators import mutated
from tests.fuzz.targets import run

__all__ = ["MEMORY", "MEMORY_PER_BYTE", "Input", "State", "attempt", "made", "work"]

MEMORY = 96 << 20  # bytes that any input may take,
MEMORY_PER_BYTE = 4096  # and for each of its own, which may be compressed;
MEMORY_PER_COMMA = 16384  # of CSV: pyarrow takes 8 KB for each column, were it empty
ROOM = 1 << 30  # of addresses: beyond what was asked for, threads and libraries take their own
STEADY = 0.02  # seconds between two looks of the parent


class State(ctypes.Structure):
    """Shared with the parent: the number being tried, since when, what came out, if it is over."""

    _fields_ = [
        ("number", ctypes.c_int64),
        ("since", ctypes.c_double),
        ("answered", ctypes.c_int64),
        ("refused", ctypes.c_int64),
        ("failed", ctypes.c_int64),
        ("most_memory", ctypes.c_int64),
        ("longest", ctypes.c_double),
        ("done", ctypes.c_int64),
        ("counts", ctypes.c_int64 * len(ENDINGS)),
    ]


@dataclass(frozen=True)
class Input:
    """A mutated file: the format, its bytes, the file it was made from."""

    name: str
    data: bytes
    seed: Seed


def made(seed: int, number: int, formats: tuple[str, ...] = tuple(ENDINGS)) -> Input:
    """The input of that number; the same on every machine."""
    rng = random.Random(f"{seed}/{number}")
    name = formats[number % len(formats)]
    one = rng.choice(corpus(name))
    return Input(name, mutated(rng, name, one.data), one)


def attempt(given: Input, folder: Path, number: int = 0) -> tuple[str, int]:
    """The outcome of an input, and the bytes of memory that it took at most.

    Raises
    ------
    MemoryError
        If it wants, or takes, more than its size allows.
    """
    path = folder / f"input{ENDINGS[given.name]}"
    path.write_bytes(given.data)
    each = MEMORY_PER_COMMA if given.name == "csv" else MEMORY_PER_BYTE
    most = MEMORY + each * len(given.data)
    before = _memory("VmRSS", reset=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + most + ROOM, hard))
    try:
        outcome = run(given.name, path, given.seed, number)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    taken = _memory("VmHWM") - before
    if taken > most:
        raise MemoryError(f"{taken >> 20} MB for an input of {len(given.data)} bytes")
    return outcome, taken


def _memory(field: str, *, reset: bool = False) -> int:
    """Bytes by the system's own account."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")  # the highest so far counts anew
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) << 10
    raise OSError(f"this system does not tell {field}")


def work(state: Any, options: Any, first: int, step: int, stop: float) -> None:
    """Try the inputs first, first + step, ... until the clock says `stop`."""
    os.environ["KERNELITE_COMPILE"] = "wait"
    folder = Path(options.scratch, str(os.getpid()))
    folder.mkdir(parents=True)
    for name in options.formats:  # libraries are loaded and kernels compiled before it counts
        for seed in corpus(name):
            attempt_freely(Input(name, seed.data, seed), folder)
    number, parent = first, os.getppid()
    while time.monotonic() < stop and number < options.most and os.getppid() == parent:
        state.number, state.since = number, time.monotonic()
        given = made(options.seed, number, options.formats)
        try:
            outcome, taken = attempt(given, folder, number // len(options.formats))
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            state.failed += 1
            record(options.out, options.seed, number, given, traceback.format_exc())
        else:
            setattr(state, outcome, getattr(state, outcome) + 1)
            state.most_memory = max(state.most_memory, taken)
        state.longest = max(state.longest, time.monotonic() - state.since)
        state.counts[list(ENDINGS).index(given.name)] += 1
        number += step
    state.number, state.done = number, 1


def attempt_freely(given: Input, folder: Path) -> None:
    """A valid file: it must be answered."""
    path = folder / f"input{ENDINGS[given.name]}"
    path.write_bytes(given.data)
    if (outcome := run(given.name, path, given.seed, 0)) != "answered":
        raise AssertionError(f"a valid {given.name} file is {outcome}: {given.data[:300]!r}")


def record(out: Path, seed: int, number: int, given: Input, why: str) -> None:
    """Keep a failure: the file, and beside it what happened."""
    out.mkdir(parents=True, exist_ok=True)
    name = f"{given.name.replace(', ', '-').replace(' ', '-')}-{seed}-{number}{ENDINGS[given.name]}"
    (out / name).write_bytes(given.data)
    (out / f"{name}.txt").write_text(f"seed {seed}, input {number}, {given.name}\n{why}")

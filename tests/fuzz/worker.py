"""One process of a campaign: makes its inputs from their numbers, and watches its own memory.

The parent reads from `State` which input is being tried and since when; so it can tell what a
process was doing that died or hangs. It hands out blocks of inputs through it too: there is no lock
that a process could take with it.
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.corpus import ENDINGS, TURNS, Seed, corpus, turns
from tests.fuzz.mutators import mutated
from tests.fuzz.targets import run

__all__ = [
    "MEMORY",
    "MEMORY_PER_BYTE",
    "Input",
    "State",
    "attempt",
    "made",
    "numbers",
    "valid",
    "work",
]

MEMORY = 96 << 20  # bytes that any input may take,
MEMORY_PER_BYTE = 4096  # and for each of its own, which may be compressed;
MEMORY_PER_COMMA = 16384  # of CSV: pyarrow takes 8 KB for each column, were it empty
WAITING = 0.002  # seconds between two looks for another block
ROOM = 1 << 30  # of addresses: beyond what was asked for, threads and libraries take their own
STEADY = 0.02  # seconds between two looks of the parent
BLOCK = 220  # inputs that a process is given at a time
OUTCOMES = ("answered", "refused", "failed")


class Counts(ctypes.Structure):
    """What came out, by format and outcome; the most memory and time of an input."""

    _fields_ = [
        ("outcomes", ctypes.c_int64 * len(OUTCOMES) * len(ENDINGS)),
        ("most_memory", ctypes.c_int64),
        ("longest", ctypes.c_double),
    ]


class State(ctypes.Structure):
    """Shared with the parent: the input being tried, since when, what came out.

    The process is at `number` and stops before `end`, which the parent moves; `counts` goes with
    `number`. `since` is 0 between inputs. Before it is `ready` it reads valid files, of which
    `tried` counts those begun. No more blocks come after `last`.
    """

    _fields_ = [
        ("number", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("since", ctypes.c_double),
        ("tried", ctypes.c_int64),
        ("ready", ctypes.c_int64),
        ("last", ctypes.c_int64),
        ("counts", Counts),
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
    name, _ = _turn(number, formats)
    one = rng.choice(corpus(name))
    return Input(name, mutated(rng, name, one.data), one)


def _turn(number: int, formats: tuple[str, ...]) -> tuple[str, int]:
    """The format of an input, and which of its files that is."""
    order = turns(formats)
    name, turn = order[number % len(order)]
    return name, number // len(order) * TURNS[name] + turn


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
    size, before = _MEMORY.now()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + most + ROOM, hard))
    try:
        outcome = run(given.name, path, given.seed, number)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    taken = _MEMORY.highest() - before
    if taken > most:
        raise MemoryError(f"{taken >> 20} MB for an input of {len(given.data)} bytes")
    return outcome, taken


class _Memory:
    """The system's own account of this process, through files that stay open."""

    def __init__(self) -> None:
        self._owner = 0

    def now(self) -> tuple[int, int]:
        """Bytes of addresses and of memory; the highest so far counts anew."""
        if self._owner != os.getpid():  # a fork has its own account
            names = {"_sizes": "statm", "_status": "status"}
            for name, file in names.items():
                setattr(self, name, os.open(f"/proc/self/{file}", os.O_RDONLY))
            self._reset = os.open("/proc/self/clear_refs", os.O_WRONLY)
            self._owner, self._page = os.getpid(), os.sysconf("SC_PAGE_SIZE")
        os.pwrite(self._reset, b"5", 0)
        size, resident, *_ = os.pread(self._sizes, 200, 0).split()
        return int(size) * self._page, int(resident) * self._page

    def highest(self) -> int:
        """Bytes of memory at most since then."""
        status = os.pread(self._status, 8192, 0)
        at = status.index(b"VmHWM:")
        return int(status[at + 6 : status.index(b"kB", at)]) << 10


_MEMORY = _Memory()


def work(state: Any, options: Any) -> None:
    """Try the inputs that the parent hands out, until it says that there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends a campaign, after whole blocks
    folder = Path(options.scratch, str(os.getpid()))
    folder.mkdir(parents=True)
    for given in valid(options.formats):  # libraries are loaded before it counts
        state.tried += 1
        attempt_freely(given, folder)
    state.ready = 1
    for _ in numbers(state):
        _try_one(state, options, folder)


def numbers(state: Any) -> Iterator[int]:
    """The inputs that the parent hands out; waits for more while it is there."""
    parent = os.getppid()
    while os.getppid() == parent:
        if state.number < state.end:
            yield state.number
            state.number += 1
        elif state.last:
            return
        else:
            time.sleep(WAITING)


def valid(formats: tuple[str, ...]) -> list[Input]:
    """The files that inputs of these formats are made from."""
    return [Input(name, seed.data, seed) for name in formats for seed in corpus(name)]


def _try_one(state: Any, options: Any, folder: Path) -> None:
    number, counts = state.number, state.counts
    state.since = begin = time.monotonic()
    given = made(options.seed, number, options.formats)
    try:
        outcome, taken = attempt(given, folder, _turn(number, options.formats)[1])
    except BaseException:
        outcome, taken = "failed", 0
        record(options.out, options.seed, number, given, traceback.format_exc())
    count(counts, given.name, outcome)
    counts.most_memory = max(counts.most_memory, taken)
    counts.longest = max(counts.longest, time.monotonic() - begin)
    state.since = 0.0


def count(counts: Any, name: str, outcome: str) -> None:
    """One more of a format's inputs has that outcome."""
    counts.outcomes[_FORMATS[name]][OUTCOMES.index(outcome)] += 1


_FORMATS = {name: at for at, name in enumerate(ENDINGS)}


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

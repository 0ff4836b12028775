"""The parent of a campaign: starts processes, ends those that hang, starts others, counts."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from typing import Any

from kernelite.cpu.warming import warm_up
from kernelite.errors import InputError
from tests.fuzz.corpus import ENDINGS
from tests.fuzz.worker import STEADY, State, made, record, work

__all__ = ["Options", "campaign"]

GRACE = 120.0  # seconds to start: libraries, kernels


@dataclass(frozen=True)
class Options:
    """How long, from which seed, on how many processes; where failures go."""

    seconds: float
    seed: int
    jobs: int
    out: Path
    formats: tuple[str, ...] = tuple(ENDINGS)
    time_limit: float = 20.0  # seconds for one input; a busy machine needs some
    first: int = 0
    most: int = 2**62
    scratch: str = ""


@dataclass
class Slot:
    """A process and its state; `number` is where another one would go on."""

    first: int
    state: Any = field(default_factory=lambda: RawValue(State))
    process: Any = None
    started: float = 0.0


def campaign(options: Options, tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Run until the time is over; what was tried and what came out."""
    with suppress(InputError):  # without numba there is nothing to compile
        warm_up()  # or else the time of the compiler would count
    scratch = tempfile.mkdtemp(prefix="kernelite-fuzz-", dir=_in_memory())
    options = Options(**{**vars(options), "scratch": scratch})
    context = multiprocessing.get_context("spawn")
    begin = time.monotonic()
    stop = begin + options.seconds
    slots = [Slot(options.first + job) for job in range(options.jobs)]
    lost: list[str] = []
    try:
        for slot in slots:
            _start(context, slot, options, slot.first, stop)
        while any(slot.process is not None for slot in slots):
            time.sleep(STEADY)
            for slot in slots:
                if slot.process is not None:
                    _look(context, slot, options, stop, lost)
            tell(_in_short(slots, lost, time.monotonic() - begin))
    finally:
        for slot in slots:
            if slot.process is not None:
                slot.process.kill()
                slot.process.join()
        shutil.rmtree(scratch, ignore_errors=True)
    return _summary(slots, lost, options, time.monotonic() - begin)


def _start(context: Any, slot: Slot, options: Options, first: int, stop: float) -> None:
    slot.state.number, slot.state.since, slot.started = first, 0.0, time.monotonic()
    arguments = (slot.state, options, first, options.jobs, stop)
    slot.process = context.Process(target=work, args=arguments, daemon=True)
    slot.process.start()


def _look(context: Any, slot: Slot, options: Options, stop: float, lost: list[str]) -> None:
    """Whether a process ended, died or hangs; the last two cost one input."""
    process, state, now = slot.process, slot.state, time.monotonic()
    since = state.since
    if state.done:
        process.join(GRACE)
        process.kill()  # it has told all that it had to; nothing more is asked of it
        process.join()
        slot.process = None
        return
    if process.is_alive():
        late = since > 0 and now - since > options.time_limit
        if not late and (since > 0 or now - slot.started < GRACE):
            return
        process.kill()
    process.join()
    slot.process = None
    if since == 0.0:
        raise RuntimeError(f"a process could not start (exit code {process.exitcode})")
    slow = now - since > options.time_limit
    why = f"took over {options.time_limit} s" if slow else f"died: exit code {process.exitcode}"
    number = state.number
    record(options.out, options.seed, number, made(options.seed, number, options.formats), why)
    state.failed += 1
    lost.append(f"input {number} {why}")
    if now < stop:
        _start(context, slot, options, number + options.jobs, stop)


def _in_memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _total(slots: list[Slot], name: str) -> int:
    return sum(getattr(slot.state, name) for slot in slots)


def _in_short(slots: list[Slot], lost: list[str], seconds: float) -> str:
    tried = sum(sum(slot.state.counts) for slot in slots) + len(lost)
    return f"{seconds:.0f} s: {tried} inputs, {_total(slots, 'failed')} failures"


def _summary(
    slots: list[Slot], lost: list[str], options: Options, seconds: float
) -> dict[str, Any]:
    counts = [sum(slot.state.counts[i] for slot in slots) for i in range(len(ENDINGS))]
    return {
        "seed": options.seed,
        "first": options.first,
        "last": max(slot.state.number for slot in slots),
        "seconds": round(seconds, 1),
        "inputs": sum(counts) + len(lost),
        "answered": _total(slots, "answered"),
        "refused": _total(slots, "refused"),
        "failed": _total(slots, "failed"),
        "died_or_hung": lost,
        "most_memory_mb": max(slot.state.most_memory for slot in slots) >> 20,
        "longest_seconds": round(max(slot.state.longest for slot in slots), 3),
        "formats": dict(zip(ENDINGS, counts)),
    }

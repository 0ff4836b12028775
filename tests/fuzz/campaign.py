"""The parent of a campaign: starts processes, ends those that hang, starts others, counts.

The state is kept all the while, so that a campaign may be stopped, even killed, and resumed: what
it holds is of whole blocks, and blocks that were begun are done again.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from typing import Any

from kernelite import __version__
from kernelite.backends.cpu.kernels.build import warm_up
from kernelite.support.errors import InputError
from tests.fuzz.corpus import ENDINGS
from tests.fuzz.worker import (
    BLOCK,
    OUTCOMES,
    STEADY,
    Counts,
    State,
    count,
    made,
    record,
    valid,
    work,
)
from tests.reliability.runs import keep, kept

__all__ = ["Options", "campaign"]

GRACE = 900.0  # seconds to start on a busy machine: libraries, kernels
SAVED = 10.0  # seconds between two states


@dataclass(frozen=True)
class Options:
    """How long, from which seed, on how many processes; where failures and the state go."""

    seconds: float
    seed: int
    jobs: int
    out: Path
    formats: tuple[str, ...] = tuple(ENDINGS)
    time_limit: float = 20.0  # seconds for one input, more on a busy machine
    first: int = 0
    most: int = 2**62  # the number of the input after the last
    state: Path | None = None
    scratch: str = ""


@dataclass
class Slot:
    """A process, its state, where its block starts, and what came out of the blocks before."""

    state: Any = field(default_factory=lambda: RawValue(State))
    start: int = 0
    settled: Counts = field(default_factory=Counts)
    process: Any = None
    started: float = 0.0


class Campaign:
    """A piece of a campaign while it runs; `whole` is what earlier pieces found."""

    def __init__(self, options: Options) -> None:
        self.options, self.begin = options, time.monotonic()
        self.stop = self.begin + options.seconds
        mine = {"seed": options.seed, "first": options.first, "version": __version__}
        mine["chosen"] = list(options.formats)
        self.whole = kept(options.state, mine) or _nothing(mine)
        self.context: Any = multiprocessing.get_context("spawn")
        self.next = self.whole["next"]
        self.slots = [Slot() for _ in range(max(options.jobs, len(self.whole["left"])))]
        for slot, (start, end) in zip(self.slots, self.whole["left"]):
            slot.start = slot.state.number = start
            slot.state.end = end
        self.lost: list[str] = []

    def start(self, slot: Slot) -> None:
        """Start a process, which goes on where its slot's state is."""
        state = slot.state
        state.since, state.tried, state.ready, slot.started = 0.0, 0, 0, time.monotonic()
        slot.process = self.context.Process(target=work, args=(state, self.options), daemon=True)
        slot.process.start()

    def look(self, slot: Slot) -> None:
        """Whether a process wants a block, ended, died or hangs; the last two cost one input."""
        process, state, now = slot.process, slot.state, time.monotonic()
        if state.number >= state.end:
            self.settle(slot)
        if state.last:
            process.kill()  # it has told all that it had to; nothing more is asked of it
            process.join()
            slot.process = None
            return
        # A process has its share of a busy machine; the limit is for one of its own.
        share = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        since, limit = state.since, self.options.time_limit * share
        if process.is_alive():
            late = now - since > limit if since else now - slot.started > GRACE and not state.ready
            if not late:
                return
            process.kill()
        process.join()
        slot.process = None
        if not state.ready:
            given = valid(self.options.formats)[max(0, state.tried - 1)]
            raise RuntimeError(
                f"a process ended at a valid {given.name} file (exit code {process.exitcode}): "
                f"{given.data[:200]!r}"
            )
        if not since:
            raise RuntimeError(
                f"a process ended before input {state.number} (exit code {process.exitcode})"
            )
        slow = now - since > limit
        why = f"took over {limit:.0f} s" if slow else f"died: exit code {process.exitcode}"
        self.lose(slot, why)
        self.start(slot)

    def settle(self, slot: Slot) -> None:
        """Count the block that a process has done, and hand out the next."""
        state = slot.state
        slot.settled = Counts.from_buffer_copy(state.counts)
        if time.monotonic() >= self.stop or self.next >= self.options.most:
            slot.start = state.end
            state.last = 1
            return
        slot.start = state.number = self.next
        self.next = min(self.next + BLOCK, self.options.most)
        state.end = self.next  # now it may begin

    def lose(self, slot: Slot, why: str) -> None:
        """The input that a process ended at has failed; the one after it is the next."""
        number, options = slot.state.number, self.options
        given = made(options.seed, number, options.formats)
        record(options.out, options.seed, number, given, why)
        count(slot.state.counts, given.name, "failed")
        self.lost.append(f"input {number} {why}")
        slot.state.number += 1

    def found(self) -> dict[str, Any]:
        """All that is settled, and where to go on."""
        settled = [slot.settled for slot in self.slots]
        blocks = [(slot.start, slot.state.end) for slot in self.slots]
        whole = self.whole | {
            "next": self.next,
            "left": [list(block) for block in blocks if block[0] < block[1]],
            "formats": {
                name: {
                    outcome: before + sum(one.outcomes[at][i] for one in settled)
                    for i, (outcome, before) in enumerate(self.whole["formats"][name].items())
                }
                for at, name in enumerate(ENDINGS)
            },
        }
        memory = max(one.most_memory for one in settled) >> 20
        longest = round(max(one.longest for one in settled), 3)
        for outcome in OUTCOMES:
            whole[outcome] = sum(counts[outcome] for counts in whole["formats"].values())
        whole["inputs"] = sum(whole[outcome] for outcome in OUTCOMES)
        whole["died_or_hung"] = self.whole["died_or_hung"] + self.lost
        whole["most_memory_mb"] = max(memory, self.whole["most_memory_mb"])
        whole["longest_seconds"] = max(longest, self.whole["longest_seconds"])
        whole["seconds"] = round(self.whole["seconds"] + time.monotonic() - self.begin, 1)
        return whole

    def run(self, tell: Callable[[str], None]) -> None:
        """Until all processes are done."""
        saved = 0.0
        for slot in self.slots:
            self.start(slot)
        while any(slot.process is not None for slot in self.slots):
            time.sleep(STEADY)
            for slot in self.slots:
                if slot.process is not None:
                    self.look(slot)
            if time.monotonic() - saved > SAVED:
                saved = time.monotonic()
                found = self.found()
                keep(self.options.state, found)
                tell(
                    f"{found['seconds']:.0f} s: {found['inputs']} inputs, {found['failed']} failed"
                )

    def end(self) -> None:
        """Leave no process behind."""
        for slot in self.slots:
            if slot.process is not None:
                slot.process.kill()
                slot.process.join()


def campaign(options: Options, tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Run until the time is over or all inputs are done; what was tried and what came out."""
    with suppress(InputError):  # if kernels cannot be built, numba or NumPy answers
        warm_up()  # or else the time of the compiler would count
    os.environ["OMP_NUM_THREADS"] = "1"  # a process each; theirs would only be in each other's way
    scratch = tempfile.mkdtemp(prefix="kernelite-fuzz-", dir=_in_memory())
    piece = Campaign(replace(options, scratch=scratch))
    try:
        piece.run(tell)
    except KeyboardInterrupt:
        pass  # what is settled counts
    finally:
        piece.end()
        shutil.rmtree(scratch, ignore_errors=True)
    found = piece.found()
    keep(options.state, found)
    return found


def _in_memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _nothing(mine: dict[str, Any]) -> dict[str, Any]:
    zero = dict.fromkeys(OUTCOMES, 0)
    return {
        **mine,
        "next": mine["first"],
        "left": [],
        "seconds": 0.0,
        "inputs": 0,
        **zero,
        "died_or_hung": [],
        "most_memory_mb": 0,
        "longest_seconds": 0.0,
        "formats": {name: dict(zero) for name in ENDINGS},
    }

"""How a device is given work: many rows in blocks that fit it, few rows as one launch."""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from kernelite.backends.torch.tensors import Tensor, constants_used

if TYPE_CHECKING:
    from kernelite.backends.torch.program import Program

__all__ = ["FEWEST_BUFFER_ROWS", "SIZES", "Graphs", "block_rows", "in_blocks"]

# Many rows: a block that does not fit is halved, not given up.

SHARE, CPU_BYTES = 8, 1 << 27  # of the device's memory, and of the host's, for a block
FEWEST_BUFFER_ROWS = 64

Parts = TypeVar("Parts", bound=tuple[Tensor, ...])


def block_rows(rows: Tensor, program: Program) -> int:
    """Rows of a block: as many as an eighth of the memory takes.

    How much of it is free is not asked, since that takes a millisecond.
    """
    budget = CPU_BYTES
    if rows.is_cuda:
        budget = torch.cuda.get_device_properties(rows.device).total_memory // SHARE
    return max(FEWEST_BUFFER_ROWS, budget // program.row_bytes(rows))


def in_blocks(run: Callable[[Tensor, int], Parts], rows: Tensor, program: Program) -> list[Tensor]:
    """What `run` finds for each block and the number of its first row, joined.

    Parameters
    ----------
    run : callable of (block, first row)
        Gives a tuple of tensors, one row per row.
    rows : tensor of shape (m, d)
    program : Program
        That tells what a row takes.
    """
    size = block_rows(rows, program)
    start = 0
    parts: list[tuple[Tensor, ...]] = []
    while start < len(rows) or not parts:
        try:
            parts.append(run(rows[start : start + size], start))
        except torch.OutOfMemoryError:
            if size <= FEWEST_BUFFER_ROWS:
                raise
            size = max(FEWEST_BUFFER_ROWS, min(size, len(rows)) // 2)
            torch.cuda.empty_cache()
            continue
        start += size
    if len(parts) == 1:
        return list(parts[0])
    return [torch.cat(columns) for columns in zip(*parts)]


# Few rows at the speed of one launch: what a call does is recorded once per size, and replayed.
#
# In: rows, and a function of (rows, count, tally) that does its work on the device and asks the
# host nothing. Out: what it finds. Rows are copied into a buffer of the next larger size in
# `SIZES`; those that pad are old, and the function is told how many count. A CUDA graph of the
# function is recorded when a size is first met, with the copy, which is told where the rows lie;
# then a call is one launch, a copy of the answers, and one wait.

SIZES = (1, 16, 64, 256, 1024, 4096)
"""Rows of a buffer. More rows than the last keep the device busy while the host prepares."""

Found = TypeVar("Found", bound=Any)  # a named tuple of tensors
Work = Callable[[Tensor, Tensor, Tensor], Found]


@contextmanager
def _nothing_freed() -> Iterator[None]:
    """The garbage collector waits: freeing another model's pinned memory ends a recording."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Recorded:
    """A size's buffers and graph; the host's numbers are pinned, and kernels reach them there.

    Parameters
    ----------
    work : callable of (rows, count, tally)
    like : tensor of shape (m, d)
        Rows such as will come.
    size, entries : int
        Of rows, and of the tally.
    pool : object, optional
        Memory that graphs share; None on a CPU, where the work is done anew each time.
    """

    def __init__(self, work: Work[Any], like: Tensor, size: int, entries: int, pool: Any) -> None:
        device, self.work = like.device, work
        self.views: tuple[int, dict[str, Tensor]] = (-1, {})
        self.rows = torch.zeros(size, like.shape[1], dtype=like.dtype, device=device)
        self.count = torch.zeros(1, dtype=torch.int32, device=device)
        self.tally = torch.zeros(entries, dtype=torch.int32, device=device)
        here, there = torch.zeros(2, dtype=torch.int64), torch.zeros(entries, dtype=torch.int32)
        self.graph, self.found = None, None
        self.constants: list[Tensor] = []  # which the graph reads as long as it lives
        if pool is not None:
            here, there = here.pin_memory(), there.pin_memory()
            self._record(here, there, pool)
        self.here, self.there = here.numpy(), there.numpy()

    def _record(self, here: Tensor, there: Tensor, pool: Any) -> None:
        from kernelite.backends.torch.kernels.rows import run_begin, run_end

        def all_of_it() -> Any:
            run_begin(here, self.rows, self.count, self.tally)
            found = self.work(self.rows, self.count, self.tally)
            run_end(self.tally, there)
            return found

        device = self.rows.device
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            all_of_it()  # once before, so that kernels are compiled
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        kind = {"stream": stream, "capture_error_mode": "thread_local"}
        graph = torch.cuda.graph(self.graph, pool=pool, **kind)
        with constants_used() as self.constants, _nothing_freed(), graph:
            self.found = all_of_it()

    def run(self, rows: Tensor, wanted: Sequence[str]) -> tuple[Any, list[int]]:
        """What the work finds for rows, and the tally."""
        m = rows.shape[0]
        if self.graph is None:  # no GPU: the same without a graph
            self.rows[:m].copy_(rows)
            self.count[0] = m
            self.tally.zero_()
            found = self.work(self.rows, self.count, self.tally)
            own = {field: getattr(found, field)[:m].clone() for field in found._fields}
            return found._replace(**own), self.tally.tolist()
        if self.views[0] != m:  # slices take as long as copies
            outputs = {field: getattr(self.found, field)[:m] for field in self.found._fields}
            self.views = (m, outputs)
        _, outputs = self.views
        given = rows.contiguous()  # lives until the wait below
        self.here[:] = m, given.data_ptr()
        self.graph.replay()
        own = {field: outputs[field].clone() for field in wanted}
        torch.cuda.current_stream(rows.device).synchronize()
        tally = self.there.tolist()
        if tally[0]:
            own |= {field: output.clone() for field, output in outputs.items()}
        return self.found._replace(**own), tally


class Graphs:
    """What was recorded for one program, by question and size.

    One call at a time: buffers are shared, and a call ends with a wait.
    """

    def __init__(self) -> None:
        self._lock, self._recorded = Lock(), dict[Hashable, Recorded]()
        self._pool: Any = None

    def __reduce__(self) -> tuple[type[Graphs], tuple[()]]:
        return Graphs, ()  # copies record their own

    def clear(self) -> None:
        """Forget all: buffers that were recorded have moved."""
        with self._lock:
            self._recorded.clear()

    def __call__(
        self, key: Hashable, work: Work[Found], rows: Tensor, wanted: Sequence[str], entries: int
    ) -> tuple[Found, list[int]]:
        """What `work` finds for up to 4,096 rows, and its tally in host memory.

        Parameters
        ----------
        key : hashable
            Names the question: the same work for the same key.
        work : callable of (rows, count, tally)
            Gives a named tuple of tensors, one row per row, and adds to the tally.
        rows : tensor of shape (m, d)
        wanted : sequence of str
            Fields that are needed; the others too, if the tally's first entry is not zero.
        entries : int
            Of the tally.
        """
        size = SIZES[bisect_left(SIZES, rows.shape[0])]
        with self._lock:
            name = (key, size, rows.dtype)
            kept = self._recorded.get(name)
            if kept is None:
                if rows.is_cuda and self._pool is None:
                    self._pool = torch.cuda.graph_pool_handle()
                kept = self._recorded[name] = Recorded(work, rows, size, entries, self._pool)
            return kept.run(rows, wanted)

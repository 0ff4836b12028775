"""Few rows at the speed of one launch: what a call does is recorded once per size, and replayed.

In: rows, and a function of (rows, count) that does its work on the device and asks the host
nothing. Out: what it finds. Rows are copied into a buffer of the next larger size in `SIZES`; those
that pad are old, and the function is told how many count. A CUDA graph of the function is recorded
when a size is first met; then a call is a copy, one launch, a copy of the answers, and one wait.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from kernelite.backends.torch.buffers import Tensor

__all__ = ["SIZES", "Graphs"]

SIZES = (1, 16, 64, 256, 1024, 4096)
"""Rows of a buffer. More rows than the last keep the device busy while the host prepares."""

Found = TypeVar("Found", bound=Any)  # a named tuple of tensors
Work = Callable[[Tensor, Tensor], tuple[Found, Tensor]]


class Recorded(NamedTuple):
    """A size's buffers; the host's parts of them are pinned, and the graph copies them itself."""

    rows: Tensor
    here: NDArray[np.int32]
    count: Tensor
    found: Any
    tally: Tensor
    graph: Any


class Graphs:
    """What was recorded for one program, by question and size.

    One call at a time: buffers are shared, and a call ends with a wait.
    """

    def __init__(self) -> None:
        self._lock, self._recorded, self._pool = Lock(), dict[Hashable, Recorded](), None

    def __reduce__(self) -> tuple[type[Graphs], tuple[()]]:
        return Graphs, ()  # copies record their own

    def clear(self) -> None:
        """Forget all: buffers that were recorded have moved."""
        with self._lock:
            self._recorded.clear()

    def __call__(
        self, key: Hashable, work: Work[Found], rows: Tensor, wanted: Sequence[str]
    ) -> tuple[Found, list[int]]:
        """What `work` finds for up to 4,096 rows, and its tally in host memory.

        Parameters
        ----------
        key : hashable
            Names the question: the same work for the same key.
        work : callable of (rows, count)
            Gives a tuple of tensors, one row per row, and a tally: whole numbers for the host.
        rows : tensor of shape (m, d)
        wanted : sequence of str
            Fields that are needed; the others too, if the tally's first entry is not zero.
        """
        m = len(rows)
        size = next(size for size in SIZES if size >= m)
        with self._lock:
            name = (key, size, rows.dtype)
            kept = self._recorded.get(name)
            if kept is None:
                kept = self._recorded[name] = self._record(work, rows, size)
            kept.here[0] = m
            kept.rows[:m].copy_(rows)
            if kept.graph is not None:
                kept.graph.replay()
                found, tally = kept.found, kept.tally
            else:  # no GPU: the same without a graph
                found, tally = work(kept.rows, kept.count)
            own = {field: getattr(found, field)[:m].clone() for field in wanted}
            if rows.is_cuda:
                torch.cuda.current_stream(rows.device).synchronize()
            counted = tally.tolist()
            if counted[0]:
                own |= {field: getattr(found, field)[:m].clone() for field in found._fields}
            return found._replace(**own), counted

    def _record(self, work: Work[Found], rows: Tensor, size: int) -> Recorded:
        """Buffers, and a graph of the work on them."""
        device = rows.device
        held = torch.zeros(size, rows.shape[1], dtype=rows.dtype, device=device)
        here = torch.zeros(1, dtype=torch.int32)
        if not rows.is_cuda:
            return Recorded(held, here.numpy(), here, None, here, None)
        here, count = here.pin_memory(), here.to(device)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):  # once before, so that kernels are compiled
            _, tally = work(held, count)
        torch.cuda.current_stream(device).wait_stream(stream)
        tallied = torch.zeros_like(tally, device="cpu").pin_memory()
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        with torch.cuda.graph(
            graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"
        ):
            count.copy_(here, non_blocking=True)
            found, tally = work(held, count)
            tallied.copy_(tally, non_blocking=True)
        return Recorded(held, here.numpy(), count, found, tallied, graph)

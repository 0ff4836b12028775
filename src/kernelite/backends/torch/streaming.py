"""Rows in host memory, answered on a GPU: copies of the next block overlap computing of this one.

In: an array, a memory map, a CPU tensor, or an iterable of them. Out: answers in host memory.
A second thread brings blocks to the device through a few fixed (pinned) buffers and its own stream;
rows that are pinned already are copied from where they lie.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from queue import Queue
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
import torch

from kernelite.backends.torch.interchange import program_on
from kernelite.backends.torch.launches import FEWEST_BUFFER_ROWS
from kernelite.backends.torch.tensors import Tensor, known_device
from kernelite.model import CompiledModel, require_compiled
from kernelite.support.errors import InputError

__all__ = ["predict"]

SLOTS = 3  # blocks under way: one copied to the buffer, one to the device, one computed on
BLOCK_BYTES = 1 << 28


def predict(
    fast: CompiledModel, X: Any, /, *, device: str | torch.device = "cuda", block: int | None = None
) -> np.ndarray[Any, Any]:
    """What `fast.predict` answers, computed on a GPU for rows in host memory.

    Parameters
    ----------
    fast : CompiledModel
    X : array or CPU tensor of shape (m, d), or an iterable of such blocks
        Single or double precision. A memory map is read block by block, and so is an iterable. A
        block may be a record batch of pyarrow's, so `ParquetFile(path).iter_batches()` serves; of
        more columns than the model takes, those that it was fitted on are chosen by name.
    device : str or torch.device
    block : int, optional
        Rows per copy; by default 256 MB of them. Halved where the device's memory does not suffice.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> import kernelite as kl
    >>> from sklearn.svm import SVC
    >>> rows = np.random.default_rng(0).normal(size=(200, 3))
    >>> machine = SVC(gamma=0.05).fit(rows, np.where(rows[:, 0] > 0.3, "yes", "no"))
    >>> fast = kl.compile(machine, rows)
    >>> bool((predict(fast, rows, device="cpu", block=64) == fast.predict(rows)).all())
    True
    """
    require_compiled(fast, "fast")
    if block is not None and block < 1:
        raise InputError(f"`block` must be a positive number of rows, got {block!r}.")
    device = known_device(device)
    program = program_on(fast, device)
    arrivals = _arrivals(_blocks(X, block, fast), device)
    found = (program.predict(rows).labels for rows in arrivals)
    answers = _gathered(found, X.shape[0] if hasattr(X, "shape") else None)
    if fast.head.classes is not None and not program.head.has_numbers:
        answers = np.asarray(fast.head.classes)[answers]
    return answers


def _gathered(found: Iterator[Tensor], count: int | None) -> np.ndarray[Any, Any]:
    """Answers of all blocks in host memory; into one array, if their number is known."""
    if count is None:
        parts = [part.cpu() for part in found]
        return torch.cat(parts).numpy() if parts else np.empty(0)
    whole, start, home = torch.empty(0), 0, _Home()
    with ThreadPoolExecutor(1) as bringing:
        pending = []
        for part in found:
            if not start:
                # NumPy asks for large pages, torch does not: fresh small ones take longer to get
                # than all copies.
                kind = torch.empty(0, dtype=part.dtype).numpy().dtype
                whole = torch.from_numpy(np.empty((count, *part.shape[1:]), kind))
            computed = torch.cuda.Event() if part.is_cuda else None
            if computed is not None:
                computed.record(torch.cuda.current_stream(part.device))
            place = whole[start : start + len(part)]
            pending.append(bringing.submit(home, part, computed, place))
            start += len(part)
        for copy in pending:
            copy.result()
    return whole.numpy()


class _Home:
    """Brings answers home, in a thread and a stream of their own: the next block need not wait.

    The device writes to a pinned buffer, from where all cores copy.
    """

    def __init__(self) -> None:
        self.buffer = torch.empty(0)

    def __call__(self, part: Tensor, computed: torch.cuda.Event | None, place: Tensor) -> None:
        """Copy a block's answers, once they are computed, to their place."""
        if computed is None:
            place.copy_(part)
            return
        if self.buffer.dtype != part.dtype or len(self.buffer) < len(part):
            self.buffer = torch.empty(part.shape, dtype=part.dtype, pin_memory=True)
            self.stream = torch.cuda.Stream(part.device)
        here = self.buffer[: len(part)]
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(computed)
            here.copy_(part, non_blocking=True)
        self.stream.synchronize()
        place.copy_(here)


def _blocks(X: Any, block: int | None, fast: CompiledModel) -> Iterator[Tensor]:
    """Host rows in blocks, as tensors in the memory that they have."""
    d = fast.n_features_in_
    if not hasattr(X, "shape"):
        if not isinstance(X, Iterable) or isinstance(X, str | bytes):
            raise InputError(
                f"`X` must be an array or an iterable of arrays, got a {type(X).__name__}; read "
                "files first, e.g. by `pyarrow.parquet.ParquetFile(path).iter_batches()`."
            )
        for part in X:
            yield from _blocks(_matrix(part, fast), block, fast)
        return
    if len(X.shape) != 2 or X.shape[1] != d:
        raise InputError(f"`X` has shape {tuple(X.shape)}, but this model takes (m, {d}).")
    rows = X if isinstance(X, torch.Tensor) else torch.from_numpy(_numbers(X))
    if rows.device.type != "cpu":
        raise InputError("`X` lies on a GPU already; call `fast.predict(X)`.")
    size = block or max(1, BLOCK_BYTES // max(d * rows.element_size(), 1))
    for start in range(0, max(len(rows), 1), size):
        yield rows[start : start + size]


def _matrix(part: Any, fast: CompiledModel) -> Any:
    """A record batch as a matrix, its columns in the model's order; other blocks as they are."""
    if not hasattr(part, "schema") or not hasattr(part, "select"):
        return part
    names = fast.origin.feature_names
    if names is not None and (missing := set(names) - set(part.schema.names)):
        raise InputError(f"a batch has no column {sorted(missing)[0]!r}, which the model takes.")
    chosen = part if names is None else part.select(list(names))
    columns = [column.to_numpy(zero_copy_only=False) for column in chosen.columns]
    return np.column_stack(columns) if columns else np.empty((len(part), 0))


def _numbers(X: Any) -> np.ndarray[Any, Any]:
    """Singles and doubles as they are, other numbers as doubles."""
    array = np.asarray(X)
    if array.dtype not in (np.float32, np.float64):
        try:
            array = array.astype(
                np.float64, casting="unsafe" if array.dtype.kind != "c" else "safe"
            )
        except (TypeError, ValueError):
            raise InputError(f"`X` must hold real numbers, got {array.dtype}.") from None
    return array if array.flags.writeable else _unlocked(array)


def _unlocked(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A view of read-only memory that torch takes without a warning; it is never written to."""
    interface = dict(array.__array_interface__)
    interface["data"] = (interface["data"][0], False)
    holder = type("Holder", (), {"__array_interface__": interface, "owner": array})()
    return np.asarray(holder)


class _Slot(NamedTuple):
    """A pinned buffer and its place on the device; when both were last filled, and last read."""

    host: Tensor
    there: Tensor
    copied: torch.cuda.Event
    used: torch.cuda.Event


def _arrivals(blocks: Iterator[Tensor], device: str | torch.device) -> Iterator[Tensor]:
    """The blocks on the device, in order; each is valid until the next is asked for."""
    if torch.device(device).type != "cuda":
        yield from (block.to(device) for block in blocks)
        return
    ready: Queue[Any] = Queue()
    free: Queue[_Slot | None] = Queue()
    for _ in range(SLOTS):
        free.put(None)  # a slot that has no memory yet
    worker = Thread(target=_bring, args=(blocks, torch.device(device), ready, free), daemon=True)
    worker.start()
    with closing(_Stop(free, worker)):
        while (found := ready.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            slot, count = found
            torch.cuda.current_stream(device).wait_event(slot.copied)
            slot.there.record_stream(torch.cuda.current_stream(device))  # or it is lent too soon
            yield slot.there[:count]
            slot.used.record(torch.cuda.current_stream(device))
            free.put(slot)


class _Stop:
    """Ends the worker, whether all blocks were taken or not."""

    def __init__(self, free: Queue[Any], worker: Thread) -> None:
        self.free, self.worker = free, worker

    def close(self) -> None:
        self.free.put(StopIteration)
        self.worker.join()


def _bring(
    blocks: Iterator[Tensor], device: torch.device, ready: Queue[Any], free: Queue[Any]
) -> None:
    """Copy blocks to the device, each into a slot that is free."""
    try:
        stream = torch.cuda.Stream(device)
        left = deque[Tensor]()
        while (block := left.popleft() if left else next(blocks, None)) is not None:
            slot = free.get()
            if slot is StopIteration:
                return
            try:
                # Memory of the copying stream: what another stream gave back may still be read.
                with torch.cuda.stream(stream):
                    slot = _fitting(slot, block, device)
            except torch.OutOfMemoryError:
                if len(block) <= FEWEST_BUFFER_ROWS:
                    raise
                left.extendleft(reversed(block.split(-(-len(block) // 2))))
                free.put(None)
                continue
            with torch.cuda.stream(stream):
                stream.wait_event(slot.used)
                source = block
                if not block.is_pinned():
                    slot.copied.synchronize()  # the buffer may still be read
                    source = slot.host[: len(block)].copy_(block)
                slot.there[: len(block)].copy_(source, non_blocking=True)
                slot.copied.record(stream)
            ready.put((slot, len(block)))
        ready.put(None)
    except BaseException as error:  # raised again where the answers are awaited
        ready.put(error)


def _fitting(slot: _Slot | None, block: Tensor, device: torch.device) -> _Slot:
    """A slot with room for a block; the one at hand if it has."""
    kind = (block.shape[1], block.dtype)
    if slot is not None and (slot.there.shape[1], slot.there.dtype) == kind:
        fits = len(slot.there) >= len(block) and (block.is_pinned() or len(slot.host) >= len(block))
        if fits:
            return slot
    pinned = block.is_pinned()
    host = torch.empty(0) if pinned else torch.empty(block.shape, dtype=block.dtype).pin_memory()
    there = torch.empty(block.shape, dtype=block.dtype, device=device)
    return _Slot(host, there, torch.cuda.Event(), torch.cuda.Event())

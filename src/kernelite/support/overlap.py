"""Reading ahead: the next part of a file is parsed while this one is answered and written."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

__all__ = ["read_ahead"]

Item = TypeVar("Item")


def read_ahead(items: Iterable[Item], depth: int = 2) -> Iterator[Item]:
    """Yield `items` in order, made by another thread that keeps `depth` of them ready.

    An error of the source is raised here, after the items before it. When the caller stops early,
    the thread ends with the item it is making. Where no thread can be started, that is a
    MemoryError, before anything is read.

    Examples
    --------
    >>> list(read_ahead(range(3)))
    [0, 1, 2]
    """
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=depth)
    stop = threading.Event()

    def put(message: tuple[str, Any]) -> None:
        while not stop.is_set():
            try:
                return ready.put(message, timeout=0.1)
            except queue.Full:
                continue

    def make() -> None:
        try:
            for item in items:
                put(("item", item))
                if stop.is_set():
                    return
            put(("end", None))
        except BaseException as error:  # handed over, not swallowed
            put(("error", error))

    # In the caller's context, which holds the limit on threads.
    context = contextvars.copy_context()
    maker = threading.Thread(target=context.run, args=(make,), name="kernelite-reader", daemon=True)
    try:
        maker.start()
    except RuntimeError:  # going on without would leave Arrow to wait for threads of its own
        raise MemoryError(
            "no thread can be started; one thread alone, `--threads 1`, starts none"
        ) from None
    try:
        while True:
            try:
                # With a timeout: a signal that the other thread took is seen when this one wakes.
                kind, value = ready.get(timeout=0.1)
            except queue.Empty:
                continue
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stop.set()
        # Not for ever: it may be waiting on a pipe that nobody writes to any more.
        maker.join(timeout=1.0)

"""A client: of the scheduler at an address, or of worker processes on this machine."""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from kernelite.cpu.threads import thread_count
from kernelite.dask.workers import require_dask
from kernelite.errors import InputError

__all__ = ["connect"]


@contextmanager
def connect(address: str | None = None, workers: int | None = None) -> Iterator[Any]:
    """A client for the length of a block.

    Parameters
    ----------
    address : str, optional
        Of a scheduler, e.g. "tcp://10.0.0.5:8786". Without one, a cluster of processes is started
        on this machine, one thread each, reachable from nowhere else, and stopped at the end.
    workers : int, optional
        How many processes; as many as cores by default.

    Yields
    ------
    distributed.Client
    """
    distributed = require_dask("distributed")
    if address is not None:
        if re.fullmatch(r"([a-z]+://.+)|(.+:[0-9]+)", address) is None:
            # The client would only say so after it had started threads, which then complain too.
            raise InputError(f"`{address}` is no address of a scheduler; expected tcp://HOST:PORT.")
        try:
            client = distributed.Client(address, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at `{address}` ({error}).") from None
        with client:
            yield client
        return
    with _interrupts_held():
        cluster = distributed.LocalCluster(
            n_workers=workers or thread_count(),
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the block ends, and threads and processes begun in it never see it.

    It reaches all processes of a terminal; workers that die of it would be mourned on stderr, when
    it is this process that ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Started by a thread that holds signals back, it would let them pass there.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

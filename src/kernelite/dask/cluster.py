"""A client: of the scheduler at an address, or of worker processes on this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kernelite.dask.workers import require_dask
from kernelite.engines.threads import thread_count
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
        try:
            client = distributed.Client(address, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler answers at `{address}` ({error}).") from None
        with client:
            yield client
        return
    with (
        distributed.LocalCluster(
            n_workers=workers or thread_count(),
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client

"""A cluster of worker processes on this machine that is gone when the block ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def cluster(workers: int) -> Iterator[Any]:
    """A client of `workers` processes, one thread each; loopback only, ports of their own."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
        ) as local,
        Client(local) as client,
    ):
        yield client

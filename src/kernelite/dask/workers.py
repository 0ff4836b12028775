"""A client, and how a model reaches its workers, and how often it did.

In: a `Shipment`. Out: what tasks carry instead. With a client, the model is registered as a worker
plugin: the scheduler hands it to each worker once, and again to every worker that comes later,
also in place of one that died. Without one it is a node of the graph, which each worker fetches.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from kernelite.backends.cpu.threads import thread_count
from kernelite.data.scoring.shipping import Shipment, Ticket, arrivals, drop, ship
from kernelite.model import CompiledModel
from kernelite.support.errors import InputError, optional

__all__ = ["carry", "connect", "forget", "model_counts", "require_dask"]


def plugin_name(ticket: Ticket) -> str:
    """What the scheduler calls a model."""
    return f"kernelite-model-{ticket.digest}"


def require_dask(part: str = "") -> Any:
    """Dask or a part of it, or an error that names the extra.

    Examples
    --------
    >>> require_dask("array").__name__
    'dask.array'
    """
    module = part if part == "distributed" else f"dask.{part}" if part else "dask"
    need = "scoring with Dask needs dask and distributed"
    return optional(module, need, "'dask[array,dataframe]' distributed pyarrow", "dask")


def carry(shipment: Shipment, client: Any = None) -> Any:
    """What stands for a model in tasks: a ticket, where the workers have it; else a graph node.

    Parameters
    ----------
    shipment : Shipment
    client : distributed.Client, optional
        The current one by default, if there is one.

    Returns
    -------
    Ticket or dask.delayed.Delayed
    """
    client = _current() if client is None else client
    if client is None or client.asynchronous:
        return require_dask().delayed(shipment, name=plugin_name(shipment), traverse=False)
    if not client.run_on_scheduler(_is_registered, name=plugin_name(shipment)):
        from kernelite.dask.plugin import ModelPlugin

        client.register_plugin(ModelPlugin(shipment, plugin_name(shipment)))
    return Ticket(shipment.digest)


def model_counts(client: Any = None) -> dict[str, dict[str, dict[str, int]]]:
    """How often each model was sent to each worker and unpacked there.

    Parameters
    ----------
    client : distributed.Client, optional
        The current one by default.

    Returns
    -------
    dict
        {worker's address: {digest: {"received": n, "unpacked": n}}}
    """
    found: dict[str, dict[str, dict[str, int]]] = _needed(client).run(arrivals)
    return found


def forget(model: CompiledModel, client: Any = None) -> None:
    """Take a model off the workers and the scheduler.

    Parameters
    ----------
    model : CompiledModel
    client : distributed.Client, optional
        The current one by default.
    """
    client, shipment = _needed(client), ship(model)
    drop(shipment.digest)
    if client.run_on_scheduler(_is_registered, name=plugin_name(shipment)):
        client.unregister_worker_plugin(plugin_name(shipment))


def _is_registered(dask_scheduler: Any, name: str) -> bool:
    return name in dask_scheduler.worker_plugins


def _current() -> Any:
    """The current client; None without one. It has to be loaded already if there is one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.Client.current(allow_global=True)
    except ValueError:
        return None


def _needed(client: Any) -> Any:
    client = _current() if client is None else client
    if client is None:
        raise InputError("there is no current Dask client; pass `client`.")
    return client


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

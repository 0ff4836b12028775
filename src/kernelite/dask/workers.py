"""How a model reaches the workers, and how often it did.

In: a `Shipment`. Out: what tasks carry instead. With a client, the model is registered as a worker
plugin: the scheduler hands it to each worker once, and again to every worker that comes later,
also in place of one that died. Without one it is a node of the graph, which each worker fetches.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from kernelite.errors import InputError, MissingExtraError
from kernelite.model import CompiledModel
from kernelite.scoring.shipping import Shipment, Ticket, arrivals, drop, ship

__all__ = ["carry", "forget", "model_counts", "require_dask"]


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
    try:
        return import_module(part if part == "distributed" else f"dask.{part}" if part else "dask")
    except ImportError:
        raise MissingExtraError(
            "scoring with Dask needs dask and distributed: pip install 'kernelite[dask]'."
        ) from None


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

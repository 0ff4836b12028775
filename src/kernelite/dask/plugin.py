"""The worker plugin that holds a model: pickled once by the client, unpickled once by a worker."""

from __future__ import annotations

from typing import Any

from distributed.diagnostics.plugin import WorkerPlugin

from kernelite.data.scoring.shipping import Shipment, drop

__all__ = ["ModelPlugin"]


class ModelPlugin(WorkerPlugin):  # type: ignore[misc, unused-ignore]
    """A model on every worker there is and will be.

    Parameters
    ----------
    shipment : Shipment
    name : str
    """

    idempotent = True  # registered once more, it is not sent again

    def __init__(self, shipment: Shipment, name: str) -> None:
        self.shipment = shipment
        self.name = name

    def teardown(self, worker: Any) -> None:
        """Forget the model, so that its memory is free."""
        drop(self.shipment.digest)

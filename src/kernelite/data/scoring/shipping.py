"""A model on its way to other processes: bytes with their SHA-256, unpacked once per process.

A `Shipment` carries the bytes; a `Ticket` only names them, for processes that have them already.
Both can be pickled, and both give the same scorer.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Self

from kernelite.data.scoring.batch import BatchScorer, check_outputs
from kernelite.model import CompiledModel, require_compiled
from kernelite.support.errors import InputError

__all__ = ["Options", "Shipment", "ShippedScorer", "Ticket", "arrivals", "drop", "ship"]

MOST_MODELS = 8  # of a process, unpacked; the one used longest ago goes first

_lock = RLock()
_shipments: dict[str, Shipment] = {}
_models: OrderedDict[str, CompiledModel] = OrderedDict()
_scorers: dict[tuple[str, Options], BatchScorer] = {}
_received: Counter[str] = Counter()
_unpacked: Counter[str] = Counter()


@dataclass(frozen=True)
class Options:
    """What a `BatchScorer` takes besides its model, hashable.

    Parameters
    ----------
    columns, outputs, keep, prefix
        See `BatchScorer`.
    """

    columns: tuple[str, ...] | None = None
    outputs: tuple[str, ...] = ("label",)
    keep: tuple[str, ...] | str = ()
    prefix: str = ""

    @classmethod
    def of(
        cls,
        columns: Sequence[str] | None = None,
        outputs: Sequence[str] = ("label",),
        keep: Sequence[str] = (),
        prefix: str = "",
    ) -> Options:
        """Options from any sequences.

        Examples
        --------
        >>> Options.of(["a"], "score")
        Options(columns=('a',), outputs=('score',), keep=(), prefix='')
        """
        return cls(
            None if columns is None else tuple(columns),
            (outputs,) if isinstance(outputs, str) else tuple(outputs),
            keep if isinstance(keep, str) else tuple(keep),
            prefix,
        )


@dataclass(frozen=True)
class Ticket:
    """The name of a model that was shipped to this process.

    Parameters
    ----------
    digest : str
        SHA-256 of its bytes.
    """

    digest: str

    def __dask_tokenize__(self) -> tuple[str, str]:
        return "kernelite model", self.digest

    def scorer(self, options: Options) -> BatchScorer:
        """The model with options, made once per process."""
        with _lock:
            found = _scorers.get((self.digest, options))
            if found is None:
                model = self.model()
                found = BatchScorer(
                    model, options.columns, options.outputs, options.keep, options.prefix
                )
                _scorers[self.digest, options] = found
            return found

    def model(self) -> CompiledModel:
        """The model, unpacked once per process."""
        with _lock:
            if self.digest not in _models:
                _models[self.digest] = self._shipment()._unpack()
                _unpacked[self.digest] += 1
                while len(_models) > MOST_MODELS:
                    _forget_unpacked(next(iter(_models)))
            _models.move_to_end(self.digest)
            return _models[self.digest]

    def _shipment(self) -> Shipment:
        if self.digest not in _shipments:
            raise InputError(
                f"the model {self.digest[:12]} was not sent to this process; call "
                "kernelite.dask.predict while the client that computes is the current one."
            )
        return _shipments[self.digest]


@dataclass(frozen=True, eq=False, repr=False)
class Shipment(Ticket):
    """A model's bytes. Unpickling one keeps it for later tickets and counts as an arrival.

    Parameters
    ----------
    digest : str
    data : bytes
        A `.kernelite` file's; or a pickle, of a model that such files cannot hold.
    stored : bool
        Which of the two.
    """

    data: bytes
    stored: bool

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrive, (self.digest, self.data, self.stored)

    def _shipment(self) -> Shipment:
        return self

    def _unpack(self) -> CompiledModel:
        if not self.stored:
            found: CompiledModel = pickle.loads(self.data)
            return found
        from kernelite.store.files import loads

        return loads(self.data, name=f"model {self.digest[:12]}")


def ship(model: CompiledModel) -> Shipment:
    """Pack a model, and keep it in this process too.

    Parameters
    ----------
    model : CompiledModel

    Returns
    -------
    Shipment

    Examples
    --------
    >>> from kernelite.machine.expansion import KernelExpansion
    >>> import kernelite
    >>> bump = KernelExpansion([[0.0]], [2.0], 0.5, gamma=1.0)
    >>> shipment = ship(kernelite.compile(bump, guarantee="exact"))
    >>> len(shipment.digest), shipment.model().predict([[0.0]])
    (64, array([2.5]))
    """
    from kernelite.store.files import dumps

    require_compiled(model)
    try:
        data, stored = dumps(model), True
    except InputError:  # it keeps a Python object, which whoever holds it trusts already
        data, stored = pickle.dumps(model), False
    shipment = Shipment(hashlib.sha256(data).hexdigest(), data, stored)
    with _lock:
        shipment = _shipments.setdefault(shipment.digest, shipment)
        _models.setdefault(shipment.digest, model)
    return shipment


@dataclass(frozen=True)
class ShippedScorer:
    """A model and options as a picklable object; engines make it a function of their batches.

    Parameters
    ----------
    shipment : Shipment
    options : Options
    """

    shipment: Shipment
    options: Options

    @classmethod
    def of(
        cls,
        model: CompiledModel,
        columns: Sequence[str] | None,
        outputs: Sequence[str],
        keep: Sequence[str],
        prefix: str,
    ) -> Self:
        """Pack a model with options that it can fulfil."""
        shipment, options = ship(model), Options.of(columns, outputs, keep, prefix)
        check_outputs(model, options.outputs)
        return cls(shipment, options)

    @property
    def scorer(self) -> BatchScorer:
        """The scorer of this process."""
        return self.shipment.scorer(self.options)


def arrivals() -> dict[str, dict[str, int]]:
    """How often each model came to this process and was unpacked in it, by digest.

    Examples
    --------
    >>> all(set(counts) == {"received", "unpacked"} for counts in arrivals().values())
    True
    """
    with _lock:
        return {
            digest: {"received": _received[digest], "unpacked": _unpacked[digest]}
            for digest in _shipments.keys() | _received.keys()
        }


def drop(digest: str) -> None:
    """Forget a model that this process keeps.

    Examples
    --------
    >>> drop("unknown")
    """
    with _lock:
        _shipments.pop(digest, None)
        _forget_unpacked(digest)


def _forget_unpacked(digest: str) -> None:
    _models.pop(digest, None)
    for key in [key for key in _scorers if key[0] == digest]:
        del _scorers[key]


def _arrive(digest: str, data: bytes, stored: bool) -> Shipment:
    with _lock:
        _received[digest] += 1
        return _shipments.setdefault(digest, Shipment(digest, data, stored))

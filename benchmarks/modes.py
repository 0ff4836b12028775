"""kernelite's own contestants: exact, certified, none and calibrated, dense and CSR."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from scipy import sparse

import kernelite as kl
from benchmarks.contestant import Absent, Contestant
from benchmarks.workloads import Workload
from kernelite.model import CompiledModel
from kernelite.support.errors import InputError

__all__ = ["MODES", "compiled", "contestant", "stored_bytes"]

MODES = ("exact", "certified", "calibrated", "none")

_made: WeakKeyDictionary[Workload, dict[Any, tuple[CompiledModel, float]]] = WeakKeyDictionary()


def compiled(workload: Workload, guarantee: str, **options: Any) -> tuple[CompiledModel, float]:
    """A compiled model, and the seconds it took; made once a workload.

    Raises
    ------
    Absent
        Where the guarantee cannot be had, e.g. too few rows to calibrate on.
    """
    made = _made.setdefault(workload, {})
    key = (guarantee, *sorted(options.items()))
    if key not in made:
        made[key] = _compile(workload, guarantee, options)
    return made[key]


def _compile(
    workload: Workload, guarantee: str, options: dict[str, Any]
) -> tuple[CompiledModel, float]:
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = kl.compile(workload.source, workload.sample, guarantee=guarantee, **options)
        except InputError as error:
            raise Absent(str(error)) from None
    return model, perf_counter() - start


def contestant(
    workload: Workload, guarantee: str, *, csr: bool = False, **options: Any
) -> Contestant:
    """A guarantee, with options of `compile`, as a contestant."""
    model, seconds = compiled(workload, guarantee, **options)
    return Contestant(
        name=f"kernelite {guarantee}{', CSR' if csr else ''}",
        kind="kernelite",
        predict=_quiet(model, "predict"),
        must_agree=guarantee in ("exact", "certified"),
        nbytes=stored_bytes(model),
        convert=sparse.csr_array if csr else lambda rows: rows,
        decide=_quiet(model, "decision_function"),
        model=model,
        prepared=seconds,
        note=model.plan.chosen.name,
    )


def stored_bytes(model: CompiledModel) -> int:
    """Size of the `.kernelite` file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.kernelite")
        model.save(path)
        return os.path.getsize(path)


def _quiet(model: CompiledModel, method: str) -> Callable[[Any], Any]:
    """Rows outside validity are counted elsewhere; a warning a call would be noise."""
    bound = getattr(model, method)
    if model.guarantee != "none":
        return bound
    return lambda rows: bound(rows, on_invalid="ignore")

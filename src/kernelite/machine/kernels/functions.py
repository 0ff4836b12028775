"""Kernels that are Python functions: called as they are, and nothing is known of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelite.data.rows.inputs import FloatArray
from kernelite.machine.kernels.base import Kernel, Reach
from kernelite.support.errors import InputError, UnsupportedModelError
from kernelite.support.records import dataclass

__all__ = ["FunctionKernel"]


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A function of two tables of rows, or of two rows.

    Parameters
    ----------
    function : callable
        f(Z, X) of shape (m, n), or f(z, x), a number.
    of_pairs : bool
        Whether it takes two rows.

    Examples
    --------
    >>> FunctionKernel(lambda Z, X: Z @ X.T).values(np.ones((1, 2)), np.eye(2))
    array([[1., 1.]])
    """

    function: Callable[[Any, Any], Any]
    of_pairs: bool = False
    shifts = False
    proven = False
    unproven = "is a Python function, of whose values nothing is known"

    @property
    def __unstorable__(self) -> str:
        return (
            "the kernel of this model is a Python function, and a .kernelite file holds no Python "
            "objects; joblib.dump(model, path) stores it, for readers who trust the file."
        )

    def values(self, rows: FloatArray, centers: FloatArray) -> FloatArray:
        if not isinstance(rows, np.ndarray):
            raise UnsupportedModelError("its kernel is a Python function")
        if self.of_pairs:
            found: Any = [[self.function(z, x) for x in centers] for z in rows]
        else:
            found = self.function(rows, centers)
            found = found.toarray() if hasattr(found, "toarray") else found
        values = np.asarray(found, dtype=np.float64)
        if values.shape != (len(rows), len(centers)):
            raise InputError(
                f"the kernel function answers an array of shape {values.shape} for {len(rows)} "
                f"rows and {len(centers)} support vectors; it must be one number for each pair."
            )
        return values

    def diagonal(self, rows: FloatArray) -> FloatArray:
        return np.array([self.values(row[None], row[None])[0, 0] for row in rows])

    def largest(self, reach: Reach) -> FloatArray:
        return np.full(len(reach.rows), np.inf)

    def error(self, reach: Reach) -> FloatArray:
        return np.full(len(reach.rows), np.inf)

    @property
    def label(self) -> str:
        return f"the function {getattr(self.function, '__name__', type(self.function).__name__)}"

"""Annotations of fields, whatever NumPy makes of `NDArray`."""

from __future__ import annotations

import types
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelite.store.registry import conforms

Scalar = TypeVar("Scalar", bound=np.generic)


class TypeStatement:
    """What `type Name[Scalar] = ...` makes, from Python 3.12 on."""

    __value__: Any = np.ndarray[Any, np.dtype[Scalar]]


def test_arrays_by_dtype() -> None:
    assert conforms(np.zeros(2), NDArray[np.float64])
    assert conforms(np.zeros(2), NDArray[Any])
    assert not conforms(np.zeros(2), NDArray[np.bool_])
    assert not conforms([0.0], NDArray[np.float64])


def test_a_type_statement_stands_for_its_value() -> None:
    array = types.GenericAlias(TypeStatement, (np.float64,))  # NumPy 2.5's NDArray[np.float64]
    assert conforms(np.zeros(2), array)
    assert not conforms(np.zeros(2, dtype=bool), array)
    assert conforms(None, array | None)
    assert not conforms(1.0, array | None)

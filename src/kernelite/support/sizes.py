"""How many bytes of arrays an object holds."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from kernelite.rows.inputs import is_sparse

__all__ = ["array_bytes"]


def array_bytes(value: Any) -> int:
    """Bytes of all arrays inside nested dataclasses and tuples.

    Examples
    --------
    >>> array_bytes((np.zeros(4), np.zeros((2, 3))))
    80
    """
    if isinstance(value, np.ndarray):
        return value.nbytes
    if is_sparse(value):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    if isinstance(value, tuple | list):
        return sum(array_bytes(item) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return sum(array_bytes(getattr(value, field.name)) for field in fields(value))
    return 0

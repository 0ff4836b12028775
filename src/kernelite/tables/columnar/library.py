"""pyarrow, imported when the first columnar file is met; without it, a sentence that says so."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kernelite.errors import MissingExtraError

__all__ = ["arrow", "is_numeric", "require_pyarrow"]


def require_pyarrow() -> Any:
    """The `pyarrow` package, or an error that names the extra.

    Examples
    --------
    >>> require_pyarrow().__name__
    'pyarrow'
    """
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(
            "record batches and columnar files need pyarrow: pip install 'kernelite[arrow]'."
        ) from None
    return pyarrow


def arrow(part: str = "") -> Any:
    """pyarrow, or one of its modules.

    Parameters
    ----------
    part : str
        E.g. "parquet", "csv", "compute".

    Returns
    -------
    module

    Raises
    ------
    MissingExtraError
        If it is not installed.

    Examples
    --------
    >>> arrow("compute").__name__
    'pyarrow.compute'
    """
    library = require_pyarrow()
    return import_module(f"pyarrow.{part}") if part else library


def is_numeric(kind: Any) -> bool:
    """Whether a pyarrow type holds numbers (truth values count, dictionaries by their values).

    Examples
    --------
    >>> import pyarrow
    >>> is_numeric(pyarrow.int8()), is_numeric(pyarrow.string())
    (True, False)
    """
    types = require_pyarrow().types
    if types.is_dictionary(kind):
        return is_numeric(kind.value_type)
    checks = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(check(kind) for check in checks)

"""pyarrow, imported when the first columnar file is met; without it, a sentence that says so."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kernelite.tables.columnar.columns import require_pyarrow

__all__ = ["arrow"]


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

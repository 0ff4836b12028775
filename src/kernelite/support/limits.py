"""How much a small file may become: compressed data are hostile until they have been read."""

from __future__ import annotations

import os

from kernelite.errors import InputError

__all__ = ["VARIABLE", "granted", "most_expansion"]

VARIABLE = "KERNELITE_MAX_EXPANSION"
"""Environment variable that raises `MOST_EXPANSION`."""

MOST_EXPANSION = 200  # data compress by 3 to 30
ALWAYS_GRANTED = 2**21  # bytes, read in seconds whatever they hold


def granted(size: int) -> int:
    """Bytes that a compressed file of `size` bytes may become.

    Examples
    --------
    >>> granted(10**6)
    202097152
    """
    return ALWAYS_GRANTED + most_expansion() * size


def most_expansion() -> int:
    """Bytes that each byte of a compressed file may become, beyond those that all are granted."""
    text = os.environ.get(VARIABLE, str(MOST_EXPANSION))
    if not text.isascii() or not text.isdecimal():
        raise InputError(f"the environment variable {VARIABLE} must be a whole number, got {text}.")
    return int(text)

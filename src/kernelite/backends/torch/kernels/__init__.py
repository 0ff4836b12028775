"""Triton kernels. Each has a definition in torch operations, and a test that compares them."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

__all__ = ["has_triton"]


@cache
def has_triton() -> bool:
    """Whether the package is installed."""
    return find_spec("triton") is not None

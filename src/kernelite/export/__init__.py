"""Compiled models for other runtimes: ONNX graphs and C99 headers.

Names are loaded on first use, so that neither target needs the other's libraries.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelite.export.c import to_c, to_c_program
    from kernelite.export.files import export
    from kernelite.export.onnx import to_onnx

__all__ = ["export", "to_c", "to_c_program", "to_onnx"]

_HOMES = {"export": "files", "to_c": "c", "to_c_program": "c", "to_onnx": "onnx"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernelite.export' has no attribute {name!r}")
    return getattr(importlib.import_module(f"kernelite.export.{_HOMES[name]}"), name)

"""Compiled models for other runtimes: ONNX graphs and C99 headers.

The package is a function too: `kernelite.export(model, "model.onnx")` writes a file. Names of one
target are loaded on first use, so that neither target needs the other's libraries.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kernelite.export.files import export

if TYPE_CHECKING:
    from kernelite.export.c import to_c, to_c_program
    from kernelite.export.onnx import to_onnx

__all__ = ["export", "to_c", "to_c_program", "to_onnx"]

_HOMES = {"to_c": "c", "to_c_program": "c", "to_onnx": "onnx"}


class _ExportPackage(ModuleType):
    """This package, which can be called."""

    __call__ = staticmethod(export)
    __signature__ = inspect.signature(export)  # otherwise the first argument is taken for `self`


sys.modules[__name__].__class__ = _ExportPackage


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernelite.export' has no attribute {name!r}")
    return getattr(importlib.import_module(f"kernelite.export.{_HOMES[name]}"), name)

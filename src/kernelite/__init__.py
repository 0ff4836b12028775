"""kernelite: fast prediction with kernel machines.

Public names are loaded on first use, so that `import kernelite` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from kernelite.compiler import compile
    from kernelite.cpu.threads import limit_threads
    from kernelite.cpu.warming import warm_up
    from kernelite.errors import (
        FileFormatError,
        InputError,
        KerneliteError,
        MissingExtraError,
        OutsideValidityError,
        UnsupportedModelError,
    )
    from kernelite.estimators import CompiledClassifier, CompiledOutlierDetector, CompiledRegressor
    from kernelite.export import export
    from kernelite.gamma import gamma_max
    from kernelite.machine.expansion import KernelExpansion
    from kernelite.machine.heads import ClassifierHead, OutlierHead, RegressorHead
    from kernelite.model import CompiledModel
    from kernelite.model.serving import OutsideValidityWarning
    from kernelite.scoring.files import predict_files
    from kernelite.store.files import load

_HOMES = {
    "ClassifierHead": "kernelite.machine.heads",
    "CompiledClassifier": "kernelite.estimators",
    "CompiledModel": "kernelite.model",
    "CompiledOutlierDetector": "kernelite.estimators",
    "CompiledRegressor": "kernelite.estimators",
    "FileFormatError": "kernelite.errors",
    "InputError": "kernelite.errors",
    "KernelExpansion": "kernelite.machine.expansion",
    "KerneliteError": "kernelite.errors",
    "MissingExtraError": "kernelite.errors",
    "OutlierHead": "kernelite.machine.heads",
    "OutsideValidityError": "kernelite.errors",
    "OutsideValidityWarning": "kernelite.model.serving",
    "RegressorHead": "kernelite.machine.heads",
    "UnsupportedModelError": "kernelite.errors",
    "compile": "kernelite.compiler",
    "gamma_max": "kernelite.gamma",
    "limit_threads": "kernelite.cpu.threads",
    "load": "kernelite.store.files",
    "predict_files": "kernelite.scoring.files",
    "warm_up": "kernelite.cpu.warming",
}
_CALLABLE_MODULES = frozenset({"export"})
"""Subpackages that are functions too: `kernelite.export(...)` beside `kernelite.export.to_c`."""

__all__ = [
    "ClassifierHead",
    "CompiledClassifier",
    "CompiledModel",
    "CompiledOutlierDetector",
    "CompiledRegressor",
    "FileFormatError",
    "InputError",
    "KernelExpansion",
    "KerneliteError",
    "MissingExtraError",
    "OutlierHead",
    "OutsideValidityError",
    "OutsideValidityWarning",
    "RegressorHead",
    "UnsupportedModelError",
    "__version__",
    "compile",
    "export",
    "gamma_max",
    "limit_threads",
    "load",
    "predict_files",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    if name in _CALLABLE_MODULES:
        return importlib.import_module(f"kernelite.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'kernelite' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

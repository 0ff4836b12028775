"""kernelite: fast prediction with RBF kernel machines.

Public names are loaded on first use, so that `import kernelite` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kernelite.columnar.files import predict_files
    from kernelite.compiler import compile
    from kernelite.engines.threads import limit_threads
    from kernelite.estimators import CompiledClassifier, CompiledOutlierDetector, CompiledRegressor
    from kernelite.expansion import KernelExpansion
    from kernelite.formats.store import load
    from kernelite.gamma import gamma_max
    from kernelite.head import ClassifierHead, OutlierHead, RegressorHead
    from kernelite.model import CompiledModel
    from kernelite.warming import warm_up

_HOMES = {
    "ClassifierHead": "kernelite.head",
    "CompiledClassifier": "kernelite.estimators",
    "CompiledModel": "kernelite.model",
    "CompiledOutlierDetector": "kernelite.estimators",
    "CompiledRegressor": "kernelite.estimators",
    "KernelExpansion": "kernelite.expansion",
    "OutlierHead": "kernelite.head",
    "RegressorHead": "kernelite.head",
    "compile": "kernelite.compiler",
    "gamma_max": "kernelite.gamma",
    "limit_threads": "kernelite.engines.threads",
    "load": "kernelite.formats.store",
    "predict_files": "kernelite.columnar.files",
    "warm_up": "kernelite.warming",
}

__all__ = [
    "ClassifierHead",
    "CompiledClassifier",
    "CompiledModel",
    "CompiledOutlierDetector",
    "CompiledRegressor",
    "KernelExpansion",
    "OutlierHead",
    "RegressorHead",
    "__version__",
    "compile",
    "gamma_max",
    "limit_threads",
    "load",
    "predict_files",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kernelite' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

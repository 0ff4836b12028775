"""kernelite: fast prediction with kernel machines.

Public names are loaded on first use, so that `import kernelite` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from kernelite.backends.cpu.kernels.build import warm_up
    from kernelite.backends.cpu.threads import limit_threads
    from kernelite.data.gamma import gamma_max
    from kernelite.data.scoring.files import predict_files
    from kernelite.machine.expansion import KernelExpansion
    from kernelite.machine.heads import ClassifierHead, OutlierHead, RegressorHead
    from kernelite.model import CompiledModel
    from kernelite.model.compiler import compile
    from kernelite.model.estimators import (
        CompiledClassifier,
        CompiledOutlierDetector,
        CompiledRegressor,
    )
    from kernelite.model.export import export
    from kernelite.model.patching import patch, patched, unpatch
    from kernelite.model.serving import OutsideValidityWarning
    from kernelite.store.files import load
    from kernelite.support.errors import (
        FileFormatError,
        InputError,
        InputTypeError,
        KerneliteError,
        MissingExtraError,
        OutsideValidityError,
        UnsupportedModelError,
    )

_HOMES = {
    "ClassifierHead": "kernelite.machine.heads",
    "CompiledClassifier": "kernelite.model.estimators",
    "CompiledModel": "kernelite.model",
    "CompiledOutlierDetector": "kernelite.model.estimators",
    "CompiledRegressor": "kernelite.model.estimators",
    "FileFormatError": "kernelite.support.errors",
    "InputError": "kernelite.support.errors",
    "InputTypeError": "kernelite.support.errors",
    "KernelExpansion": "kernelite.machine.expansion",
    "KerneliteError": "kernelite.support.errors",
    "MissingExtraError": "kernelite.support.errors",
    "OutlierHead": "kernelite.machine.heads",
    "OutsideValidityError": "kernelite.support.errors",
    "OutsideValidityWarning": "kernelite.model.serving",
    "RegressorHead": "kernelite.machine.heads",
    "UnsupportedModelError": "kernelite.support.errors",
    "compile": "kernelite.model.compiler",
    "export": "kernelite.model.export",
    "gamma_max": "kernelite.data.gamma",
    "limit_threads": "kernelite.backends.cpu.threads",
    "load": "kernelite.store.files",
    "patch": "kernelite.model.patching",
    "patched": "kernelite.model.patching",
    "predict_files": "kernelite.data.scoring.files",
    "unpatch": "kernelite.model.patching",
    "warm_up": "kernelite.backends.cpu.kernels.build",
}

__all__ = [
    "ClassifierHead",
    "CompiledClassifier",
    "CompiledModel",
    "CompiledOutlierDetector",
    "CompiledRegressor",
    "FileFormatError",
    "InputError",
    "InputTypeError",
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
    "patch",
    "patched",
    "predict_files",
    "unpatch",
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

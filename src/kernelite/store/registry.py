"""Classes that a model file may name, and the checks of their fields.

To make a new class storable, add a line to `CLASSES`; its fields must be annotated with what
`kernelite.store.packing` can hold.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kernelite.errors import InputError
from kernelite.store.hints import conforms, field_hints

__all__ = ["CLASSES", "check_names", "check_types", "field_values", "named_class"]

CLASSES = {
    "AffineMap": "kernelite.machine.affine",
    "Approximation": "kernelite.series.cells",
    "ArgmaxHead": "kernelite.machine.heads",
    "Calibrated": "kernelite.machine.heads.calibrated",
    "CalibratedHead": "kernelite.machine.heads.calibrated",
    "Candidate": "kernelite.planner.plan",
    "Cell": "kernelite.series.cells",
    "Certificate": "kernelite.series.certificate",
    "ClassifierHead": "kernelite.machine.heads",
    "CompiledModel": "kernelite.model",
    "ConstantHead": "kernelite.machine.heads.constant",
    "CosineKernel": "kernelite.machine.kernels",
    "CubicForm": "kernelite.series.cubic",
    "DensityHead": "kernelite.machine.heads",
    "DirectionalBound": "kernelite.series.directional",
    "ExpSineSquared": "kernelite.machine.kernels",
    "Front": "kernelite.machine.front",
    "InverseMultiquadric": "kernelite.machine.kernels",
    "InverseQuadratic": "kernelite.machine.kernels",
    "IsotonicCalibrator": "kernelite.machine.heads.calibrators",
    "KernelExpansion": "kernelite.machine.expansion",
    "Laplacian": "kernelite.machine.kernels",
    "LatentClassesHead": "kernelite.machine.heads.latent_classes",
    "LatentHead": "kernelite.machine.heads",
    "LinearHead": "kernelite.machine.heads.linear",
    "LocalSums": "kernelite.series.local",
    "Matern": "kernelite.machine.kernels",
    "MeanHead": "kernelite.machine.heads.target",
    "Member": "kernelite.machine.heads.members",
    "ModelPart": "kernelite.model",
    "MomentsHead": "kernelite.machine.heads.latent_classes",
    "Multiquadric": "kernelite.machine.kernels",
    "NamedInverse": "kernelite.machine.heads.inverses",
    "OneVsRestHead": "kernelite.machine.heads.one_vs_rest",
    "Origin": "kernelite.model",
    "OutlierHead": "kernelite.machine.heads",
    "OutputCodeHead": "kernelite.machine.heads.output_code",
    "PairwiseHead": "kernelite.machine.heads.pairwise",
    "Plan": "kernelite.planner.plan",
    "PolynomialKernel": "kernelite.machine.kernels",
    "PolynomialTail": "kernelite.machine.polynomial_term",
    "Posterior": "kernelite.machine.variance",
    "PowerSpline": "kernelite.machine.kernels",
    "ProductKernel": "kernelite.machine.kernels",
    "QuadraticForm": "kernelite.series.quadratic",
    "RationalQuadratic": "kernelite.machine.kernels",
    "Rbf": "kernelite.machine.kernels",
    "RegressorHead": "kernelite.machine.heads",
    "RoundingTerms": "kernelite.series.rounding",
    "Selection": "kernelite.machine.front",
    "SeveralHead": "kernelite.machine.heads.multi_output",
    "SigmoidCalibrator": "kernelite.machine.heads.calibrators",
    "SigmoidKernel": "kernelite.machine.kernels",
    "SpectralForm": "kernelite.series.spectral",
    "SumKernel": "kernelite.machine.kernels",
    "TargetHead": "kernelite.machine.heads.target",
    "ThinPlateSpline": "kernelite.machine.kernels",
    "TransformHead": "kernelite.machine.heads",
    "Uncertainty": "kernelite.machine.uncertainty",
    "VotingHead": "kernelite.machine.heads.voting",
    "Whitening": "kernelite.machine.whitening",
}
"""Name and module; imported when a file or a model first needs it."""


def named_class(name: object, where: str = "model") -> type[Any]:
    """The class of that name, if files may hold it.

    Parameters
    ----------
    name : object
        Anything, since files say it.
    where : str
        What is of that class, for the message.

    Returns
    -------
    type

    Raises
    ------
    InputError
        For every other name.

    Examples
    --------
    >>> named_class("Plan")
    <class 'kernelite.planner.plan.Plan'>
    >>> named_class("os.system")
    Traceback (most recent call last):
    kernelite.errors.InputError: `model` is of the unknown class 'os.system', known are ...
    """
    if not isinstance(name, str) or name not in CLASSES:
        known = ", ".join(CLASSES)
        raise InputError(f"`{where}` is of the unknown class {_short(name)}, known are {known}.")
    cls: type[Any] = getattr(importlib.import_module(CLASSES[name]), name)
    return cls


def field_values(instance: Any) -> dict[str, Any]:
    """The fields that its constructor takes, by name."""
    return {name: getattr(instance, name) for name in _names(type(instance))}


def check_names(cls: type[Any], values: Mapping[str, Any], where: str) -> None:
    """Refuse values that are not exactly the fields of `cls`."""
    expected = _names(cls)
    for name in expected:
        if name not in values:
            raise InputError(f"`{where}` lacks the field `{name}` of a {cls.__name__}.")
    for name in values:
        if name not in expected:
            raise InputError(f"`{where}` has the field {_short(name)}, unknown to {cls.__name__}.")


def check_types(cls: type[Any], values: Mapping[str, Any], where: str) -> None:
    """Refuse values that are not of the types that the fields of `cls` are annotated with."""
    hints = _hints(cls.__name__, "scipy.sparse" in sys.modules)
    for name, value in values.items():
        if not conforms(value, hints[name]):
            got = f"an array of {value.dtype}" if hasattr(value, "dtype") else _short(value)
            raise InputError(f"`{name}` of `{where}` ({cls.__name__}) cannot be {got}.")


def _names(cls: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls) if field.init)


@functools.cache
def _hints(name: str, sparse: bool) -> dict[str, Any]:
    """Annotations may name what their module imports for the type checker only.

    No more than that is imported here, and SciPy's part, the slowest, not at all: while it is not
    loaded, nothing is an instance of its classes.
    """
    cls = named_class(name)
    own = (value for base in cls.__mro__ for value in inspect.get_annotations(base).values())
    said = re.findall(r"\w+", " ".join(map(str, own)))
    names = {other: named_class(other) for other in said if other in CLASSES}
    names["csr_array"] = (
        sys.modules["scipy.sparse"].csr_array if sparse else type("csr_array", (), {})
    )
    return field_hints(cls, names)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

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

__all__ = ["CLASSES", "check_names", "check_types", "field_values", "named_class", "tag_of"]

CLASSES = {
    "AffineMap": "kernelite.machine.affine",
    "Approximation": "kernelite.series.cells",
    "ArgmaxHead": "kernelite.machine.heads",
    "Bins": "kernelite.machine.preparation.encoding",
    "Branch": "kernelite.machine.preparation.columns",
    "Calibrated": "kernelite.machine.heads",
    "CalibratedHead": "kernelite.machine.heads",
    "Candidate": "kernelite.planner.plan",
    "Categories": "kernelite.machine.preparation.encoding",
    "Cell": "kernelite.series.cells",
    "Certificate": "kernelite.series.certificate",
    "ClassifierHead": "kernelite.machine.heads",
    "Columns": "kernelite.machine.preparation.columns",
    "CompiledModel": "kernelite.model",
    "ConstantHead": "kernelite.machine.heads",
    "CosineKernel": "kernelite.machine.kernels",
    "CubicForm": "kernelite.series.cubic",
    "DensityHead": "kernelite.machine.heads",
    "DirectionalBound": "kernelite.series.directional",
    "ExpSineSquared": "kernelite.machine.kernels",
    "Front": "kernelite.machine.front:Preparation",
    "Impute": "kernelite.machine.preparation.missing",
    "InverseMultiquadric": "kernelite.machine.kernels",
    "InverseQuadratic": "kernelite.machine.kernels",
    "IsotonicCalibrator": "kernelite.machine.heads",
    "KernelExpansion": "kernelite.machine.expansion",
    "Laplacian": "kernelite.machine.kernels",
    "LatentClassesHead": "kernelite.machine.heads",
    "LatentHead": "kernelite.machine.heads",
    "LinearHead": "kernelite.machine.heads",
    "LocalSums": "kernelite.series.local",
    "Matern": "kernelite.machine.kernels",
    "MeanHead": "kernelite.machine.heads",
    "Member": "kernelite.machine.heads",
    "Missing": "kernelite.machine.preparation.missing",
    "ModelPart": "kernelite.model",
    "MomentsHead": "kernelite.machine.heads",
    "Multiquadric": "kernelite.machine.kernels",
    "NamedInverse": "kernelite.machine.heads",
    "Normalize": "kernelite.machine.preparation.numeric",
    "OneHot": "kernelite.machine.preparation.encoding",
    "OneVsRestHead": "kernelite.machine.heads",
    "Ordinal": "kernelite.machine.preparation.encoding",
    "Origin": "kernelite.model",
    "OutlierHead": "kernelite.machine.heads",
    "OutputCodeHead": "kernelite.machine.heads",
    "OwnScaling": "kernelite.machine.preparation.numeric",
    "PairwiseHead": "kernelite.machine.heads:OneVsOneHead",
    "Plan": "kernelite.planner.plan",
    "Polynomial": "kernelite.machine.preparation.numeric",
    "PolynomialKernel": "kernelite.machine.kernels",
    "PolynomialTail": "kernelite.machine.polynomial_term",
    "Posterior": "kernelite.machine.variance",
    "PowerMap": "kernelite.machine.preparation.numeric",
    "PowerSpline": "kernelite.machine.kernels",
    "ProductKernel": "kernelite.machine.kernels",
    "Projection": "kernelite.machine.preparation.projection",
    "QuadraticForm": "kernelite.series.quadratic",
    "QuantileMap": "kernelite.machine.preparation.numeric",
    "RationalQuadratic": "kernelite.machine.kernels",
    "Rbf": "kernelite.machine.kernels",
    "RegressorHead": "kernelite.machine.heads",
    "RoundingTerms": "kernelite.series.rounding",
    "Selection": "kernelite.machine.preparation.selection",
    "SeveralHead": "kernelite.machine.heads:MultiOutputHead",
    "SigmoidCalibrator": "kernelite.machine.heads",
    "SigmoidKernel": "kernelite.machine.kernels",
    "SpectralForm": "kernelite.series.spectral",
    "SumKernel": "kernelite.machine.kernels",
    "TargetHead": "kernelite.machine.heads",
    "ThinPlateSpline": "kernelite.machine.kernels",
    "Threshold": "kernelite.machine.preparation.numeric",
    "TransformHead": "kernelite.machine.heads",
    "Uncertainty": "kernelite.machine.uncertainty",
    "VotingHead": "kernelite.machine.heads",
    "Whitening": "kernelite.machine.preparation.projection:Projection",  # read, not written
}
"""Tag in files, and the module of the class of that name, or `module:class` where that is called
otherwise by now. Imported when a file or a model first needs it."""

# A class's own name comes first in the list, and so wins where a file may call it otherwise.
_TAGS = {where.partition(":")[2] or tag: tag for tag, where in reversed(CLASSES.items())}


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
    module, _, renamed = CLASSES[name].partition(":")
    cls: type[Any] = getattr(importlib.import_module(module), renamed or name)
    return cls


def tag_of(cls: type[Any]) -> str | None:
    """What files call a class; None of one that they cannot hold.

    Examples
    --------
    >>> from kernelite.machine.heads import MultiOutputHead
    >>> tag_of(MultiOutputHead)
    'SeveralHead'
    """
    tag = _TAGS.get(cls.__name__)
    return tag if tag is not None and named_class(tag) is cls else None


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
    hints = _hints(_TAGS[cls.__name__], "scipy.sparse" in sys.modules)
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
    names = {other: named_class(_TAGS[other]) for other in said if other in _TAGS}
    names["csr_array"] = (
        sys.modules["scipy.sparse"].csr_array if sparse else type("csr_array", (), {})
    )
    return field_hints(cls, names)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

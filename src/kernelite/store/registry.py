"""Classes that a model file may name, and whether values have the types of their fields.

To make a new class storable, add a line to `CLASSES`; its fields must be annotated with what
`kernelite.store.packing` can hold.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import sys
import types
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from kernelite.support.errors import InputError

__all__ = [
    "CLASSES",
    "check_names",
    "check_types",
    "conforms",
    "field_values",
    "named_class",
    "tag_of",
]

# Whether a value has the type that a dataclass field is annotated with.
#
# In: a value built from a file, and the resolved annotation of its field. Out: yes or no.
# Constructors check shapes and ranges; this makes sure that what they check is an array, a number
# or a text at all.


def field_hints(cls: type, names: Mapping[str, Any]) -> dict[str, Any]:
    """Resolved annotations of a class.

    Parameters
    ----------
    cls : type
    names : mapping
        What annotations may name without their module importing it at run time.

    Returns
    -------
    dict
        Field name to type.

    Examples
    --------
    >>> from kernelite.planner.plan import Candidate
    >>> field_hints(Candidate, {})["nbytes"]
    <class 'int'>
    """
    return get_type_hints(cls, localns=dict(names))


def conforms(value: object, hint: Any) -> bool:
    """Whether `value` is what `hint` says: unions, literals, tuples, arrays by dtype, classes.

    Parameters
    ----------
    value : object
    hint : type or typing construct
        As `field_hints` gives it.

    Examples
    --------
    >>> conforms((1, 2), tuple[int, ...]), conforms(True, int), conforms("b", Literal["a"])
    (True, False, False)
    >>> from numpy.typing import NDArray
    >>> conforms(np.zeros(2), NDArray[np.float64]), conforms(np.zeros(2), NDArray[np.bool_])
    (True, False)
    """
    if isinstance(value, np.generic):
        value = value.item()
    origin, args = get_origin(hint), get_args(hint)
    # From NumPy 2.5 on, NDArray is a `type` statement, whose own meaning has to be asked for.
    if (meaning := getattr(origin or hint, "__value__", None)) is not None:
        return conforms(value, meaning[args] if args else meaning)
    if hint is Any:
        return True
    if hint is None or hint is types.NoneType:
        return value is None
    if origin in (Union, types.UnionType):
        return any(conforms(value, option) for option in args)
    if origin is Literal:
        return any(type(value) is type(option) and value == option for option in args)
    if origin is tuple:
        return isinstance(value, tuple) and _tuple_conforms(value, args)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _dtype_conforms(value.dtype, args[-1])
    if hint in (int, float):
        accepted = (int, float) if hint is float else int
        return isinstance(value, accepted) and not isinstance(value, bool)
    return isinstance(value, hint if origin is None else origin)


def _tuple_conforms(value: tuple[Any, ...], args: tuple[Any, ...]) -> bool:
    if len(args) == 2 and args[1] is Ellipsis:
        return all(conforms(item, args[0]) for item in value)
    return len(value) == len(args) and all(map(conforms, value, args))


def _dtype_conforms(dtype: np.dtype[Any], hint: Any) -> bool:
    # hint is np.dtype[scalar type]; the scalar type may be Any, a type, or a generic one
    (scalar,) = get_args(hint) or (Any,)
    if scalar is Any:
        return True
    return np.issubdtype(dtype, get_origin(scalar) or scalar)


# The classes.

CLASSES = {
    "AffineMap": "kernelite.machine.affine",
    "Approximation": "kernelite.series.approximation",
    "ArgmaxHead": "kernelite.machine.heads",
    "Bins": "kernelite.machine.preparation.encoding",
    "Branch": "kernelite.machine.preparation.columns",
    "Calibrated": "kernelite.machine.heads",
    "CalibratedHead": "kernelite.machine.heads",
    "Candidate": "kernelite.planner.plan",
    "Categories": "kernelite.machine.preparation.encoding",
    "Certificate": "kernelite.series.approximation",
    "ClassifierHead": "kernelite.machine.heads",
    "Columns": "kernelite.machine.preparation.columns",
    "CompiledModel": "kernelite.model",
    "ConstantHead": "kernelite.machine.heads",
    "CosineKernel": "kernelite.machine.kernels",
    "CubicForm": "kernelite.series.cubic",
    "DensityHead": "kernelite.machine.heads",
    "DirectionalBound": "kernelite.series.directional",
    "ExpSineSquared": "kernelite.machine.kernels",
    "Front": "kernelite.machine.preparation:Preparation",
    "Gaussian": "kernelite.machine.kernels",
    "Impute": "kernelite.machine.preparation.missing",
    "InverseMultiquadric": "kernelite.machine.kernels",
    "InverseQuadratic": "kernelite.machine.kernels",
    "IsotonicCalibrator": "kernelite.machine.heads",
    "KernelExpansion": "kernelite.machine.expansion",
    "AdditiveChiSquared": "kernelite.machine.kernels",
    "Bump": "kernelite.machine.kernels",
    "ChiSquared": "kernelite.machine.kernels",
    "Laplacian": "kernelite.machine.kernels",
    "LatentClassesHead": "kernelite.machine.heads",
    "LatentHead": "kernelite.machine.heads",
    "LinearHead": "kernelite.machine.heads",
    "LocalSums": "kernelite.series.approximation",
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
    "PolynomialTail": "kernelite.machine.machine",
    "Posterior": "kernelite.machine.variance",
    "PowerMap": "kernelite.machine.preparation.numeric",
    "PowerSpline": "kernelite.machine.kernels",
    "ProductKernel": "kernelite.machine.kernels",
    "Projection": "kernelite.machine.preparation.projection",
    "QuadraticForm": "kernelite.series.series",
    "QuantileMap": "kernelite.machine.preparation.numeric",
    "RationalQuadratic": "kernelite.machine.kernels",
    "Rbf": "kernelite.machine.kernels",
    "RegressorHead": "kernelite.machine.heads",
    "RoundingTerms": "kernelite.series.rounding",
    "Selection": "kernelite.machine.preparation.columns",
    "SeveralHead": "kernelite.machine.heads:MultiOutputHead",
    "SigmoidCalibrator": "kernelite.machine.heads",
    "SigmoidKernel": "kernelite.machine.kernels",
    "SpectralForm": "kernelite.series.spectral",
    "SumKernel": "kernelite.machine.kernels",
    "TargetHead": "kernelite.machine.heads",
    "ThinPlateSpline": "kernelite.machine.kernels",
    "Threshold": "kernelite.machine.preparation.numeric",
    "TransformHead": "kernelite.machine.heads",
    "Uncertainty": "kernelite.machine.exactly",
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
    kernelite.InputError: `model` is of the unknown class 'os.system', known are ...
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

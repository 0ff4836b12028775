"""Whether a value has the type that a dataclass field is annotated with.

In: a value built from a file, and the resolved annotation of its field. Out: yes or no.
Constructors check shapes and ranges; this makes sure that what they check is an array, a number or
a text at all.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

__all__ = ["conforms", "field_hints"]


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

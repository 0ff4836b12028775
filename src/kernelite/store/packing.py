"""Nested frozen dataclasses as a JSON tree and named tensors, and back; nothing is ever unpickled.

    dataclass      {"class": "LocalSums", "start": 6.0, ...}            a key a field
    array          {"tensor": "form.point"}                             the name is the path
    csr_array      {"csr": [rows, columns]}          path.data, path.indices, path.indptr
    texts          {"texts": ["no", "yes"], "width": 3}                 width null: dtype object
    inf, nan       {"float": "inf"}                                     other floats as they are
    tuple          [...]

Only the classes of `kernelite.store.registry` are packed and built. One whose fields are not what
should be stored offers `__pack__(self) -> dict`, and a classmethod `__unpack__(cls, dict)` where
its constructor does not take that as it is, or
`__stored__(dict) -> dict`, which gives the fields. One that no file can hold says why in
`__unstorable__`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelite.data.rows.inputs import is_sparse
from kernelite.store.registry import (
    check_names,
    check_types,
    field_values,
    named_class,
    tag_of,
)
from kernelite.support.errors import InputError, KerneliteError

__all__ = ["Tensors", "Tree", "pack", "unpack", "unstorable"]

# Arrays of texts, sparse arrays and special floats as the parts that a file can hold, and back.
#
# The functions that build trust nothing: sizes are checked before anything is allocated.

MAX_TEXT_BYTES = 2**24  # of one array: NumPy pads every text to the width of the dtype
MOST_STORED_COLUMNS = 2**31 - 1  # as in LIBSVM
SPECIAL_FLOATS = ("inf", "-inf", "nan")


def check_no_nan(array: NDArray[Any], path: str) -> None:
    """Refuse NaN; infinities are the owner's matter, since a bound may be infinite."""
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise InputError(f"`{path}` contains NaN.")


def float_of(tree: dict[str, Any], path: str) -> float:
    """The float that JSON has no number for."""
    if set(tree) != {"float"} or tree["float"] not in SPECIAL_FLOATS:
        raise InputError(f"`{path}` must be one of {', '.join(SPECIAL_FLOATS)}.")
    return float(tree["float"])


def texts_of(array: NDArray[Any], path: str) -> dict[str, Any]:
    """An array of texts, of dtype str or object, as a list and its width.

    Examples
    --------
    >>> texts_of(np.array(["no", "yes"]), "classes")
    {'texts': ['no', 'yes'], 'width': 3}
    """
    texts = array.tolist()
    if array.ndim != 1 or not all(isinstance(text, str) for text in texts):
        raise InputError(f"`{path}` must be a list of texts or an array of numbers to be stored.")
    width = None if array.dtype.kind == "O" else array.dtype.itemsize // 4
    _check_letters(texts, path)
    if width is not None and _too_wide(len(texts), width):
        raise InputError(f"the texts of `{path}` are too long to be stored.")
    return {"texts": [str(text) for text in texts], "width": width}


def text_array(tree: dict[str, Any], path: str) -> NDArray[Any]:
    """Back from `texts_of`.

    Examples
    --------
    >>> text_array({"texts": ["no", "yes"], "width": 3}, "classes")
    array(['no', 'yes'], dtype='<U3')
    """
    texts, width = tree["texts"], tree.get("width")
    sound = (
        set(tree) == {"texts", "width"}
        and isinstance(texts, list)
        and all(isinstance(text, str) for text in texts)
    )
    if not sound or not (width is None or (type(width) is int and width >= 0)):
        raise InputError(f"`{path}` must be a list of texts and their width.")
    _check_letters(texts, path)
    if width is None:
        return np.array(texts, dtype=object)
    if _too_wide(len(texts), width) or any(len(text) > width for text in texts):
        raise InputError(f"the texts of `{path}` do not fit the width {width}.")
    return np.array(texts, dtype=f"U{width}")


def csr_of(parts: tuple[NDArray[Any], ...], shape: Any, path: str) -> Any:
    """A canonical csr_array of data, indices and indptr, or an error that says what is wrong.

    Examples
    --------
    >>> parts = np.array([5.0]), np.array([2]), np.array([0, 1])
    >>> csr_of(parts, [1, 3], "centers").toarray()
    array([[0., 0., 5.]])
    """
    from scipy.sparse import csr_array

    data, indices, indptr = parts
    if not (isinstance(shape, list) and len(shape) == 2 and all(type(n) is int for n in shape)):
        raise InputError(f"`{path}` must give its rows and columns.")
    rows, columns = shape
    if columns > MOST_STORED_COLUMNS:
        raise InputError(f"`{path}` has {columns} columns, expected at most {MOST_STORED_COLUMNS}.")
    if any(part.ndim != 1 for part in parts) or len(data) != len(indices):
        raise InputError(f"`{path}` must have as many indices as values.")
    if indices.dtype.kind != "i" or indptr.dtype.kind != "i" or data.dtype.kind != "f":
        raise InputError(f"`{path}` must have floats as values and integers as indices.")
    if len(indptr) != rows + 1 or indptr[0] != 0 or indptr[-1] != len(data):
        raise InputError(f"`indptr` of `{path}` does not describe {rows} rows.")
    if (np.diff(indptr) < 0).any():
        raise InputError(f"`indptr` of `{path}` decreases.")
    if len(indices) and not (indices.min() >= 0 and indices.max() < columns):
        raise InputError(f"`{path}` has an index outside its {columns} columns.")
    built = csr_array((data, indices, indptr), shape=(rows, columns))
    if not built.has_canonical_format:
        raise InputError(f"`{path}` has unsorted or duplicate indices.")
    return built


def _too_wide(count: int, width: int) -> bool:
    return 4 * count * width > MAX_TEXT_BYTES


def _check_letters(texts: list[str], path: str) -> None:
    """Refuse half of a surrogate pair: no file and no terminal can be written with it."""
    for text in texts:
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise InputError(f"`{path}` holds {text[:50]!a}, which is not Unicode text.")


# Dataclasses as a tree and tensors, and back.

Tree: TypeAlias = "bool | int | float | str | list[Any] | dict[str, Any] | None"
Tensors: TypeAlias = "dict[str, NDArray[Any]]"

MAX_INT = 2**63 - 1
CSR_PARTS = ("data", "indices", "indptr")


def pack(value: object, path: str = "") -> tuple[Tree, Tensors]:
    """Take nested dataclasses apart.

    Parameters
    ----------
    value : object
        An instance of a registered class, or anything that their fields may hold.
    path : str
        Where it sits: the prefix of tensor names, also used in messages.

    Returns
    -------
    tree : what JSON can hold
    tensors : dict of str to ndarray
        C-contiguous.

    Raises
    ------
    InputError
        If something in it cannot be stored.

    Examples
    --------
    >>> from kernelite.machine.heads import OutlierHead
    >>> tree, tensors = pack(OutlierHead(offset=0.5, density_marks=np.arange(10.0)), "head")
    >>> tree["offset"], tree["density_marks"], list(tensors)
    (0.5, {'tensor': 'head.density_marks'}, ['head.density_marks'])
    """
    packer = _Packer()
    return packer.tree(value, path), packer.tensors


def unpack(tree: Tree, tensors: Mapping[str, NDArray[Any]], path: str = "") -> Any:
    """Put together what `pack` took apart, trusting neither argument.

    Parameters
    ----------
    tree : what JSON can hold
    tensors : mapping of str to ndarray
        Each must be named by the tree, once.
    path : str
        As for `pack`.

    Returns
    -------
    object
        What was packed.

    Raises
    ------
    InputError
        For unknown classes, missing or extra fields and tensors, wrong types, NaN in arrays, and
        whatever the classes themselves refuse.

    Examples
    --------
    >>> from kernelite.machine.heads import OutlierHead
    >>> unpack(*pack(OutlierHead(offset=0.5))).offset
    0.5
    """
    unpacker = _Unpacker(tensors)
    value = unpacker.value(tree, path)
    if unpacker.unused:
        raise InputError(f"the tensor `{min(unpacker.unused)}` belongs to nothing.")
    return value


class _Packer:
    """Walks down, collecting tensors; one method a kind of value."""

    def __init__(self) -> None:
        self.tensors: Tensors = {}

    def tree(self, value: Any, path: str) -> Tree:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, int) and abs(value) > MAX_INT:
            raise InputError(f"`{path}` is too large an integer to be stored.")
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, tuple):
            return [self.tree(item, _join(path, str(i))) for i, item in enumerate(value)]
        if isinstance(value, np.ndarray):
            return texts_of(value, path) if value.dtype.kind in "UO" else self.tensor(value, path)
        if is_sparse(value) and value.format == "csr":
            for part in CSR_PARTS:
                self.tensor(getattr(value, part), _join(path, part))
            return {"csr": [int(n) for n in value.shape]}
        return self.instance(value, path)

    def tensor(self, array: NDArray[Any], path: str) -> Tree:
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
            raise InputError(f"`{path}` has dtype {array.dtype}, which cannot be stored.")
        check_no_nan(array, path)
        little = array.dtype.newbyteorder("<")
        self.tensors[path] = np.require(array, dtype=little, requirements="C")
        return {"tensor": path}

    def instance(self, value: Any, path: str) -> Tree:
        cls, where = type(value), path or "model"
        if hasattr(value, "__unstorable__"):
            raise InputError(value.__unstorable__)
        tag = tag_of(cls)
        if tag is None:
            raise InputError(f"`{where}` is a {cls.__name__}, which cannot be stored.")
        own = field_values(value)
        check_types(cls, own, where)
        stored = value.__pack__() if hasattr(cls, "__pack__") else own
        tree = {name: self.tree(item, _join(path, name)) for name, item in stored.items()}
        return {"class": tag} | tree


def unstorable(value: Any) -> str | None:
    """Why no file can hold a model, or a part of one; None where nothing is known to be in the way.

    Examples
    --------
    >>> unstorable((1.0, "text")) is None
    True
    """
    if hasattr(value, "__unstorable__"):
        return str(value.__unstorable__)
    parts: Any = value if isinstance(value, tuple | list) else ()
    if is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in fields(value)]
    return next((why for why in map(unstorable, parts) if why is not None), None)


class _Unpacker:
    """Walks down, using each tensor once; one method a kind of node."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        self.tensors = tensors
        self.unused = set(tensors)

    def value(self, tree: Tree, path: str) -> Any:
        if isinstance(tree, list):
            return tuple(self.value(item, _join(path, str(i))) for i, item in enumerate(tree))
        if isinstance(tree, int) and abs(tree) > MAX_INT:
            raise InputError(f"`{path}` is too large an integer.")
        if not isinstance(tree, dict):
            return tree
        builders = {
            "class": self.instance,
            "tensor": self.named_tensor,
            "csr": self.csr,
            "texts": text_array,
            "float": float_of,
        }
        for key, build in builders.items():
            if key in tree:
                return build(tree, path)
        raise InputError(f"`{path or 'model'}` is of no known kind.")

    def instance(self, tree: dict[str, Any], path: str) -> Any:
        where = path or "model"
        cls = named_class(tree["class"], where)
        stored = {
            name: self.value(item, _join(path, name))
            for name, item in tree.items()
            if name != "class"
        }
        given = hasattr(cls, "__stored__")
        hooked = hasattr(cls, "__unpack__") or (hasattr(cls, "__pack__") and not given)
        if given:
            stored = cls.__stored__(stored)
        if not hooked:
            check_names(cls, stored, where)
            check_types(cls, stored, where)
        try:
            value = getattr(cls, "__unpack__", lambda held: cls(**held))(stored)
        except KerneliteError as error:
            raise InputError(f"`{where}`: {error}") from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # The values come from a file: what a constructor trips over is the file's fault.
            raise InputError(f"`{where}` is not a sound {cls.__name__} ({error}).") from None
        if hooked:
            check_types(cls, field_values(value), where)
        return value

    def named_tensor(self, tree: dict[str, Any], path: str) -> NDArray[Any]:
        if tree != {"tensor": path}:
            raise InputError(f"`{path}` does not name its own tensor.")
        return self.tensor(path)

    def tensor(self, path: str) -> NDArray[Any]:
        if path not in self.unused:
            raise InputError(f"the tensor `{path}` is missing.")
        self.unused.remove(path)
        array = self.tensors[path]
        check_no_nan(array, path)
        return array

    def csr(self, tree: dict[str, Any], path: str) -> Any:
        parts = tuple(self.tensor(_join(path, part)) for part in CSR_PARTS)
        return csr_of(parts, tree["csr"] if len(tree) == 1 else None, path)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
